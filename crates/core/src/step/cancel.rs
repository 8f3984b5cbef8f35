//! Cancel: a person stops a message (T14). What has not begun ends here; what runs is interrupted, and ends as
//! cancelled when its turn has ended, because until then the thread is not free.

use super::outbox::Outbox;
use super::{Action, Decision, Refused, Transition};
use crate::port::{Change, Read, RowsError};
use crate::value::{AuditEntry, Life, Message, MessageId, MessageState, Timestamp};

/// Stops a message.
#[derive(Clone, Debug)]
pub struct Cancel {
    /// Which.
    pub message_id: MessageId,
    /// Who.
    pub by: String,
}

/// What stopping a message came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CancelOutcome {
    /// It had not begun, and is over.
    Cancelled,
    /// Its turn is being interrupted; its answer still counts if it comes first.
    Stopping,
    /// Its text was given to the turn of this message: that one can be stopped.
    Steered(MessageId),
    /// It is answered or over: there is nothing to stop.
    TooLate,
}

impl Transition for Cancel {
    type View = (Option<Message>, usize);
    type Outcome = CancelOutcome;
    const NAME: &'static str = "cancel";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        Ok((
            rows.message(&self.message_id)?,
            rows.replies(&self.message_id)?.len(),
        ))
    }

    fn decide(self, view: Self::View, now: Timestamp) -> Result<Decision<CancelOutcome>, Refused> {
        let (Some(message), replies) = view else {
            return Err(Refused::new(Self::NAME, &self.message_id, None));
        };
        let reason = format!("stopped by {}", self.by);
        match &message.life.state {
            MessageState::Received { .. } | MessageState::Parked { .. } => {
                let mut changes = vec![self.audit(now)];
                let outbox = Outbox::of(&message, replies, None);
                let actions = outbox.cancel(&message.life, reason, now, &mut changes);
                Ok(Decision {
                    changes,
                    actions,
                    outcome: CancelOutcome::Cancelled,
                })
            }
            MessageState::Claimed
            | MessageState::Starting
            | MessageState::Running { .. }
            | MessageState::Unclear { .. } => Ok(self.stop(&message, reason, now)),
            MessageState::Steered { leader } => {
                Ok(Decision::nothing(CancelOutcome::Steered(leader.clone())))
            }
            MessageState::Answered
            | MessageState::Sending
            | MessageState::Replied
            | MessageState::Done
            | MessageState::Dead { .. }
            | MessageState::Cancelled { .. } => Ok(Decision::nothing(CancelOutcome::TooLate)),
        }
    }
}

impl Cancel {
    /// A second word of the same kind only interrupts again.
    fn stop(&self, message: &Message, reason: String, now: Timestamp) -> Decision<CancelOutcome> {
        let mut changes = Vec::new();
        if message.life.stop.is_none() {
            changes.push(self.audit(now));
            changes.push(Change::Live {
                message_id: self.message_id.clone(),
                from: message.life.state.name(),
                life: Life {
                    stop: Some(reason),
                    ..message.life.clone()
                },
            });
        }
        Decision {
            changes,
            actions: vec![
                Action::Interrupt {
                    message_id: self.message_id.clone(),
                },
                Action::Announce {
                    message_id: self.message_id.clone(),
                },
            ],
            outcome: CancelOutcome::Stopping,
        }
    }

    fn audit(&self, now: Timestamp) -> Change {
        Change::Audit(AuditEntry {
            at: now,
            actor: self.by.clone(),
            what: Self::NAME.to_owned(),
            subject: self.message_id.to_string(),
            detail: String::new(),
        })
    }
}
