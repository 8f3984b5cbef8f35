//! Suspend: we stop, and cut the work ourselves. It costs the message nothing: the next start goes on with it.

use super::touched::ended;
use super::{Action, Decision, Refused, Transition, expect};
use crate::port::{Change, Read, RowsError};
use crate::value::{Message, MessageId, MessageState, NextInput, StateName, Timestamp, Turn};

/// Journals that a stop of the daemon cut an attempt, and that its end was seen.
#[derive(Clone, Debug)]
pub struct Suspend {
    /// Of which message.
    pub message_id: MessageId,
}

impl Transition for Suspend {
    type View = (Option<Message>, Option<Turn>);
    type Outcome = ();
    const NAME: &'static str = "suspend";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        super::touched::message_and_turn(rows, &self.message_id)
    }

    fn decide(self, view: Self::View, now: Timestamp) -> Result<Decision<()>, Refused> {
        let (message, turn) = view;
        let states = [StateName::Claimed, StateName::Starting, StateName::Running];
        let message = expect(Self::NAME, &self.message_id, message.as_ref(), &states)?;
        let mut life = message
            .life
            .moved(MessageState::Received { hold: None }, now);
        life.spent = life.spent.saturating_sub(1);
        let begun = message.life.state.name() != StateName::Claimed;
        if begun && turn.as_ref().is_some_and(|turn| turn.sandbox.can_write()) {
            life.input = NextInput::Continue;
        }
        let mut changes = Vec::new();
        changes.extend(ended(turn.filter(|_| begun), now));
        changes.push(Change::Live {
            message_id: self.message_id.clone(),
            from: message.life.state.name(),
            life,
        });
        Ok(Decision {
            changes,
            actions: vec![Action::Announce {
                message_id: self.message_id,
            }],
            outcome: (),
        })
    }
}
