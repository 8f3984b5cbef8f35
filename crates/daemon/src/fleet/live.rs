//! Live output of turns that run on other nodes: asked for while somebody watches here, sent while somebody watches
//! there. The database's notifications carry it, so nodes need no way to each other.

use super::texts::{ReceivedText, SentTexts};
use crate::Daemon;
use bridge_core::deadline::after;
use bridge_core::port::{Agent, Ledger, LedgerError, Sink, TextUpdate};
use bridge_core::value::{MessageId, NodeId};
use bridge_front::{Hub, LiveUpdate};
use bridge_store::{LiveNote, PostgresLedger, piece};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// How often a node says what it watches.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// How long a node sends to one that is silent.
const WATCHED_FOR: Duration = Duration::from_secs(7);
/// Between two notes with text of one turn: Codex writes word by word.
const SEND_EVERY: Duration = Duration::from_millis(100);
/// Turns named in one note.
const NAMED_MAX: usize = 20;
/// Turns of other nodes that are watched here at the same time.
const ELSEWHERE_MAX: u32 = 256;

/// What the nodes give each other to see.
#[derive(Debug, Default)]
pub(crate) struct Relay {
    /// Turns on other nodes that are watched here.
    elsewhere: Mutex<HashMap<MessageId, Remote>>,
    /// Turns here that are watched on other nodes.
    shown: Arc<Mutex<ShownTurns>>,
}

type ShownTurns = HashMap<MessageId, Shown>;

/// A turn on another node.
#[derive(Debug)]
struct Remote {
    node: NodeId,
    text: ReceivedText,
}

impl Remote {
    /// It goes on elsewhere, or here, where it may have begun to write.
    fn leave(&self, message_id: &MessageId, hub: &Hub) {
        let text = hub.current_text(message_id);
        if text.is_some_and(|text| self.text.is_in(&text)) {
            hub.clear_text(message_id);
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Shown {
    until: Instant,
    /// Somebody lacks some of its text.
    anew: bool,
}

/// Keeps a turn among those that are shown.
#[derive(Debug)]
struct Showing {
    message_id: MessageId,
    shown: Arc<Mutex<ShownTurns>>,
}

impl Drop for Showing {
    fn drop(&mut self) {
        lock(&self.shown).remove(&self.message_id);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Relay {
    /// Follows exactly these turns; of which of them some text is missing, and which go on.
    fn follow(&self, turns: HashMap<MessageId, NodeId>, hub: &Hub) -> [Vec<MessageId>; 2] {
        let mut elsewhere = lock(&self.elsewhere);
        elsewhere.retain(|message_id, remote| {
            let goes_on = turns.get(message_id) == Some(&remote.node);
            if !goes_on {
                remote.leave(message_id, hub);
            }
            goes_on
        });
        for (message_id, node) in turns {
            let text = ReceivedText::default();
            elsewhere.entry(message_id).or_insert(Remote { node, text });
        }
        let (anew, known): (Vec<_>, Vec<_>) = elsewhere
            .iter()
            .partition(|(_, remote)| remote.text.lacks());
        [anew, known].map(|turns| turns.into_iter().map(|(id, _)| id.clone()).collect())
    }

    /// The turn of a message runs here now.
    fn runs_here(&self, message_id: &MessageId, hub: &Hub) {
        if let Some(remote) = lock(&self.elsewhere).remove(message_id) {
            remote.leave(message_id, hub);
        }
    }

    /// What watchers here see of a note. Only the node that runs a turn is believed: one that was frozen may still send.
    fn hear(&self, node: &NodeId, note: LiveNote) -> Option<(MessageId, LiveUpdate)> {
        let message_id = match &note {
            LiveNote::Watch { .. } | LiveNote::Steer { .. } | LiveNote::Steered { .. } => {
                return None;
            }
            LiveNote::Text { message_id, .. }
            | LiveNote::Diff { message_id, .. }
            | LiveNote::Output { message_id, .. } => message_id.clone(),
        };
        let mut elsewhere = lock(&self.elsewhere);
        let remote = elsewhere.get_mut(&message_id);
        let remote = remote.filter(|remote| remote.node == *node)?;
        let update = match note {
            LiveNote::Watch { .. } | LiveNote::Steer { .. } | LiveNote::Steered { .. } => {
                return None;
            }
            LiveNote::Text {
                item_id,
                phase,
                extent,
                from,
                text,
                ..
            } => {
                let part = TextUpdate {
                    item_id,
                    phase,
                    extent,
                    text,
                };
                LiveUpdate::Text(remote.text.add(from, part)?.into())
            }
            LiveNote::Diff { text, .. } => LiveUpdate::Diff(text.into()),
            LiveNote::Output { text, .. } => LiveUpdate::Output(text.into()),
        };
        Some((message_id, update))
    }

    /// Another node watches a turn of ours. Gives what keeps the turn shown if it was not.
    fn show(&self, message_id: &MessageId, anew: bool) -> Option<Showing> {
        let until = after(Instant::now(), WATCHED_FOR);
        let mut shown = lock(&self.shown);
        if let Some(known) = shown.get_mut(message_id) {
            known.until = until;
            known.anew |= anew;
            return None;
        }
        let anew = false;
        shown.insert(message_id.clone(), Shown { until, anew });
        Some(Showing {
            message_id: message_id.clone(),
            shown: Arc::clone(&self.shown),
        })
    }

    /// Whether a turn is still watched elsewhere, and whether somebody lacks some of its text.
    fn shown_still(&self, message_id: &MessageId) -> Option<bool> {
        let mut shown = lock(&self.shown);
        let known = shown.get_mut(message_id)?;
        let anew = std::mem::take(&mut known.anew);
        (known.until >= Instant::now()).then_some(anew)
    }
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Asks for the output of turns that run elsewhere and are watched here; the loop.
    pub(crate) async fn watch_other_nodes(self: Arc<Self>, nodes: PostgresLedger) {
        let mut ask = interval(ASK_EVERY);
        ask.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = self.hub.watch_begun() => {}
                _ = ask.tick() => {}
            }
            let turns = match self.watched_elsewhere().await {
                Ok(turns) => turns,
                Err(error) => {
                    tracing::debug!(%error, "where watched turns run can't be read now");
                    continue;
                }
            };
            let [anew, known] = self.relay.follow(turns, &self.hub);
            for (messages, anew) in [(anew, true), (known, false)] {
                for messages in messages.chunks(NAMED_MAX) {
                    let messages = messages.to_vec();
                    // What is lost is asked again.
                    let _sent = nodes.tell_nodes(LiveNote::Watch { messages, anew });
                }
            }
        }
    }

    /// The watched messages whose turns run on other nodes.
    pub(crate) async fn watched_elsewhere(
        &self,
    ) -> Result<HashMap<MessageId, NodeId>, LedgerError> {
        let watched = self.hub.watched();
        if watched.is_empty() {
            return Ok(HashMap::new());
        }
        let find = self
            .ledger
            .read(move |rows| rows.in_flight_elsewhere(&watched, ELSEWHERE_MAX));
        Ok(find.await?.into_iter().collect())
    }

    /// What another node says of running turns.
    pub(crate) fn hear_live(
        self: &Arc<Self>,
        nodes: &PostgresLedger,
        node: &NodeId,
        note: LiveNote,
    ) {
        let (messages, anew) = match note {
            LiveNote::Watch { messages, anew } => (messages, anew),
            LiveNote::Steer { .. } | LiveNote::Steered { .. } => {
                return self.hear_steer(nodes, note);
            }
            note => {
                if let Some((message_id, update)) = self.relay.hear(node, note) {
                    self.hub.publish(&message_id, update);
                }
                return;
            }
        };
        for message_id in messages {
            if !self.turns.running.lock().contains_key(&message_id) {
                continue;
            }
            self.relay.runs_here(&message_id, &self.hub);
            if let Some(showing) = self.relay.show(&message_id, anew) {
                tokio::spawn(Arc::clone(self).show_elsewhere(nodes.clone(), showing));
            }
        }
    }

    /// Sends what a turn writes, as long as it runs and somebody watches.
    async fn show_elsewhere(self: Arc<Self>, nodes: PostgresLedger, showing: Showing) {
        let message_id = &showing.message_id;
        let Some(mut updates) = self.hub.watch(message_id) else {
            return;
        };
        let mut texts = SentTexts::default();
        texts.again(self.hub.current_text(message_id));
        let mut tick = interval(SEND_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let update = tokio::select! {
                update = updates.next() => update,
                _ = tick.tick() => {
                    if !self.turns.running.lock().contains_key(message_id) {
                        return;
                    }
                    let Some(anew) = self.relay.shown_still(message_id) else {
                        return;
                    };
                    if anew {
                        texts.again(self.hub.current_text(message_id));
                    }
                    texts.send(message_id, |note| nodes.tell_nodes(note));
                    continue;
                }
            };
            let message_id = message_id.clone();
            let note = match update {
                LiveUpdate::Changed => continue,
                LiveUpdate::Text(text) => {
                    texts.put(text);
                    continue;
                }
                LiveUpdate::Diff(diff) => LiveNote::Diff {
                    message_id,
                    text: piece(&diff).to_owned(),
                },
                LiveUpdate::Output(output) => LiveNote::Output {
                    message_id,
                    text: piece(&output).to_owned(),
                },
            };
            // Seen on this node alone, where it is lost.
            let _sent = nodes.tell_nodes(note);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_core::port::{Extent, Phase};
    use bridge_core::value::ItemId;

    fn part(message_id: &MessageId, from: usize, text: &str) -> LiveNote {
        LiveNote::Text {
            message_id: message_id.clone(),
            item_id: ItemId::new("one"),
            phase: Phase::Unmarked,
            extent: Extent::Head,
            from,
            text: text.to_owned(),
        }
    }

    #[test]
    fn turns_that_lack_text_ask_anew() {
        let (relay, message) = (Relay::default(), MessageId::new("m"));
        let node = NodeId::new("b");
        let turns = || HashMap::from([(message.clone(), node.clone())]);
        let asks_anew = || {
            let [anew, known] = relay.follow(turns(), &Hub::default());
            assert_eq!(anew.len() + known.len(), 1);
            anew.len() == 1
        };
        assert!(asks_anew(), "nothing came yet");
        assert!(relay.hear(&node, part(&message, 0, "first")).is_some());
        assert!(!asks_anew());
        assert_eq!(relay.hear(&node, part(&message, 9, "third")), None);
        assert!(asks_anew());
    }

    #[test]
    fn text_of_turn_that_runs_here_stays() {
        let (relay, message, hub) = (Relay::default(), MessageId::new("m"), Hub::default());
        let node = NodeId::new("b");
        for own in [None, Some("two")] {
            relay.follow(HashMap::from([(message.clone(), node.clone())]), &hub);
            let (id, received) = relay.hear(&node, part(&message, 0, "old")).unwrap();
            hub.publish(&id, received);
            let own = own.map(|item| TextUpdate {
                item_id: ItemId::new(item),
                phase: Phase::Unmarked,
                extent: Extent::Head,
                text: "new".to_owned(),
            });
            if let Some(own) = own.clone() {
                hub.publish(&message, LiveUpdate::Text(own.into()));
            }
            relay.runs_here(&message, &hub);
            let text = hub.current_text(&message);
            assert_eq!(text.map(|text| TextUpdate::clone(&text)), own);
        }
    }

    #[test]
    fn other_nodes_are_not_believed() {
        let (relay, message) = (Relay::default(), MessageId::new("m"));
        let turns = HashMap::from([(message.clone(), NodeId::new("b"))]);
        relay.follow(turns, &Hub::default());
        let note = part(&message, 0, "old");
        assert_eq!(relay.hear(&NodeId::new("a"), note.clone()), None);
        assert!(relay.hear(&NodeId::new("b"), note).is_some());
    }

    #[test]
    fn hidden_turn_is_shown_later() {
        let (relay, message) = (Relay::default(), MessageId::new("m"));
        let showing = relay.show(&message, true);
        assert!(relay.show(&message, true).is_none());
        assert_eq!(relay.shown_still(&message), Some(true));
        drop(showing);
        assert_eq!(relay.shown_still(&message), None);
        assert!(relay.show(&message, true).is_some());
    }
}
