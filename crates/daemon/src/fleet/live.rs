//! Live output of turns that run on other nodes: asked for while somebody watches here, sent while somebody watches
//! there. The database's notifications carry it, so nodes need no way to each other.

use crate::Daemon;
use bridge_core::deadline::after;
use bridge_core::port::{Agent, Extent, Ledger, LedgerError, Sink, TextUpdate};
use bridge_core::value::{ItemId, MessageId, NodeId};
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
const ELSEWHERE_MAX: usize = 256;

/// What the nodes give each other to see.
#[derive(Debug, Default)]
pub(crate) struct Relay {
    /// Turns on other nodes that are watched here.
    elsewhere: Mutex<HashMap<MessageId, Remote>>,
    /// Turns here that are watched on other nodes.
    shown: Mutex<HashMap<MessageId, Shown>>,
}

/// A turn on another node.
#[derive(Debug)]
struct Remote {
    node: NodeId,
    /// As far as it came.
    text: Option<TextUpdate>,
}

#[derive(Clone, Copy, Debug)]
struct Shown {
    until: Instant,
    /// Somebody knows nothing of its text.
    anew: bool,
}

impl Relay {
    fn elsewhere(&self) -> MutexGuard<'_, HashMap<MessageId, Remote>> {
        self.elsewhere
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn shown(&self) -> MutexGuard<'_, HashMap<MessageId, Shown>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows exactly these turns; which of them nothing is known of, and which go on.
    fn follow(&self, turns: HashMap<MessageId, NodeId>, hub: &Hub) -> [Vec<MessageId>; 2] {
        let mut elsewhere = self.elsewhere();
        elsewhere.retain(|message_id, remote| {
            let goes_on = turns.get(message_id) == Some(&remote.node);
            if !goes_on {
                hub.clear_text(message_id);
            }
            goes_on
        });
        for (message_id, node) in turns {
            let text = None;
            elsewhere.entry(message_id).or_insert(Remote { node, text });
        }
        let (known, anew): (Vec<_>, Vec<_>) = elsewhere
            .iter()
            .partition(|(_, remote)| remote.text.is_some());
        [anew, known].map(|turns| turns.into_iter().map(|(id, _)| id.clone()).collect())
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
        let mut elsewhere = self.elsewhere();
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
                let before = match remote.text.take() {
                    _ if from == 0 => String::new(),
                    Some(known) if known.item_id == item_id && known.text.len() == from => {
                        known.text
                    }
                    // Something is missing: the next question is for all of it.
                    Some(_) | None => return None,
                };
                let text = before + &text;
                let text = TextUpdate {
                    item_id,
                    phase,
                    extent,
                    text,
                };
                LiveUpdate::Text(remote.text.insert(text).clone().into())
            }
            LiveNote::Diff { text, .. } => LiveUpdate::Diff(text.into()),
            LiveNote::Output { text, .. } => LiveUpdate::Output(text.into()),
        };
        Some((message_id, update))
    }

    /// Another node watches a turn of ours. True when nothing of it was sent so far.
    fn show(&self, message_id: &MessageId, anew: bool) -> bool {
        let until = after(Instant::now(), WATCHED_FOR);
        let mut shown = self.shown();
        match shown.get_mut(message_id) {
            Some(known) => {
                known.until = until;
                known.anew |= anew;
                false
            }
            None => {
                let anew = false;
                shown.insert(message_id.clone(), Shown { until, anew });
                true
            }
        }
    }

    /// Whether a turn is still watched elsewhere, and whether somebody knows nothing of its text.
    fn shown_still(&self, message_id: &MessageId, runs: bool) -> Option<bool> {
        let mut shown = self.shown();
        let known = shown.get_mut(message_id)?;
        if !runs || known.until < Instant::now() {
            shown.remove(message_id);
            return None;
        }
        Some(std::mem::take(&mut known.anew))
    }
}

/// How much of a turn's text was sent.
#[derive(Debug, Default)]
struct Sent {
    item_id: Option<ItemId>,
    bytes: usize,
}

impl Sent {
    /// What is to be sent of a text.
    fn notes(&mut self, message_id: &MessageId, update: &TextUpdate) -> Vec<LiveNote> {
        if self.item_id.as_ref() != Some(&update.item_id) || update.text.len() < self.bytes {
            self.item_id = Some(update.item_id.clone());
            self.bytes = 0;
        }
        let mut notes = Vec::new();
        loop {
            let rest = update.text.get(self.bytes..).unwrap_or_default();
            let part = piece(rest);
            let from = self.bytes;
            self.bytes += part.len();
            let is_last = part.len() == rest.len();
            notes.push(LiveNote::Text {
                message_id: message_id.clone(),
                item_id: update.item_id.clone(),
                phase: update.phase,
                extent: match update.extent {
                    Extent::Whole if !is_last => Extent::Head,
                    extent => extent,
                },
                from,
                text: part.to_owned(),
            });
            if is_last {
                return notes;
            }
        }
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
                    nodes.tell_nodes(LiveNote::Watch { messages, anew });
                }
            }
        }
    }

    /// The watched messages whose turns run on other nodes.
    async fn watched_elsewhere(&self) -> Result<HashMap<MessageId, NodeId>, LedgerError> {
        let mut watched = self.hub.watched();
        watched.truncate(ELSEWHERE_MAX);
        let this = self.settings().start.node.clone();
        let this = this.map(|node| node.node_id);
        if watched.is_empty() {
            return Ok(HashMap::new());
        }
        let find = self.ledger.read(move |rows| {
            let mut turns = HashMap::new();
            for message_id in watched {
                let message = rows.message(&message_id)?;
                let Some(message) = message.filter(|message| message.life.state.name().in_flight())
                else {
                    continue;
                };
                let home = rows.home(&message.conversation_id)?;
                match home.and_then(|home| home.node_id) {
                    Some(node) if Some(&node) != this.as_ref() => {
                        turns.insert(message_id, node);
                    }
                    Some(_) | None => {}
                }
            }
            Ok(turns)
        });
        find.await
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
            if self.turns.running.lock().contains_key(&message_id)
                && self.relay.show(&message_id, anew)
            {
                tokio::spawn(Arc::clone(self).show_elsewhere(nodes.clone(), message_id));
            }
        }
    }

    /// Sends what a turn writes, as long as it runs and somebody watches.
    async fn show_elsewhere(self: Arc<Self>, nodes: PostgresLedger, message_id: MessageId) {
        let Some(mut updates) = self.hub.watch(&message_id) else {
            return;
        };
        let mut sent = Sent::default();
        let mut unsent = self.hub.current_text(&message_id);
        let mut tick = interval(SEND_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let send = |sent: &mut Sent, text: &TextUpdate| {
            for note in sent.notes(&message_id, text) {
                nodes.tell_nodes(note);
            }
        };
        loop {
            let update = tokio::select! {
                update = updates.next() => update,
                _ = tick.tick() => {
                    let runs = self.turns.running.lock().contains_key(&message_id);
                    let Some(anew) = self.relay.shown_still(&message_id, runs) else {
                        return;
                    };
                    if anew {
                        sent = Sent::default();
                        unsent = self.hub.current_text(&message_id);
                    }
                    if let Some(text) = unsent.take() {
                        send(&mut sent, &text);
                    }
                    continue;
                }
            };
            let message_id = message_id.clone();
            match update {
                LiveUpdate::Changed => {}
                LiveUpdate::Text(text) => {
                    let before = unsent.replace(Arc::clone(&text));
                    // An item ends with its whole text, which the next one must not replace.
                    if let Some(before) = before.filter(|before| before.item_id != text.item_id) {
                        send(&mut sent, &before);
                    }
                }
                LiveUpdate::Diff(diff) => {
                    let text = piece(&diff).to_owned();
                    nodes.tell_nodes(LiveNote::Diff { message_id, text });
                }
                LiveUpdate::Output(output) => {
                    let text = piece(&output).to_owned();
                    nodes.tell_nodes(LiveNote::Output { message_id, text });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_core::port::Phase;

    fn update(item: &str, text: &str) -> TextUpdate {
        TextUpdate {
            item_id: ItemId::new(item),
            phase: Phase::Unmarked,
            extent: Extent::Whole,
            text: text.to_owned(),
        }
    }

    fn seen(live: Option<(MessageId, LiveUpdate)>) -> Option<String> {
        match live {
            Some((_, LiveUpdate::Text(update))) => Some(update.text.clone()),
            _ => None,
        }
    }

    fn watching(node: &str) -> (Relay, MessageId) {
        let (relay, message) = (Relay::default(), MessageId::new("m"));
        let turns = HashMap::from([(message.clone(), NodeId::new(node))]);
        let [anew, known] = relay.follow(turns, &Hub::default());
        assert_eq!((anew.len(), known.len()), (1, 0));
        (relay, message)
    }

    #[test]
    fn pieces_make_the_whole_text() {
        let (relay, message) = watching("b");
        let node = NodeId::new("b");
        let (long, longer) = ("ä".repeat(5_000), "ä".repeat(5_200));
        let mut sent = Sent::default();
        let mut last = None;
        for text in [&long, &longer] {
            for note in sent.notes(&message, &update("one", text)) {
                last = seen(relay.hear(&node, note));
            }
            assert_eq!(last.as_ref(), Some(text));
        }
        for note in sent.notes(&message, &update("two", "short")) {
            last = seen(relay.hear(&node, note));
        }
        assert_eq!(last.as_deref(), Some("short"));
    }

    #[test]
    fn lost_pieces_are_asked_for_anew() {
        let (relay, message) = watching("b");
        let node = NodeId::new("b");
        let mut sent = Sent::default();
        let notes = sent.notes(&message, &update("one", &"x".repeat(5_000)));
        assert!(seen(relay.hear(&node, notes[0].clone())).is_some());
        assert_eq!(seen(relay.hear(&node, notes[2].clone())), None);
        let turns = HashMap::from([(message.clone(), node)]);
        let [anew, _] = relay.follow(turns, &Hub::default());
        assert_eq!(anew, [message]);
    }

    #[test]
    fn other_nodes_are_not_believed() {
        let (relay, message) = watching("b");
        let frozen = NodeId::new("a");
        let note = Sent::default().notes(&message, &update("one", "old"));
        assert_eq!(seen(relay.hear(&frozen, note[0].clone())), None);
    }
}
