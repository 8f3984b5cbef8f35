//! Attach: Codex named the turn (T4). That is no promise: a kill right after it may leave no trace of the turn, so
//! it does not become the turn that reconcile looks behind.

use super::{RunError, Transition, Tx};
use crate::port::Change;
use crate::value::{MessageId, MessageState, StateName, Timestamp, Turn, TurnId, TurnState};

/// Records Codex's id of the turn that was begun.
#[derive(Clone, Debug)]
pub struct Attach {
    pub message_id: MessageId,
    pub turn_id: TurnId,
}

impl Transition for Attach {
    type Outcome = ();
    const NAME: &'static str = "attach";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<(), RunError> {
        let message = tx.expect(Self::NAME, &self.message_id, &[StateName::Starting])?;
        let turn = tx.turn_of(&message)?;
        let running = MessageState::Running {
            turn_id: self.turn_id.clone(),
        };
        tx.set_life(&message, message.life.moved(running, now))?;
        if let Some(turn) = turn {
            tx.change(Change::Turn(Turn {
                turn_id: Some(self.turn_id),
                state: TurnState::Attached,
                ..turn
            }))?;
        }
        tx.announce(&self.message_id);
        Ok(())
    }
}
