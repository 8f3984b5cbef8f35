//! Acknowledge: the source heard that a message is finished, or in our hands (T13). An ack may be said twice; a row
//! that is shown again makes it due again.

use super::{Action, Decision, Refused, Staged};
use crate::port::{Change, Read, RowsError};
use crate::value::{Ack, AckState, Message, MessageId, MessageState, StateName, Timestamp};

/// Journals that the source was told.
#[derive(Clone, Debug)]
pub struct Acknowledge {
    /// Of which message.
    pub message_id: MessageId,
    /// Whether it took it; if not, it never will.
    pub taken: bool,
}

impl Staged for Acknowledge {
    type View = (Option<Message>, Option<Ack>);
    type Outcome = ();
    const NAME: &'static str = "acknowledge";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        Ok((rows.message(&self.message_id)?, rows.ack(&self.message_id)?))
    }

    fn decide(self, view: Self::View, now: Timestamp) -> Result<Decision<()>, Refused> {
        let (Some(message), Some(ack)) = view else {
            return Err(Refused::new(Self::NAME, &self.message_id, None));
        };
        if ack.state != AckState::Due {
            return Ok(Decision::nothing(()));
        }
        let state = if self.taken {
            AckState::Given
        } else {
            AckState::Refused
        };
        let mut changes = vec![Change::Ack {
            message_id: self.message_id.clone(),
            state,
        }];
        if message.life.state.name() == StateName::Replied {
            changes.push(Change::Live {
                message_id: self.message_id.clone(),
                from: StateName::Replied,
                life: message.life.moved(MessageState::Done, now),
            });
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
