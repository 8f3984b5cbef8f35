//! Dead letters and parked messages: a person sends one again, says that it goes on, or gives it up.
//!
//! A message with an answer is only delivered again: Codex is never called twice for an answer it gave. Any other
//! goes to the end of its conversation with a fresh budget; its order is lost, and we say so.

use crate::port::{Change, RowsError};
use crate::step::{Action, RunError, Transition, Tx, reply};
use crate::value::{
    Class, Failure, Hold, Life, Message, MessageId, MessageState, ReplyState, ReplyStateName, Seq,
    StateName, Timestamp,
};

/// Why one of many that are sent again is held.
pub const REDRIVE_REASON: &str = "many failed messages are sent again, one a second";

/// Sends a dead letter again.
#[derive(Clone, Debug)]
pub struct Redrive {
    pub message_id: MessageId,
    pub by: String,
    /// When its turn may begin, where many are sent again one after the other.
    pub not_before: Option<Timestamp>,
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

impl RedriveOutcome {
    /// What sending a message again comes to.
    #[must_use]
    pub fn of(message: &Message, has_answer: bool) -> Self {
        let life = &message.life;
        let class = life.failure.as_ref().map(|failure| failure.class.as_str());
        Self::of_columns(life.state.name(), life.attempt, class, has_answer)
    }

    /// The same from what a row of a list has.
    #[must_use]
    pub fn of_columns(
        state: StateName,
        attempt: u32,
        class: Option<&str>,
        has_answer: bool,
    ) -> Self {
        match state {
            StateName::Dead if has_answer => Self::Delivering,
            // The channel refused it at the door: it died without an attempt, for good.
            StateName::Dead if attempt == 0 && class == Some(Class::Permanent.as_str()) => {
                Self::Unfit
            }
            StateName::Dead => Self::Queued,
            StateName::Parked => Self::Continuing,
            _ => Self::NotDead,
        }
    }
}

impl Redrive {
    /// Waiting for a turn, now or later.
    fn waits(&self, now: Timestamp) -> MessageState {
        let later = self.not_before.filter(|until| *until > now);
        let hold = later.map(|until| Hold {
            until,
            failure: Failure::new(Class::Capacity { until: Some(until) }, REDRIVE_REASON),
        });
        MessageState::Received { hold }
    }
}

impl Transition for Redrive {
    type Outcome = RedriveOutcome;
    const NAME: &'static str = "redrive";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<RedriveOutcome, RunError> {
        let message = tx.existing(Self::NAME, &self.message_id)?;
        let has_answer = tx.answer(&self.message_id)?.is_some();
        let outcome = RedriveOutcome::of(&message, has_answer);
        match outcome {
            RedriveOutcome::Unfit | RedriveOutcome::NotDead => return Ok(outcome),
            RedriveOutcome::Delivering => {
                queue_replies_again(tx, &message)?;
                send_again(tx, &message, MessageState::Sending, now)?;
            }
            RedriveOutcome::Queued => {
                let last = tx.last_seq(&message.conversation_id)?;
                let behind = last.filter(|last| *last > message.seq);
                tx.change(Change::Tail {
                    message_id: self.message_id.clone(),
                    seq: behind.map_or(message.seq, |last| Seq(last.0.saturating_add(1))),
                    at: now,
                })?;
                send_again(tx, &message, self.waits(now), now)?;
            }
            RedriveOutcome::Continuing => {
                send_again(tx, &message, self.waits(now), now)?;
            }
        }
        if let Some(at) = self.not_before.filter(|at| *at > now) {
            tx.act(Action::ScheduleAt { at });
        }
        let detail = format!("was {}", message.life.state.name().as_str());
        tx.audit(&self.by, Self::NAME, &self.message_id, detail, now)?;
        tx.act(Action::Schedule);
        tx.deliver(&message.conversation_id);
        tx.announce(&self.message_id);
        Ok(outcome)
    }
}

/// The same keys again, so that an idempotent platform that took them after all shows them once.
fn queue_replies_again(tx: &mut Tx<'_>, message: &Message) -> Result<(), RowsError> {
    for reply in tx.replies(&message.message_id)? {
        if reply.state.name() == ReplyStateName::Dead {
            tx.change(Change::Reply {
                message_id: reply.message_id,
                ordinal: reply.ordinal,
                from: ReplyStateName::Dead,
                to: ReplyState::Queued { not_before: None },
                tries: reply.tries,
                first_try_at: None,
            })?;
        }
    }
    Ok(())
}

/// Gives a message fresh budgets. Its next input stays: a turn that may have touched the world is still asked to check
/// first, because a person's word does not change the world.
fn send_again(
    tx: &mut Tx<'_>,
    message: &Message,
    state: MessageState,
    now: Timestamp,
) -> Result<(), RowsError> {
    let life = Life {
        spent: 0,
        continues: 0,
        suspect: false,
        stop: None,
        ..message.life.moved(state, now)
    };
    tx.set_life(message, life)
}

/// Gives a dead letter, or a parked message, up for good. Its rows stay until retention removes them, because its
/// source may show it again.
#[derive(Clone, Debug)]
pub struct Discard {
    pub message_id: MessageId,
    pub by: String,
}

impl Transition for Discard {
    /// Whether it was one.
    type Outcome = bool;
    const NAME: &'static str = "discard";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<bool, RunError> {
        let message = tx.existing(Self::NAME, &self.message_id)?;
        let (MessageState::Dead { reason } | MessageState::Parked { reason, .. }) =
            &message.life.state
        else {
            return Ok(false);
        };
        let reason = format!("given up by {}: {reason}", self.by);
        let from = message.life.state.name();
        // The sender of a dead letter knows already; that of a parked one waits for a decision.
        if from == StateName::Parked {
            reply::cancel(tx, &message, &message.life, reason, now)?;
        } else {
            let cancelled = MessageState::Cancelled { reason };
            tx.set_life(&message, message.life.moved(cancelled, now))?;
            tx.announce(&self.message_id);
        }
        let detail = format!("was {}", from.as_str());
        tx.audit(&self.by, Self::NAME, &self.message_id, detail, now)?;
        Ok(true)
    }
}
