//! Fail: an attempt ended without an answer, and we know that it ended (T6f). The class decides what follows.

use super::followers::{self, Follower};
use super::outbox::Outbox;
use super::touched::{Again, Budget, View, ended};
use super::{Action, Decision, Refused, Staged, expect};
use crate::limits;
use crate::port::{Change, Read, RowsError};
use crate::retry::backoff_ms;
use crate::value::{
    Class, CutPolicy, Failure, Life, Message, MessageId, MessageState, NextInput, StateName,
    Timestamp, Turn, TurnState, Usage,
};

/// Journals that an attempt ended without an answer.
#[derive(Clone, Debug)]
pub struct Fail {
    /// Of which message.
    pub message_id: MessageId,
    /// What happened.
    pub failure: Failure,
    /// An item that may touch the world was seen by whoever followed the turn to its end.
    pub touched: bool,
    /// What its turn cost all the same, as far as it was told.
    pub usage: Usage,
    /// What happens if it was cut after it may have changed something.
    pub on_cut: CutPolicy,
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

impl Staged for Fail {
    type View = View;
    type Outcome = ();
    const NAME: &'static str = "fail";

    fn load(&self, rows: &dyn Read) -> Result<View, RowsError> {
        View::load(rows, &self.message_id)
    }

    fn decide(self, view: View, now: Timestamp) -> Result<Decision<()>, Refused> {
        let View {
            message,
            turn,
            replies,
            last_event,
            followers,
        } = view;
        let message = expect(
            Self::NAME,
            &self.message_id,
            message.as_ref(),
            &[StateName::Claimed, StateName::Starting, StateName::Running],
        )?;
        let usage = self.usage;
        let turn = turn.map(|turn| Turn { usage, ..turn });
        let mut changes = Vec::new();
        let begun = message.life.state.name() != StateName::Claimed;
        let actions = match self.failure.class {
            Class::Ambiguous if begun => unclear(message, turn, &self.failure, now, &mut changes),
            // Before a turn is begun nothing can have happened, whatever the edge says.
            Class::Ambiguous
            | Class::Transient
            | Class::Capacity { .. }
            | Class::Config
            | Class::Permanent
            | Class::Bug => Ended {
                message,
                touched: touched(turn.as_ref(), self.touched).then_some(self.on_cut),
                turn,
                replies: replies.len(),
                last_event,
                followers,
                failure: self.failure,
                pace: self.pace,
            }
            .write(now, &mut changes),
        };
        Ok(Decision {
            changes,
            actions,
            outcome: (),
        })
    }
}

/// Whether a turn may have touched the world: by what was seen now, or by whoever followed it before.
pub(super) fn touched(turn: Option<&Turn>, seen_now: bool) -> bool {
    turn.is_some_and(|turn| turn.sandbox.can_write() && (seen_now || turn.touched))
}

/// An attempt that certainly ended without an answer: what its class does to the message.
pub(super) struct Ended<'a> {
    pub(super) message: &'a Message,
    pub(super) turn: Option<Turn>,
    pub(super) replies: usize,
    pub(super) last_event: u32,
    pub(super) followers: Vec<Follower>,
    pub(super) failure: Failure,
    /// Set when the world may have been touched.
    pub(super) touched: Option<CutPolicy>,
    pub(super) pace: Pace,
}

impl Ended<'_> {
    pub(super) fn write(mut self, now: Timestamp, changes: &mut Vec<Change>) -> Vec<Action> {
        let turn = self.turn.take();
        let can_write = turn.as_ref().is_some_and(|turn| turn.sandbox.can_write());
        changes.extend(ended(turn, now));
        let let_go = std::mem::take(&mut self.followers);
        let mut actions = followers::release(let_go, can_write, now, changes);
        let outbox = Outbox::of(self.message, self.replies, None);
        actions.extend(match self.failure.class {
            Class::Permanent | Class::Bug => {
                let mut life = Life {
                    failure: Some(self.failure.clone()),
                    ..self.message.life.clone()
                };
                if self.touched.is_some() {
                    // Should a person send it again, it is told to check first.
                    life.input = NextInput::Continue;
                }
                outbox.close(&life, self.failure.reason, now, changes)
            }
            Class::Capacity { .. } | Class::Config => {
                let told = outbox.tell_held(&self.failure, now);
                self.replies += told.len();
                changes.extend(told);
                self.again(Budget::Returned, now, changes)
            }
            Class::Transient | Class::Ambiguous => self.again(Budget::Spent, now, changes),
        });
        actions
    }

    fn again(self, budget: Budget, now: Timestamp, changes: &mut Vec<Change>) -> Vec<Action> {
        let conversation_id = self.message.conversation_id.clone();
        let again = Again {
            until: self.next_try(now),
            message: self.message,
            replies: self.replies,
            last_event: self.last_event,
            failure: self.failure,
            budget,
            touched: self.touched,
        };
        let mut actions = again.write(now, changes);
        actions.push(Action::Schedule);
        actions.push(Action::Deliver { conversation_id });
        actions
    }

    /// A time that the other side named is believed within reason: not in the past, or the wait would be a hot
    /// loop, and not beyond the age at which a held message is given up.
    fn next_try(&self, now: Timestamp) -> Timestamp {
        let life = &self.message.life;
        match &self.failure.class {
            Class::Capacity { until } => {
                let soonest = self.pace.backoff(life.attempt, now);
                let latest = now.plus_ms(limits::HELD_AGE_MAX_MS).max(soonest);
                until.unwrap_or(soonest).clamp(soonest, latest)
            }
            Class::Config => now.plus_ms(self.pace.config_probe_ms),
            Class::Transient | Class::Permanent | Class::Ambiguous | Class::Bug => {
                self.pace.backoff(life.spent.saturating_sub(1), now)
            }
        }
    }
}

impl Pace {
    /// When to try again after so many tries.
    pub(super) fn backoff(&self, tries: u32, now: Timestamp) -> Timestamp {
        now.plus_ms(backoff_ms(
            tries,
            self.backoff_base_ms,
            limits::TURN_BACKOFF_MAX_MS,
            self.jitter,
        ))
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
    let mut life = message
        .life
        .moved(MessageState::Unclear { hold: None }, now);
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

#[cfg(test)]
mod tests;
