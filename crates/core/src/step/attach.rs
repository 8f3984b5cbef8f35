//! Attach: Codex named the turn (T4). That is no promise: a kill right after it may leave no trace of the turn, so
//! it does not become the turn that reconcile looks behind.

use super::{Action, Decision, Refused, Transition, expect};
use crate::port::{Change, Read, RowsError};
use crate::value::{
    Message, MessageId, MessageState, StateName, Timestamp, Turn, TurnId, TurnState,
};

/// Records Codex's id of the turn that was begun.
#[derive(Clone, Debug)]
pub struct Attach {
    /// For which message.
    pub message_id: MessageId,
    /// Codex's turn.
    pub turn_id: TurnId,
}

impl Transition for Attach {
    type View = (Option<Message>, Option<Turn>);
    type Outcome = ();
    const NAME: &'static str = "attach";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        super::touched::message_and_turn(rows, &self.message_id)
    }

    fn decide(self, view: Self::View, now: Timestamp) -> Result<Decision<()>, Refused> {
        let (message, turn) = view;
        let message = expect(
            Self::NAME,
            &self.message_id,
            message.as_ref(),
            &[StateName::Starting],
        )?;
        let mut changes = vec![Change::Live {
            message_id: self.message_id.clone(),
            from: StateName::Starting,
            life: message.life.moved(
                MessageState::Running {
                    turn_id: self.turn_id.clone(),
                },
                now,
            ),
        }];
        if let Some(turn) = turn {
            changes.push(Change::Turn(Turn {
                turn_id: Some(self.turn_id),
                state: TurnState::Attached,
                ..turn
            }));
        }
        Ok(Decision {
            changes,
            actions: vec![Action::Announce {
                message_id: self.message_id,
            }],
            outcome: (),
        })
    }
}
