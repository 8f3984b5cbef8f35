//! The registry of the turns that are followed now: interrupting them, and what platforms show of them.
//!
//! In memory alone: platforms ask every two seconds, and a display must not wait for the ledger.

use super::approvals::OpenRequests;
use bridge_channel::Activity;
use bridge_core::limits::clip;
use bridge_core::port::TurnEvent;
use bridge_core::value::{ChannelId, MessageId, ThreadId, TurnId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The longest line about what a turn does.
const CURRENT_MAX_CHARS: usize = 200;
/// What a turn does before it has begun anything, and between two things.
const THINKING: &str = "thinking";

/// A turn that runs now.
#[derive(Clone, Debug)]
pub(crate) struct RunningTurn {
    pub(crate) thread: ThreadId,
    pub(crate) turn_id: TurnId,
    /// Cancelled when a person stops the turn.
    pub(crate) stop: CancellationToken,
    pub(crate) requests: Arc<OpenRequests>,
    /// Channel to report activity to.
    pub(crate) channel: ChannelId,
    /// The newest item it began.
    pub(crate) doing: Option<Doing>,
}

#[derive(Clone, Debug)]
pub(crate) struct Doing {
    since: Instant,
    headline: String,
}

/// Turns by their message.
#[derive(Debug, Default)]
pub(crate) struct RunningTurns(Mutex<HashMap<MessageId, RunningTurn>>);

impl RunningTurns {
    pub(crate) fn lock(&self) -> MutexGuard<'_, HashMap<MessageId, RunningTurn>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a turn, unless another task follows it already: a lost turn is found again before its first task ends.
    pub(super) fn remove(&self, message_id: &MessageId, requests: &Arc<OpenRequests>) {
        let mut running = self.lock();
        let is_ours = |turn: &RunningTurn| Arc::ptr_eq(&turn.requests, requests);
        if running.get(message_id).is_some_and(is_ours) {
            running.remove(message_id);
        }
    }

    /// Ends the turn of a message that a person stopped. One that is not followed yet is stopped when it is.
    pub(crate) fn interrupt(&self, message_id: &MessageId) {
        if let Some(turn) = self.lock().get(message_id) {
            turn.stop.cancel();
        }
    }

    /// How many turns of a channel run, and what the one that began something last does.
    pub(crate) fn activity(&self, channel: &ChannelId) -> Activity {
        let running = self.lock();
        let ours: Vec<_> = running
            .values()
            .filter(|turn| turn.channel == *channel)
            .collect();
        let doing = ours.iter().filter_map(|turn| turn.doing.as_ref());
        let newest = doing.max_by_key(|doing| doing.since);
        let current = newest.map_or(THINKING, |doing| doing.headline.as_str());
        Activity {
            turns: u32::try_from(ours.len()).unwrap_or(u32::MAX),
            current: (!ours.is_empty()).then(|| current.to_owned()),
        }
    }

    /// Notes the item that a turn began.
    pub(super) fn note(&self, message_id: &MessageId, event: &TurnEvent) {
        let TurnEvent::Item(item) = event else { return };
        if item.completed {
            return;
        }
        if let Some(turn) = self.lock().get_mut(message_id) {
            turn.doing = Some(Doing {
                since: Instant::now(),
                headline: clip(&item.headline, CURRENT_MAX_CHARS),
            });
        }
    }

    /// What a turn does now.
    pub(super) fn doing(&self, message_id: &MessageId) -> String {
        let running = self.lock();
        let doing = running.get(message_id).and_then(|turn| turn.doing.as_ref());
        doing.map_or(THINKING, |doing| &doing.headline).to_owned()
    }
}
