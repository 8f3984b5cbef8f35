//! Input for turns that run on other nodes: it is passed on to the turn's node, and the result comes back.
//!
//! Rights were checked by the node that was asked, over the rows that all nodes share. The turn's node commits the intent
//! and gives the input to Codex, as it does for its own callers. What is lost on the way has an unknown outcome.

use crate::Daemon;
use crate::intake::tasks::{LOOK, STEER_WAIT};
use crate::process::clock::now;
use crate::process::ids;
use bridge_core::port::{Agent, Ledger, LedgerError, Sink, Steering};
use bridge_core::step::Tell;
use bridge_core::value::{MessageId, NodeId, StateName, Timestamp};
use bridge_store::{LiveNote, PostgresLedger, SaidPart, piece};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout};

/// Calls under way at the same time, in each direction.
const CALLS_MAX: usize = 64;
/// Longest text that is passed on: its parts must find room among the notes that wait to be sent.
const SAID_MAX_BYTES: usize = 64 * 1024;

/// Input for a running turn.
#[derive(Clone, Debug)]
pub(crate) enum TurnInput {
    /// A person says something to it.
    Said { by: String, text: String },
    /// A stored message joins it.
    Message,
}

/// Calls to other nodes, and from them.
#[derive(Debug)]
pub(crate) struct RemoteSteers {
    /// How other nodes are reached; set where there are some.
    nodes: OnceLock<PostgresLedger>,
    called: Mutex<HashMap<String, oneshot::Sender<Steering>>>,
    /// Texts of which parts are still to come, by call.
    arriving: Mutex<HashMap<String, Arriving>>,
    /// Room for what other nodes pass on.
    places: Arc<Semaphore>,
}

impl Default for RemoteSteers {
    fn default() -> Self {
        Self {
            nodes: OnceLock::new(),
            called: Mutex::default(),
            arriving: Mutex::default(),
            places: Arc::new(Semaphore::new(CALLS_MAX)),
        }
    }
}

/// A call whose result is waited for.
#[derive(Debug)]
struct Call<'s> {
    steers: &'s RemoteSteers,
    name: String,
    result: oneshot::Receiver<Steering>,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        lock(&self.steers.called).remove(&self.name);
    }
}

#[derive(Debug)]
struct Arriving {
    text: String,
    since: Instant,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RemoteSteers {
    pub(crate) fn reach(&self, nodes: PostgresLedger) {
        let _only_once = self.nodes.set(nodes);
    }

    /// A call to another node. Nothing where too many are under way.
    fn call(&self) -> Option<Call<'_>> {
        let (sender, result) = oneshot::channel();
        let mut called = lock(&self.called);
        if called.len() >= CALLS_MAX {
            return None;
        }
        let name = ids::mark();
        called.insert(name.clone(), sender);
        Some(Call {
            steers: self,
            name,
            result,
        })
    }

    /// Room for a call of another node, as long as it is kept. Nothing where too many are under way.
    fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    fn result(&self, call: &str, result: Steering) {
        if let Some(sender) = lock(&self.called).remove(call) {
            // Whoever waited may be gone.
            let _receiver_gone = sender.send(result);
        }
    }

    /// Takes a part of a text; the whole text with its last part. A text with a missing part is dropped.
    fn arrive(&self, call: &str, part: SaidPart) -> Option<String> {
        let mut arriving = lock(&self.arriving);
        arriving.retain(|_, known| known.since.elapsed() < STEER_WAIT);
        let known = match arriving.remove(call) {
            Some(known) => known,
            None if arriving.len() >= CALLS_MAX => return None,
            None => Arriving {
                text: String::new(),
                since: Instant::now(),
            },
        };
        let text = known.text + &part.text;
        if text.len() > SAID_MAX_BYTES || text.len().checked_sub(part.text.len()) != Some(part.from)
        {
            return None;
        }
        if !part.more {
            return Some(text);
        }
        let since = known.since;
        arriving.insert(call.to_owned(), Arriving { text, since });
        None
    }
}

/// The notes that carry an input.
fn notes(call: &str, to: &NodeId, message_id: &MessageId, input: &TurnInput) -> Vec<LiveNote> {
    let waited = i64::try_from(STEER_WAIT.as_millis()).unwrap_or(i64::MAX);
    let until = now().plus_ms(waited);
    let note = |said| LiveNote::Steer {
        call: call.to_owned(),
        to: to.clone(),
        message_id: message_id.clone(),
        until,
        said,
    };
    let TurnInput::Said { by, text } = input else {
        return vec![note(None)];
    };
    let (mut notes, mut from) = (Vec::new(), 0);
    loop {
        let rest = text.get(from..).unwrap_or_default();
        let part = piece(rest);
        let more = part.len() < rest.len();
        notes.push(note(Some(SaidPart {
            by: by.clone(),
            from,
            text: part.to_owned(),
            more,
        })));
        if !more {
            return notes;
        }
        from = from.saturating_add(part.len());
    }
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// The other node that has the conversation of a message.
    pub(crate) async fn node_elsewhere(
        &self,
        id: &MessageId,
    ) -> Result<Option<NodeId>, LedgerError> {
        let Some(this) = self.settings().start.node.clone() else {
            return Ok(None);
        };
        let id = id.clone();
        let find = self.ledger.read(move |rows| {
            let Some(message) = rows.message(&id)? else {
                return Ok(None);
            };
            rows.home(&message.conversation_id)
        });
        let holder = find.await?.and_then(|home| home.node_id);
        Ok(holder.filter(|holder| *holder != this.node_id))
    }

    /// Passes an input on to the node that runs the turn, and waits for its result.
    pub(crate) async fn steer_elsewhere(
        &self,
        to: NodeId,
        message_id: &MessageId,
        input: &TurnInput,
    ) -> Steering {
        let refused = |why: String| Steering::Refused { why };
        let Some(nodes) = self.steers.nodes.get() else {
            return refused(format!("its turn runs on node {to}: steer it there"));
        };
        if matches!(input, TurnInput::Said { text, .. } if text.len() > SAID_MAX_BYTES) {
            return refused(format!(
                "its turn runs on node {to}, and this is too long to pass on: steer it there, or say less"
            ));
        }
        let busy = || refused("too much is being passed on to other nodes: try again".to_owned());
        let Some(mut call) = self.steers.call() else {
            return busy();
        };
        // Without its last note it is not begun.
        if !notes(&call.name, &to, message_id, input)
            .into_iter()
            .all(|note| nodes.tell_nodes(note))
        {
            return busy();
        }
        match timeout(STEER_WAIT, &mut call.result).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) | Err(_) => {
                let why = format!(
                    "its turn runs on node {to}, which did not say in time whether it has it: {LOOK}"
                );
                Steering::Unknown { why }
            }
        }
    }

    /// Another node passes an input on, or says what became of ours.
    pub(crate) fn hear_steer(self: &Arc<Self>, nodes: &PostgresLedger, note: LiveNote) {
        let (call, message_id, input) = match note {
            LiveNote::Steered { call, result } => return self.steers.result(&call, result),
            LiveNote::Steer {
                call,
                to,
                message_id,
                until,
                said,
            } if self.is_node(&to) && is_awaited(until) => match said {
                None => (call, message_id, TurnInput::Message),
                Some(part) => {
                    let by = part.by.clone();
                    let Some(text) = self.steers.arrive(&call, part) else {
                        return;
                    };
                    (call, message_id, TurnInput::Said { by, text })
                }
            },
            _ => return,
        };
        let (daemon, nodes) = (Arc::clone(self), nodes.clone());
        let place = self.steers.place();
        self.tasks.spawn(async move {
            let result = match &place {
                Some(_held) => daemon.steer_here(message_id, input).await,
                None => Steering::Refused {
                    why: "its node is being given too much: try again".to_owned(),
                },
            };
            // Who waits for it says that the outcome is not known.
            let _sent = nodes.tell_nodes(LiveNote::Steered { call, result });
        });
    }

    fn is_node(&self, id: &NodeId) -> bool {
        let node = &self.settings().start.node;
        node.as_ref().is_some_and(|node| node.node_id == *id)
    }

    async fn steer_here(self: &Arc<Self>, message_id: MessageId, input: TurnInput) -> Steering {
        let done = match input {
            TurnInput::Said { by, text } => {
                let mark = ids::mark();
                let tell = Tell {
                    message_id,
                    text,
                    by,
                    mark,
                };
                self.tell_here(tell).await
            }
            TurnInput::Message => self.join_here(message_id).await,
        };
        match done {
            Ok(Some(result)) => clipped(result),
            Ok(None) => Steering::Refused {
                why: "its conversation has just gone to another node: try again".to_owned(),
            },
            Err(error) => Steering::Unknown {
                why: piece(&format!("{error}: {LOOK}")).to_owned(),
            },
        }
    }

    /// A stored message joins its turn here, unless the wake-up that came with its row made it join already.
    async fn join_here(
        self: &Arc<Self>,
        message_id: MessageId,
    ) -> Result<Option<Steering>, LedgerError> {
        let joined = self.join_turn(message_id.clone()).await;
        let message = self.ledger.read(move |rows| rows.message(&message_id));
        let state = message.await?.map(|message| message.life.state.name());
        Ok(Some(match state {
            Some(StateName::Steered) => Steering::Steered,
            _ => joined.into(),
        }))
    }
}

/// Whether the caller still waits: it may have waited for its connection to the database, and heard that it is unknown
/// whether its input arrived.
fn is_awaited(until: Timestamp) -> bool {
    now() < until
}

/// Short enough for one note.
fn clipped(result: Steering) -> Steering {
    let short = |why: String| piece(&why).to_owned();
    match result {
        Steering::Steered => Steering::Steered,
        Steering::Queued { why } => Steering::Queued { why: short(why) },
        Steering::Unknown { why } => Steering::Unknown { why: short(why) },
        Steering::Refused { why } => Steering::Refused { why: short(why) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Vec<SaidPart> {
        let (by, text) = ("ada".to_owned(), text.to_owned());
        let input = TurnInput::Said { by, text };
        let notes = notes("c", &NodeId::new("b"), &MessageId::new("m"), &input);
        let parts = notes.into_iter().map(|note| match note {
            LiveNote::Steer {
                said: Some(part), ..
            } => part,
            other => panic!("{other:?}"),
        });
        parts.collect()
    }

    #[tokio::test(start_paused = true)]
    async fn input_expires_with_its_caller() {
        let input = TurnInput::Message;
        let notes = notes("c", &NodeId::new("b"), &MessageId::new("m"), &input);
        let [LiveNote::Steer { until, .. }] = notes[..] else {
            panic!("{notes:?}");
        };
        assert!(is_awaited(until));
        tokio::time::advance(2 * STEER_WAIT).await;
        assert!(!is_awaited(until));
    }

    #[test]
    fn long_input_arrives_whole() {
        let steers = RemoteSteers::default();
        for text in ["", "short", &"ä\u{1}".repeat(4_000)] {
            let arrived: Vec<String> = parts(text)
                .into_iter()
                .filter_map(|part| steers.arrive("c", part))
                .collect();
            assert_eq!(arrived, [text]);
        }
    }

    #[test]
    fn calls_are_bounded_in_each_direction() {
        let steers = RemoteSteers::default();
        let mut calls: Vec<_> = (0..CALLS_MAX).filter_map(|_| steers.call()).collect();
        let mut places: Vec<_> = (0..CALLS_MAX).filter_map(|_| steers.place()).collect();
        assert_eq!((calls.len(), places.len()), (CALLS_MAX, CALLS_MAX));
        assert!(steers.call().is_none() && steers.place().is_none());
        drop((calls.pop(), places.pop()));
        assert!(steers.call().is_some() && steers.place().is_some());
    }

    #[test]
    fn input_with_a_missing_part_is_dropped() {
        let steers = RemoteSteers::default();
        let mut parts = parts(&"x".repeat(5_000));
        parts.remove(1);
        for part in parts {
            assert_eq!(steers.arrive("c", part), None);
        }
    }
}
