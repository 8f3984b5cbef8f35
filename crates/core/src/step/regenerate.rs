//! The actions that rows ask for, again: after a crash, and wherever a hint may have been lost.

use super::Action;
use crate::value::{Message, MessageState};

/// The actions that a message's row asks for. An action is a hint; a crash loses hints, not rows.
#[must_use]
pub fn regenerate(message: &Message) -> Vec<Action> {
    let message_id = message.message_id.clone();
    match &message.life.state {
        MessageState::Received { hold: None } => vec![Action::Schedule],
        MessageState::Received { hold: Some(hold) } => vec![Action::ScheduleAt { at: hold.until }],
        MessageState::Claimed => vec![Action::Work { message_id }],
        MessageState::Parked { until, .. } => vec![Action::ScheduleAt { at: *until }],
        // Its leader decides about it.
        MessageState::Steered { .. } => Vec::new(),
        MessageState::Starting | MessageState::Running { .. } | MessageState::Unclear { .. } => {
            vec![Action::Reconcile { message_id }]
        }
        MessageState::Answered | MessageState::Sending => {
            vec![Action::Deliver {
                conversation_id: message.conversation_id.clone(),
            }]
        }
        MessageState::Done | MessageState::Dead { .. } | MessageState::Cancelled { .. } => {
            Vec::new()
        }
    }
}
