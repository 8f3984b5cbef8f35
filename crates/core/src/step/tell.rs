//! Tell: somebody gives a running turn of any channel more text. The act is on disk before the turn hears it; no
//! message comes of it, so nobody is answered for it.

use super::note::event;
use super::{Action, Decision, Refused, Transition};
use crate::limits;
use crate::port::{Change, Read, RowsError, Steer};
use crate::value::{
    AuditEntry, ClientId, EventKind, Message, MessageId, MessageState, StateName, Timestamp, Turn,
};

/// Gives the running turn of a message more text.
#[derive(Clone, Debug)]
pub struct Tell {
    /// Whose turn.
    pub message_id: MessageId,
    /// The text.
    pub text: String,
    /// Who.
    pub by: String,
    /// Makes what the agent keeps unlike anything else that it was given; a random word.
    pub mark: String,
}

/// What is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TellOutcome {
    /// Tell it this.
    Steer(Steer),
    /// Its text was given to the turn of this message; that one can be told.
    Steered(MessageId),
    /// No turn of it runs.
    Idle(StateName),
    /// Somebody stopped it.
    Stopping,
}

/// The rows that decide.
#[derive(Debug)]
pub struct View {
    message: Option<Message>,
    turn: Option<Turn>,
    last_event: u32,
}

impl Transition for Tell {
    type View = View;
    type Outcome = TellOutcome;
    const NAME: &'static str = "tell";

    fn load(&self, rows: &dyn Read) -> Result<View, RowsError> {
        let (message, turn) = super::touched::message_and_turn(rows, &self.message_id)?;
        Ok(View {
            message,
            turn,
            last_event: rows.last_event(&self.message_id)?,
        })
    }

    fn decide(self, view: View, now: Timestamp) -> Result<Decision<TellOutcome>, Refused> {
        let Some(message) = view.message else {
            return Err(Refused::new(Self::NAME, &self.message_id, None));
        };
        let (turn_id, turn) = match (&message.life.state, view.turn) {
            (MessageState::Steered { leader }, _) => {
                return Ok(Decision::nothing(TellOutcome::Steered(leader.clone())));
            }
            (MessageState::Running { .. }, Some(_)) if message.life.stop.is_some() => {
                return Ok(Decision::nothing(TellOutcome::Stopping));
            }
            (MessageState::Running { turn_id }, Some(turn)) => (turn_id.clone(), turn),
            (other, _) => return Ok(Decision::nothing(TellOutcome::Idle(other.name()))),
        };
        // An intent: whether the turn heard it is a line of its own.
        let said = format!("to be told by {}: {}", self.by, self.text);
        let mut changes = vec![Change::Audit(AuditEntry {
            at: now,
            actor: self.by,
            what: Self::NAME.to_owned(),
            subject: self.message_id.to_string(),
            detail: limits::clip(&self.text, limits::EVENT_TEXT_MAX_CHARS),
        })];
        changes.extend(event(
            &message,
            view.last_event,
            EventKind::Bridge,
            &said,
            now,
        ));
        Ok(Decision {
            changes,
            actions: vec![Action::Announce {
                message_id: self.message_id.clone(),
            }],
            outcome: TellOutcome::Steer(Steer {
                thread: turn.thread,
                turn_id,
                client_id: ClientId::new(format!(
                    "{}.{}",
                    ClientId::of(&self.message_id, message.life.attempt),
                    self.mark
                )),
                text: self.text,
            }),
        })
    }
}
