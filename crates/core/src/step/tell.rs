//! Tell: somebody gives a running turn of any channel more text. The act is on disk before the turn hears it; no
//! message comes of it, so nobody is answered for it.

use super::{RunError, Transition, Tx};
use crate::limits;
use crate::port::Steer;
use crate::value::{ClientId, EventKind, MessageId, MessageState, StateName, Timestamp};

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

impl Transition for Tell {
    type Outcome = TellOutcome;
    const NAME: &'static str = "tell";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<TellOutcome, RunError> {
        let message = tx.existing(Self::NAME, &self.message_id)?;
        let (turn_id, turn) = match (&message.life.state, tx.turn_of(&message)?) {
            (MessageState::Steered { leader }, _) => {
                return Ok(TellOutcome::Steered(leader.clone()));
            }
            (MessageState::Running { .. }, Some(_)) if message.life.stop.is_some() => {
                return Ok(TellOutcome::Stopping);
            }
            (MessageState::Running { turn_id }, Some(turn)) => (turn_id.clone(), turn),
            (other, _) => return Ok(TellOutcome::Idle(other.name())),
        };
        let detail = limits::clip(&self.text, limits::EVENT_TEXT_MAX_CHARS);
        tx.audit(&self.by, Self::NAME, &self.message_id, detail, now)?;
        // An intent: whether the turn heard it is a line of its own.
        let line = format!("to be told by {}: {}", self.by, self.text);
        tx.event(&message, EventKind::Bridge, &line, now)?;
        tx.announce(&self.message_id);
        let client_id = ClientId::of(&self.message_id, message.life.attempt);
        Ok(TellOutcome::Steer(Steer {
            thread: turn.thread,
            turn_id,
            client_id: ClientId::new(format!("{client_id}.{}", self.mark)),
            text: self.text,
        }))
    }
}
