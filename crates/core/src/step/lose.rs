//! Lose: a turn was begun and we do not see its end any more (T7).

use super::fail::unclear;
use super::{Decision, Refused, Staged, expect};
use crate::port::{Read, RowsError};
use crate::value::{Class, Failure, Message, MessageId, StateName, Timestamp, Turn};

/// Journals that we lost sight of a turn.
#[derive(Clone, Debug)]
pub struct Lose {
    /// Of which message.
    pub message_id: MessageId,
    /// How.
    pub why: String,
    /// Set when the turn was to end for good: unless its answer is found, the message ends with this.
    pub end: Option<Failure>,
}

impl Staged for Lose {
    type View = (Option<Message>, Option<Turn>);
    type Outcome = ();
    const NAME: &'static str = "lose";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        super::touched::message_and_turn(rows, &self.message_id)
    }

    fn decide(self, view: Self::View, now: Timestamp) -> Result<Decision<()>, Refused> {
        let (message, turn) = view;
        let message = expect(
            Self::NAME,
            &self.message_id,
            message.as_ref(),
            &[StateName::Starting, StateName::Running],
        )?;
        let failure = self
            .end
            .unwrap_or_else(|| Failure::new(Class::Ambiguous, self.why));
        let mut changes = Vec::new();
        let actions = unclear(message, turn, &failure, now, &mut changes);
        Ok(Decision {
            changes,
            actions,
            outcome: (),
        })
    }
}
