//! What happens to a message whose turn ended or was lost without an answer.
//!
//! A turn that may have touched the world is never run again blindly: the next turn is given what happened and
//! asked to check first, or a person is asked, or it ends here, as the operator chose.

use super::super::{Action, Tx, reply};
use crate::limits;
use crate::port::{Change, RequestsOf, RowsError};
use crate::value::{
    CutPolicy, EventKind, Failure, Hold, Life, Message, MessageState, NextInput, Timestamp,
};

/// Whether an attempt counts against the message's attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::step) enum AttemptCost {
    Spent,
    /// Nobody's fault, or nothing happened.
    Returned,
    /// No attempt was begun.
    Unspent,
    /// Codex, or this daemon, died under it. Others may have caused that, so the first time costs nothing; from
    /// then on the message is a suspect, tried with no other suspect beside it, and pays.
    Death,
}

impl AttemptCost {
    /// Charges an attempt to a life, and says whether it counted.
    pub(in crate::step) fn settle(self, life: &mut Life) -> bool {
        let counted = match self {
            Self::Spent => true,
            Self::Returned | Self::Unspent => false,
            Self::Death => life.suspect,
        };
        life.suspect |= self == Self::Death;
        if !counted && self != Self::Unspent {
            life.spent = life.spent.saturating_sub(1);
        }
        counted
    }
}

/// The next attempt of a message.
pub(in crate::step) struct Retry<'a> {
    pub(in crate::step) message: &'a Message,
    pub(in crate::step) failure: Failure,
    pub(in crate::step) until: Timestamp,
    pub(in crate::step) cost: AttemptCost,
    /// The world may have been touched: what then happens is the operator's choice.
    pub(in crate::step) touched: Option<CutPolicy>,
}

impl Retry<'_> {
    /// Writes the new life: held until its time, parked for a person, or over when a budget is spent.
    pub(in crate::step) fn write(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<(), RowsError> {
        let message = self.message;
        let mut life = Life {
            failure: Some(self.failure.clone()),
            ..message.life.clone()
        };
        let counted = self.cost.settle(&mut life);
        if self.touched.is_some() {
            life.input = NextInput::Continue;
            life.continues = life.continues.saturating_add(u32::from(counted));
        }
        let over = match self.touched {
            _ if life.stop.is_some() => Some(self.failure.reason.clone()),
            Some(CutPolicy::Bury) => Some(cut(&self.failure)),
            Some(CutPolicy::Continue | CutPolicy::Ask) | None => {
                spent(message, &life, &self.failure, now)
            }
        };
        if let Some(reason) = over {
            return reply::close(tx, message, &life, reason, now);
        }
        // Journaled, because whoever watches may look only after the next attempt has begun.
        tx.event(message, EventKind::Retrying, &self.failure.reason, now)?;
        // The turn that asked is over and the message goes on: a decision counts when the same is asked again.
        let requests = RequestsOf::Message(message.message_id.clone());
        tx.change(Change::Orphan(requests))?;
        if self.touched == Some(CutPolicy::Ask) {
            return reply::park(tx, message, &life, cut(&self.failure), now);
        }
        let hold = Hold {
            until: self.until,
            failure: self.failure,
        };
        let held = MessageState::Received { hold: Some(hold) };
        tx.set_life(message, life.moved(held, now))?;
        tx.act(Action::ScheduleAt { at: self.until });
        tx.announce(&message.message_id);
        Ok(())
    }
}

fn cut(failure: &Failure) -> String {
    format!(
        "the work was cut after it may have changed something; look before it goes on: {}",
        failure.reason
    )
}

/// The reason to give up, if there is one.
fn spent(message: &Message, life: &Life, failure: &Failure, now: Timestamp) -> Option<String> {
    let why = &failure.reason;
    if life.continues > limits::CONTINUES_MAX {
        return Some(format!(
            "the work was cut {} times after it may have changed something; look before sending it again. The last time: {why}",
            life.continues
        ));
    }
    if life.spent >= limits::ATTEMPTS_MAX {
        return Some(given_up(life, why));
    }
    if now.since_ms(message.received_at) > limits::HELD_AGE_MAX_MS {
        return Some(format!("it waited too long: {why}"));
    }
    None
}

/// Why a message that has used up its attempts is given up. Lists show all attempts, so the text names those that did
/// not count too: waits, the first death under it, and attempts before it was sent again.
pub(in crate::step) fn given_up(life: &Life, why: &str) -> String {
    let (attempts, counted, max) = (life.attempt, life.spent, limits::ATTEMPTS_MAX);
    if attempts == counted {
        format!("given up after {attempts} attempts; the last one: {why}")
    } else {
        format!(
            "given up after {attempts} attempts, {counted} of which count (the limit is {max}); the last one: {why}"
        )
    }
}
