//! What happens to a message whose turn ended or was lost without an answer: shared by `fail` and `reconcile`.
//!
//! A turn that may have touched the world is never run again blindly: the next turn is told what happened and
//! asked to check first, or a person is asked, or it ends here, as the operator chose.

use super::Action;
use super::followers::{self, Follower};
use super::outbox::Outbox;
use crate::limits;
use crate::port::{Change, Read, RequestsOf, RowsError};
use crate::value::{
    CutPolicy, EventKind, Failure, Hold, Life, Message, MessageId, MessageState, NextInput, Reply,
    Timestamp, Turn, TurnState,
};

/// A message and the turn of its newest attempt.
pub(super) fn message_and_turn(
    rows: &dyn Read,
    message_id: &MessageId,
) -> Result<(Option<Message>, Option<Turn>), RowsError> {
    let message = rows.message(message_id)?;
    let turn = match &message {
        Some(message) => rows.turn(message_id, message.life.attempt)?,
        None => None,
    };
    Ok((message, turn))
}

/// The rows that decide about an attempt that ended or was lost without an answer.
#[derive(Debug)]
pub struct View {
    pub(super) message: Option<Message>,
    pub(super) turn: Option<Turn>,
    pub(super) replies: Vec<Reply>,
    pub(super) last_event: u32,
    pub(super) followers: Vec<Follower>,
}

impl View {
    pub(super) fn load(rows: &dyn Read, message_id: &MessageId) -> Result<Self, RowsError> {
        let (message, turn) = message_and_turn(rows, message_id)?;
        Ok(Self {
            message,
            turn,
            replies: rows.replies(message_id)?,
            last_event: rows.last_event(message_id)?,
            followers: followers::load(rows, message_id)?,
        })
    }
}

/// The turn row when its end is known.
pub(super) fn ended(turn: Option<Turn>, now: Timestamp) -> Option<Change> {
    turn.map(|turn| {
        Change::Turn(Turn {
            state: TurnState::Ended,
            ended_at: Some(now),
            ..turn
        })
    })
}

/// A turn that was found in the history is the one that reconcile looks behind from now on. What was only heard
/// of may be gone after a kill, and a history without its anchor proves nothing.
pub(super) fn anchor(message: &Message, turn: Option<&Turn>) -> Option<Change> {
    let turn_id = turn?.turn_id.clone()?;
    Some(Change::LastTurn {
        conversation_id: message.conversation_id.clone(),
        turn_id,
    })
}

/// Whether an attempt counts against the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Budget {
    /// It does.
    Spent,
    /// It does not: nobody's fault, or nothing happened.
    Returned,
    /// No attempt was begun.
    Unspent,
    /// Codex, or this daemon, died under it. Others may have caused that, so the first time costs nothing; from
    /// then on the message is a suspect, tried with no other suspect beside it, and pays.
    Death,
}

impl Budget {
    /// The life after an attempt, and whether the attempt counted.
    pub(super) fn settle(self, life: &mut Life) -> bool {
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

/// What decides about the rest of a message's life beside its own rows.
#[derive(Clone, Debug)]
pub(super) struct Again<'a> {
    pub(super) message: &'a Message,
    pub(super) replies: usize,
    pub(super) last_event: u32,
    pub(super) failure: Failure,
    pub(super) until: Timestamp,
    pub(super) budget: Budget,
    /// The world may have been touched: what then happens is the operator's choice.
    pub(super) touched: Option<CutPolicy>,
}

impl Again<'_> {
    /// Writes the new life: held until its time, parked for a person, or over when a budget is spent.
    pub(super) fn write(self, now: Timestamp, changes: &mut Vec<Change>) -> Vec<Action> {
        let message = self.message;
        let mut life = Life {
            failure: Some(self.failure.clone()),
            ..message.life.clone()
        };
        let counted = self.budget.settle(&mut life);
        if self.touched.is_some() {
            life.input = NextInput::Continue;
            life.continues = life.continues.saturating_add(u32::from(counted));
        }
        let outbox = Outbox::of(message, self.replies, None);
        let over = match self.touched {
            _ if life.stop.is_some() => Some(self.failure.reason.clone()),
            Some(CutPolicy::Bury) => Some(cut(&self.failure)),
            Some(CutPolicy::Continue | CutPolicy::Ask) | None => {
                spent(message, &life, &self.failure, now)
            }
        };
        if let Some(reason) = over {
            return outbox.close(&life, reason, now, changes);
        }
        // Journaled, because whoever watches may look only after the next attempt has begun.
        changes.extend(super::note::event(
            message,
            self.last_event,
            EventKind::Retrying,
            &self.failure.reason,
            now,
        ));
        // The turn that asked is over and the message goes on: a decision counts when the same is asked again.
        changes.push(Change::Orphan(RequestsOf::Message(
            message.message_id.clone(),
        )));
        if self.touched == Some(CutPolicy::Ask) {
            return outbox.park(&life, cut(&self.failure), now, changes);
        }
        let hold = Hold {
            until: self.until,
            failure: self.failure,
        };
        changes.push(Change::Live {
            message_id: message.message_id.clone(),
            from: message.life.state.name(),
            life: life.moved(MessageState::Received { hold: Some(hold) }, now),
        });
        vec![
            Action::ScheduleAt { at: self.until },
            Action::Announce {
                message_id: message.message_id.clone(),
            },
        ]
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
pub(super) fn given_up(life: &Life, why: &str) -> String {
    let (attempts, counted, max) = (life.attempt, life.spent, limits::ATTEMPTS_MAX);
    if attempts == counted {
        format!("given up after {attempts} attempts; the last one: {why}")
    } else {
        format!(
            "given up after {attempts} attempts, {counted} of which count (the limit is {max}); the last one: {why}"
        )
    }
}
