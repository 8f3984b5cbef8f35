//! Fail: an attempt ended without an answer, and we know that it ended (T6f). The class decides what follows.

use super::answer::{View, load};
use super::outbox::Outbox;
use super::touched::{Again, Budget, ended};
use super::{Action, Decision, Refused, Transition, expect};
use crate::limits;
use crate::port::{Change, Read, RowsError};
use crate::retry::backoff_ms;
use crate::value::{
    Class, Failure, Message, MessageId, MessageState, StateName, Timestamp, Turn, TurnState,
};

/// Journals that an attempt ended without an answer.
#[derive(Clone, Debug)]
pub struct Fail {
    /// Of which message.
    pub message_id: MessageId,
    /// What happened.
    pub failure: Failure,
    /// An item that may touch the world was seen, and the sandbox let it.
    pub touched: bool,
    /// How soon it is tried again.
    pub pace: Pace,
}

/// How soon a message without an answer is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// First wait before the next try; doubles each time.
    pub backoff_base_ms: i64,
    /// How soon a message that waits for an operator is looked at again.
    pub config_probe_ms: i64,
    /// Random number in 0..=1000.
    pub jitter: u16,
}

impl Transition for Fail {
    type View = View;
    type Outcome = ();
    const NAME: &'static str = "fail";

    fn load(&self, rows: &dyn Read) -> Result<View, RowsError> {
        load(rows, &self.message_id)
    }

    fn decide(self, view: View, now: Timestamp) -> Result<Decision<()>, Refused> {
        let View {
            message,
            turn,
            replies,
        } = view;
        let message = expect(
            Self::NAME,
            &self.message_id,
            message.as_ref(),
            &[StateName::Claimed, StateName::Starting, StateName::Running],
        )?;
        let touched = self.touched && turn.as_ref().is_some_and(|turn| turn.sandbox.can_write());
        let mut changes = Vec::new();
        let begun = message.life.state.name() != StateName::Claimed;
        let actions = match self.failure.class {
            Class::Ambiguous if begun => unclear(message, turn, &self.failure, now, &mut changes),
            Class::Permanent | Class::Bug => {
                changes.extend(ended(turn, now));
                let life = crate::value::Life {
                    failure: Some(self.failure.clone()),
                    ..message.life.clone()
                };
                Outbox::of(message, replies.len(), None).bury(
                    &life,
                    self.failure.reason,
                    now,
                    &mut changes,
                )
            }
            // Before a turn is begun nothing can have happened, whatever the edge says.
            Class::Transient | Class::Capacity { .. } | Class::Config | Class::Ambiguous => {
                changes.extend(ended(turn, now));
                self.again(message, replies.len(), touched, now, &mut changes)
            }
        };
        Ok(Decision {
            changes,
            actions,
            outcome: (),
        })
    }
}

impl Fail {
    fn again(
        self,
        message: &Message,
        mut replies: usize,
        touched: bool,
        now: Timestamp,
        changes: &mut Vec<Change>,
    ) -> Vec<Action> {
        let backoff = |tries| {
            now.plus_ms(backoff_ms(
                tries,
                self.pace.backoff_base_ms,
                limits::TURN_BACKOFF_MAX_MS,
                self.pace.jitter,
            ))
        };
        let (until, budget) = match &self.failure.class {
            Class::Capacity { until: Some(until) } => (*until, Budget::Returned),
            Class::Capacity { until: None } => (backoff(message.life.attempt), Budget::Returned),
            Class::Config => (now.plus_ms(self.pace.config_probe_ms), Budget::Returned),
            Class::Transient | Class::Permanent | Class::Ambiguous | Class::Bug => {
                (backoff(message.life.spent.saturating_sub(1)), Budget::Spent)
            }
        };
        if budget == Budget::Returned {
            let told = Outbox::of(message, replies, None).tell_held(&self.failure, now);
            replies += told.len();
            changes.extend(told);
        }
        let mut actions = Again {
            message,
            replies,
            failure: self.failure,
            until,
            budget,
            touched,
        }
        .write(now, changes);
        actions.push(Action::Schedule);
        actions.push(Action::Deliver {
            conversation_id: message.conversation_id.clone(),
        });
        actions
    }
}

/// It may have happened: from here only reconcile leads on.
pub(super) fn unclear(
    message: &Message,
    turn: Option<Turn>,
    failure: &Failure,
    now: Timestamp,
    changes: &mut Vec<Change>,
) -> Vec<Action> {
    let mut life = message.life.moved(MessageState::Unclear, now);
    life.failure = Some(failure.clone());
    changes.push(Change::Live {
        message_id: message.message_id.clone(),
        from: message.life.state.name(),
        life,
    });
    if let Some(turn) = turn {
        changes.push(Change::Turn(Turn {
            state: TurnState::Lost,
            ..turn
        }));
    }
    let message_id = message.message_id.clone();
    vec![
        Action::Reconcile {
            message_id: message_id.clone(),
        },
        Action::Announce { message_id },
    ]
}
