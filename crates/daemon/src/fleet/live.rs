//! Live output of turns that run on other nodes: asked for while somebody watches here, sent while somebody watches
//! there. The database's notifications carry it, so nodes need no way to each other.

use crate::Daemon;
use bridge_core::deadline::after;
use bridge_core::port::{Agent, Extent, Ledger, LedgerError, Sink, TextUpdate};
use bridge_core::value::{ItemId, MessageId, NodeId};
use bridge_front::{Hub, LiveUpdate};
use bridge_store::{LiveNote, PostgresLedger, piece};
use std::collections::{HashMap, VecDeque};
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
/// Items of a turn whose texts wait to be sent; of more of them the oldest are not shown elsewhere.
const ITEMS_MAX: usize = 16;

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
    /// As far as it came.
    text: Option<TextUpdate>,
    /// Nothing came yet, or a part is missing.
    lacks: bool,
}

impl Remote {
    /// The text with a part that came. Nothing where the part is known: it was sent again for another node.
    fn with(&mut self, from: usize, part: TextUpdate) -> Option<TextUpdate> {
        let known = self.text.as_ref();
        let known = known.filter(|known| known.item_id == part.item_id);
        let text = known.map_or("", |known| known.text.as_str());
        let Some((before, rest)) = text.split_at_checked(from) else {
            self.lacks = true;
            return None;
        };
        self.lacks = false;
        // A text is whole where its last part ends, and no earlier part says so.
        if known.is_some() && part.extent != Extent::Whole && rest.starts_with(&part.text) {
            return None;
        }
        let text = before.to_owned() + &part.text;
        let now = TextUpdate { text, ..part };
        if known == Some(&now) {
            return None;
        }
        Some(self.text.insert(now).clone())
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
                hub.clear_text(message_id);
            }
            goes_on
        });
        for (message_id, node) in turns {
            elsewhere.entry(message_id).or_insert(Remote {
                node,
                text: None,
                lacks: true,
            });
        }
        let (anew, known): (Vec<_>, Vec<_>) =
            elsewhere.iter().partition(|(_, remote)| remote.lacks);
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
                LiveUpdate::Text(remote.with(from, part)?.into())
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

/// Texts of a turn on their way to other nodes.
#[derive(Debug, Default)]
struct Texts {
    /// The newest of each item that is not sent yet: an item ends with its whole text, which the next one must not replace.
    unsent: VecDeque<Arc<TextUpdate>>,
    /// What was sent last, and how many bytes of it.
    sent: Option<(Arc<TextUpdate>, usize)>,
}

impl Texts {
    fn put(&mut self, text: Arc<TextUpdate>) {
        match self.unsent.back_mut() {
            Some(last) if last.item_id == text.item_id => *last = text,
            _ => {
                if self.unsent.len() >= ITEMS_MAX {
                    self.unsent.pop_front();
                }
                self.unsent.push_back(text);
            }
        }
    }

    /// Somebody lacks some of the text: all of it goes again, and who knows it passes over it.
    fn again(&mut self, current: Option<Arc<TextUpdate>>) {
        self.sent = None;
        if self.unsent.is_empty() {
            self.unsent.extend(current);
        }
    }

    /// Sends in parts what was not sent; what finds no room now goes with the next call.
    fn send(&mut self, message_id: &MessageId, mut tell: impl FnMut(LiveNote) -> bool) {
        while let Some(update) = self.unsent.front() {
            let from = match &self.sent {
                Some((before, bytes)) if begins_alike(before, update, *bytes) => *bytes,
                Some(_) | None => 0,
            };
            let rest = update.text.get(from..).unwrap_or_default();
            let part = piece(rest);
            let is_last = part.len() == rest.len();
            let told = tell(LiveNote::Text {
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
            if !told {
                return;
            }
            self.sent = Some((Arc::clone(update), from.saturating_add(part.len())));
            if is_last {
                self.unsent.pop_front();
            }
        }
    }
}

/// Whether what was sent of one text is the beginning of the other one.
fn begins_alike(one: &TextUpdate, other: &TextUpdate, bytes: usize) -> bool {
    let (begun, now) = (one.text.get(..bytes), other.text.get(..bytes));
    one.item_id == other.item_id && now.is_some() && begun == now
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
                    let _told = nodes.tell_nodes(LiveNote::Watch { messages, anew });
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
        let mut texts = Texts::default();
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
            let _told = nodes.tell_nodes(note);
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

    fn notes(texts: &mut Texts, message: &MessageId, update: TextUpdate) -> Vec<LiveNote> {
        let mut notes = Vec::new();
        texts.put(Arc::new(update));
        texts.send(message, |note| {
            notes.push(note);
            true
        });
        notes
    }

    #[test]
    fn pieces_make_the_whole_text() {
        let (relay, message) = watching("b");
        let node = NodeId::new("b");
        let (long, longer) = ("ä".repeat(5_000), "ä".repeat(5_200));
        let mut texts = Texts::default();
        let mut last = None;
        for text in [&long, &longer] {
            for note in notes(&mut texts, &message, update("one", text)) {
                last = seen(relay.hear(&node, note));
            }
            assert_eq!(last.as_ref(), Some(text));
        }
        for note in notes(&mut texts, &message, update("two", "short")) {
            last = seen(relay.hear(&node, note));
        }
        assert_eq!(last.as_deref(), Some("short"));
    }

    #[test]
    fn lost_pieces_are_asked_for_anew() {
        let (relay, message) = watching("b");
        let node = NodeId::new("b");
        let mut texts = Texts::default();
        let whole = "x".repeat(5_000);
        let sent = notes(&mut texts, &message, update("one", &whole));
        assert!(seen(relay.hear(&node, sent[0].clone())).is_some());
        assert_eq!(seen(relay.hear(&node, sent[2].clone())), None);
        let turns = HashMap::from([(message.clone(), node.clone())]);
        let [anew, _] = relay.follow(turns, &Hub::default());
        assert_eq!(anew, [message.clone()]);
        let again = notes(&mut Texts::default(), &message, update("one", &whole));
        let shown: Vec<_> = again
            .into_iter()
            .filter_map(|note| seen(relay.hear(&node, note)))
            .collect();
        assert!(shown.is_sorted_by_key(String::len), "it only grows");
        assert!(shown[0].len() > 1_200, "what is known is not shown again");
        assert_eq!(shown.last(), Some(&whole));
    }

    #[test]
    fn what_is_known_is_not_shown_again() {
        let (relay, message) = watching("b");
        let node = NodeId::new("b");
        for extent in [Extent::Head, Extent::Whole] {
            let text = || TextUpdate {
                extent,
                ..update("one", &"word ".repeat(1_000))
            };
            let first = notes(&mut Texts::default(), &message, text());
            let seen_first = first
                .into_iter()
                .filter(|note| relay.hear(&node, note.clone()).is_some());
            assert_ne!(seen_first.count(), 0, "{extent:?}");
            for note in notes(&mut Texts::default(), &message, text()) {
                assert_eq!(relay.hear(&node, note), None, "{extent:?}");
            }
        }
    }

    #[test]
    fn text_with_another_beginning_is_replaced() {
        let (relay, message) = watching("b");
        let node = NodeId::new("b");
        let mut texts = Texts::default();
        let joined = TextUpdate {
            extent: Extent::Middle,
            ..update("one", "the end")
        };
        let mut last = None;
        for text in [joined, update("one", "From its beginning to the end")] {
            for note in notes(&mut texts, &message, text) {
                last = seen(relay.hear(&node, note));
            }
        }
        assert_eq!(last.as_deref(), Some("From its beginning to the end"));
    }

    #[test]
    fn text_without_room_is_sent_later() {
        let (relay, message) = watching("b");
        let node = NodeId::new("b");
        let mut texts = Texts::default();
        let long = "x".repeat(20_000);
        texts.put(Arc::new(update("one", &long)));
        texts.put(Arc::new(update("two", "short")));
        let (mut seen_texts, mut calls) = (Vec::new(), 0);
        while !texts.unsent.is_empty() {
            let mut room = 3;
            texts.send(&message, |note| {
                if room > 0 {
                    seen_texts.extend(seen(relay.hear(&node, note)));
                }
                room -= 1;
                room >= 0
            });
            calls += 1;
        }
        assert_eq!(calls, 6);
        assert!(seen_texts.contains(&long));
        assert_eq!(seen_texts.last().unwrap(), "short");
    }

    #[test]
    fn turn_that_cannot_be_shown_is_shown_later() {
        let (relay, message) = (Relay::default(), MessageId::new("m"));
        let showing = relay.show(&message, true);
        assert!(relay.show(&message, true).is_none());
        assert_eq!(relay.shown_still(&message), Some(true));
        drop(showing);
        assert_eq!(relay.shown_still(&message), None);
        assert!(relay.show(&message, true).is_some());
    }

    #[test]
    fn other_nodes_are_not_believed() {
        let (relay, message) = watching("b");
        let frozen = NodeId::new("a");
        let sent = notes(&mut Texts::default(), &message, update("one", "old"));
        assert_eq!(seen(relay.hear(&frozen, sent[0].clone())), None);
    }
}
