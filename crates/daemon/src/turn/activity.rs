//! What a channel's turns do now, as a platform shows it to people who look at the agent.
//!
//! From memory alone: it is asked for every two seconds, and a display must not wait for the ledger.

use crate::Daemon;
use crate::turn::follow::Running;
use bridge_channel::Activity;
use bridge_core::limits::clip;
use bridge_core::port::{Agent, Ledger, Sink, TurnEvent};
use bridge_core::value::{ChannelId, Message, MessageId};
use std::sync::PoisonError;
use tokio::time::Instant;

/// Longest line about what Codex does now.
const CURRENT_MAX_CHARS: usize = 200;
/// A turn that has begun nothing that has a name.
const THINKING: &str = "thinking";

/// The newest thing that a running turn began.
#[derive(Clone, Debug)]
pub(crate) struct Doing {
    since: Instant,
    headline: String,
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// How many turns of a channel run, and what the one that began something last does.
    pub(crate) fn activity(&self, channel: &ChannelId) -> Activity {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let ours = running
            .values()
            .filter(|turn| turn.channel.as_ref() == Some(channel));
        let (mut turns, mut newest) = (0_u32, None::<&Doing>);
        for Running { doing, .. } in ours {
            turns = turns.saturating_add(1);
            newest = match (newest, doing) {
                (Some(newest), Some(doing)) if doing.since <= newest.since => Some(newest),
                (newest, None) => newest,
                (_, Some(doing)) => Some(doing),
            };
        }
        let current = newest.map_or(THINKING, |doing| doing.headline.as_str());
        Activity {
            turns,
            current: (turns > 0).then(|| current.to_owned()),
        }
    }

    /// Remembers whose platform may show what a turn does.
    pub(crate) fn note_channel(&self, message: &Message) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = running.get_mut(&message.message_id) {
            turn.channel = Some(message.channel.clone());
        }
    }

    /// Remembers what a turn began.
    pub(crate) fn note_doing(&self, message_id: &MessageId, event: &TurnEvent) {
        let TurnEvent::Item(item) = event else { return };
        if item.completed {
            return;
        }
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = running.get_mut(message_id) {
            turn.doing = Some(Doing {
                since: Instant::now(),
                headline: clip(&item.headline, CURRENT_MAX_CHARS),
            });
        }
    }

    /// What a turn does now.
    pub(crate) fn doing(&self, message_id: &MessageId) -> String {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let doing = running.get(message_id).and_then(|turn| turn.doing.as_ref());
        doing.map_or(THINKING, |doing| &doing.headline).to_owned()
    }
}
