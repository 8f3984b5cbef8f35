//! Claim: the scheduler's one transaction (T2). The attempt is counted here, so that a message that kills the
//! daemon each time is buried when its budget is spent.

use super::outbox::Outbox;
use super::{Action, Decision, Refused, Transition};
use crate::limits;
use crate::port::{Change, Head, Read, RowsError};
use crate::schedule;
use crate::value::{Conversation, Message, MessageState, Reply, StateName, Timestamp};

/// Looks for one message to work on.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Turns that may run at the same time.
    pub turns_max: u32,
    /// The time that due times are compared with: the same `now` the decision gets.
    pub now: Timestamp,
}

/// What the scheduler found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// This one is yours.
    Claimed {
        /// The message, in its new state.
        message: Box<Message>,
        /// Its conversation.
        conversation: Box<Conversation>,
    },
    /// This one had spent its budget and is buried; ask again.
    Buried,
    /// Nothing is due.
    Idle {
        /// When the next held message becomes due.
        next_due: Option<Timestamp>,
    },
    /// As many turns run as may.
    Full,
}

/// The rows that decide.
#[derive(Debug)]
pub struct View {
    in_flight: u32,
    heads: Vec<Head>,
    replies: Vec<Reply>,
    next_due: Option<Timestamp>,
}

impl Transition for Claim {
    type View = View;
    type Outcome = ClaimOutcome;
    const NAME: &'static str = "claim";

    fn load(&self, rows: &dyn Read) -> Result<View, RowsError> {
        let in_flight = rows.in_flight()?;
        let heads = if in_flight < self.turns_max {
            rows.heads(self.now, 1)?
        } else {
            Vec::new()
        };
        let replies = match schedule::pick(&heads) {
            Some(head) if head.message.life.spent >= limits::ATTEMPTS_MAX => {
                rows.replies(&head.message.message_id)?
            }
            Some(_) | None => Vec::new(),
        };
        let next_due = match heads.is_empty() {
            true => rows.next_due()?,
            false => None,
        };
        Ok(View {
            in_flight,
            heads,
            replies,
            next_due,
        })
    }

    fn decide(self, view: View, now: Timestamp) -> Result<Decision<ClaimOutcome>, Refused> {
        if view.in_flight >= self.turns_max {
            return Ok(Decision::nothing(ClaimOutcome::Full));
        }
        let Some(head) = schedule::pick(&view.heads) else {
            return Ok(Decision::nothing(ClaimOutcome::Idle {
                next_due: view.next_due,
            }));
        };
        let Head {
            message,
            conversation,
        } = head.clone();
        if message.life.spent >= limits::ATTEMPTS_MAX {
            return Ok(bury(&message, view.replies.len(), now));
        }
        let mut life = message.life.moved(MessageState::Claimed, now);
        life.attempt = life.attempt.saturating_add(1);
        life.spent = life.spent.saturating_add(1);
        let message_id = message.message_id.clone();
        Ok(Decision {
            changes: vec![Change::Live {
                message_id: message_id.clone(),
                from: StateName::Received,
                life: life.clone(),
            }],
            actions: vec![
                Action::Work {
                    message_id: message_id.clone(),
                },
                Action::Announce { message_id },
            ],
            outcome: ClaimOutcome::Claimed {
                message: Box::new(Message { life, ..message }),
                conversation: Box::new(conversation),
            },
        })
    }
}

fn bury(message: &Message, replies: usize, now: Timestamp) -> Decision<ClaimOutcome> {
    let why = message
        .life
        .failure
        .as_ref()
        .map_or("no reason was recorded", |f| &f.reason);
    let reason = format!(
        "given up after {} attempts; the last one: {why}",
        message.life.spent
    );
    let mut changes = Vec::new();
    let actions = Outbox::of(message, replies, None).bury(&message.life, reason, now, &mut changes);
    Decision {
        changes,
        actions,
        outcome: ClaimOutcome::Buried,
    }
}
