//! Redrive: a person sends a dead letter again (T15), or says that a parked message goes on.
//!
//! A message with an answer is only delivered again: Codex is never called twice for an answer it gave. Any other
//! goes to the end of its conversation with a fresh budget; its order is lost, and we say so.

use super::outbox::Outbox;
use super::{Action, Decision, Refused, Transition};
use crate::port::{Change, Read, RowsError};
use crate::value::{
    Answer, AuditEntry, Class, Life, Message, MessageId, MessageState, Reply, ReplyState,
    ReplyStateName, Seq, StateName, Timestamp,
};

/// Sends a dead letter again.
#[derive(Clone, Debug)]
pub struct Redrive {
    /// Which.
    pub message_id: MessageId,
    /// Who.
    pub by: String,
}

/// What sending a message again came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedriveOutcome {
    /// It waits for a turn, at the end of its conversation.
    Queued,
    /// Its answer is delivered again.
    Delivering,
    /// It goes on where it was cut.
    Continuing,
    /// It never was a message: what is kept of it may be cut, or not even a text.
    Unfit,
    /// It is not a dead letter.
    NotDead,
}

/// The rows that decide.
#[derive(Debug)]
pub struct View {
    message: Option<Message>,
    answer: Option<Answer>,
    replies: Vec<Reply>,
    last_seq: Option<Seq>,
}

impl Transition for Redrive {
    type View = View;
    type Outcome = RedriveOutcome;
    const NAME: &'static str = "redrive";

    fn load(&self, rows: &dyn Read) -> Result<View, RowsError> {
        let message = rows.message(&self.message_id)?;
        let last_seq = match &message {
            Some(message) => rows.last_seq(&message.conversation_id)?,
            None => None,
        };
        Ok(View {
            message,
            answer: rows.answer(&self.message_id)?,
            replies: rows.replies(&self.message_id)?,
            last_seq,
        })
    }

    fn decide(self, view: View, now: Timestamp) -> Result<Decision<RedriveOutcome>, Refused> {
        let Some(message) = &view.message else {
            return Err(Refused::new(Self::NAME, &self.message_id, None));
        };
        match &message.life.state {
            MessageState::Dead { .. } if view.answer.is_some() => {
                Ok(self.deliver(message, view.replies, now))
            }
            MessageState::Dead { .. } if was_unfit(message) => {
                Ok(Decision::nothing(RedriveOutcome::Unfit))
            }
            MessageState::Dead { .. } => Ok(self.queue(message, view.last_seq, now)),
            MessageState::Parked { .. } => Ok(self.go_on(message, now)),
            MessageState::Received { .. }
            | MessageState::Claimed
            | MessageState::Starting
            | MessageState::Running { .. }
            | MessageState::Unclear { .. }
            | MessageState::Steered { .. }
            | MessageState::Answered
            | MessageState::Sending
            | MessageState::Done
            | MessageState::Cancelled { .. } => Ok(Decision::nothing(RedriveOutcome::NotDead)),
        }
    }
}

/// Whether the channel refused the row at the door: it died without an attempt, for good.
fn was_unfit(message: &Message) -> bool {
    let failure = message.life.failure.as_ref();
    message.life.attempt == 0 && failure.is_some_and(|failure| failure.class == Class::Permanent)
}

impl Redrive {
    /// What may have touched the world is still told to check first: a person's word does not change the world.
    fn queue(
        &self,
        message: &Message,
        last_seq: Option<Seq>,
        now: Timestamp,
    ) -> Decision<RedriveOutcome> {
        let seq = match last_seq {
            Some(last) if last > message.seq => Seq(last.0.saturating_add(1)),
            Some(_) | None => message.seq,
        };
        let mut changes = vec![Change::Tail {
            message_id: self.message_id.clone(),
            seq,
            at: now,
        }];
        changes.push(self.fresh(message, MessageState::Received { hold: None }, now));
        self.decision(changes, RedriveOutcome::Queued, message, now)
    }

    fn go_on(&self, message: &Message, now: Timestamp) -> Decision<RedriveOutcome> {
        let changes = vec![self.fresh(message, MessageState::Received { hold: None }, now)];
        self.decision(changes, RedriveOutcome::Continuing, message, now)
    }

    /// The same keys again, so that an idempotent platform that took them after all shows them once.
    fn deliver(
        &self,
        message: &Message,
        replies: Vec<Reply>,
        now: Timestamp,
    ) -> Decision<RedriveOutcome> {
        let mut changes: Vec<Change> = replies
            .into_iter()
            .filter(|reply| reply.state.name() == ReplyStateName::Dead)
            .map(|reply| Change::Reply {
                message_id: reply.message_id,
                ordinal: reply.ordinal,
                from: ReplyStateName::Dead,
                to: ReplyState::Queued { not_before: None },
                tries: reply.tries,
                first_try_at: None,
            })
            .collect();
        changes.push(self.fresh(message, MessageState::Sending, now));
        self.decision(changes, RedriveOutcome::Delivering, message, now)
    }

    fn fresh(&self, message: &Message, state: MessageState, now: Timestamp) -> Change {
        let life = Life {
            spent: 0,
            continues: 0,
            suspect: false,
            stop: None,
            ..message.life.moved(state, now)
        };
        Change::Live {
            message_id: self.message_id.clone(),
            from: message.life.state.name(),
            life,
        }
    }

    fn decision(
        &self,
        mut changes: Vec<Change>,
        outcome: RedriveOutcome,
        message: &Message,
        now: Timestamp,
    ) -> Decision<RedriveOutcome> {
        changes.push(Change::Audit(AuditEntry {
            at: now,
            actor: self.by.clone(),
            what: Self::NAME.to_owned(),
            subject: self.message_id.to_string(),
            detail: format!("was {}", message.life.state.name().as_str()),
        }));
        Decision {
            changes,
            actions: vec![
                Action::Schedule,
                Action::Deliver {
                    conversation_id: message.conversation_id.clone(),
                },
                Action::Announce {
                    message_id: self.message_id.clone(),
                },
            ],
            outcome,
        }
    }
}

/// Gives a dead letter, or a parked message, up for good. Its rows stay until retention removes them, because its
/// source may show it again.
#[derive(Clone, Debug)]
pub struct Discard {
    /// Which.
    pub message_id: MessageId,
    /// Who.
    pub by: String,
}

impl Transition for Discard {
    type View = (Option<Message>, usize);
    /// Whether it was one.
    type Outcome = bool;
    const NAME: &'static str = "discard";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        Ok((
            rows.message(&self.message_id)?,
            rows.replies(&self.message_id)?.len(),
        ))
    }

    fn decide(self, view: Self::View, now: Timestamp) -> Result<Decision<bool>, Refused> {
        let (Some(message), replies) = view else {
            return Err(Refused::new(Self::NAME, &self.message_id, None));
        };
        let from = message.life.state.name();
        let reason = match &message.life.state {
            MessageState::Dead { reason } | MessageState::Parked { reason, .. } => {
                format!("given up by {}: {reason}", self.by)
            }
            MessageState::Received { .. }
            | MessageState::Claimed
            | MessageState::Starting
            | MessageState::Running { .. }
            | MessageState::Unclear { .. }
            | MessageState::Steered { .. }
            | MessageState::Answered
            | MessageState::Sending
            | MessageState::Done
            | MessageState::Cancelled { .. } => return Ok(Decision::nothing(false)),
        };
        let mut changes = Vec::new();
        // The sender of a dead letter knows already; that of a parked one waits for a decision.
        let actions = if from == StateName::Parked {
            Outbox::of(&message, replies, None).cancel(&message.life, reason, now, &mut changes)
        } else {
            changes.push(Change::Live {
                message_id: self.message_id.clone(),
                from,
                life: message.life.moved(MessageState::Cancelled { reason }, now),
            });
            vec![Action::Announce {
                message_id: self.message_id.clone(),
            }]
        };
        changes.push(Change::Audit(AuditEntry {
            at: now,
            actor: self.by,
            what: Self::NAME.to_owned(),
            subject: self.message_id.to_string(),
            detail: format!("was {}", from.as_str()),
        }));
        Ok(Decision {
            changes,
            actions,
            outcome: true,
        })
    }
}
