//! Resume: the daemon starts and finds a message that an earlier life left in the middle.
//!
//! Claimed: nothing was said to Codex, it waits again; the death counts from the second time on, so that a message
//! which kills the daemon is given up. Starting or running: its end was not seen.

use super::fail::unclear;
use super::touched::Budget;
use super::{Action, Decision, Refused, Transition};
use crate::port::{Change, Read, RowsError};
use crate::value::{Class, Failure, Message, MessageId, MessageState, StateName, Timestamp, Turn};

/// Brings one unfinished message to a state from which it can go on.
#[derive(Clone, Debug)]
pub struct Resume {
    /// Which.
    pub message_id: MessageId,
}

impl Transition for Resume {
    type View = (Option<Message>, Option<Turn>);
    type Outcome = ();
    const NAME: &'static str = "resume";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        super::touched::message_and_turn(rows, &self.message_id)
    }

    fn decide(self, view: Self::View, now: Timestamp) -> Result<Decision<()>, Refused> {
        let (Some(message), turn) = view else {
            return Err(Refused::new(Self::NAME, &self.message_id, None));
        };
        let mut changes = Vec::new();
        let actions = match message.life.state {
            MessageState::Claimed => {
                let mut life = message
                    .life
                    .moved(MessageState::Received { hold: None }, now);
                Budget::Death.settle(&mut life);
                life.failure = Some(Failure::new(
                    Class::Transient,
                    "the daemon stopped before Codex was given this message",
                ));
                changes.push(Change::Live {
                    message_id: self.message_id,
                    from: StateName::Claimed,
                    life,
                });
                vec![Action::Schedule]
            }
            MessageState::Starting | MessageState::Running { .. } => {
                let failure = Failure::new(
                    Class::Ambiguous,
                    "the daemon stopped while Codex worked on this message",
                );
                unclear(&message, turn, &failure, now, &mut changes)
            }
            MessageState::Received { .. }
            | MessageState::Unclear { .. }
            | MessageState::Steered { .. }
            | MessageState::Parked { .. }
            | MessageState::Answered
            | MessageState::Sending
            | MessageState::Done
            | MessageState::Dead { .. }
            | MessageState::Cancelled { .. } => super::regenerate(&message),
        };
        Ok(Decision {
            changes,
            actions,
            outcome: (),
        })
    }
}
