//! Confirm: the platform took a reply (T10); with the last one, the message is done (T13).

use super::{Action, Decision, Refused, Transition};
use crate::port::{Change, Read, RowsError};
use crate::value::{Message, MessageId, MessageState, Reply, ReplyState, StateName, Timestamp};

/// Journals the platform's receipt.
#[derive(Clone, Debug)]
pub struct Confirm {
    /// Of which message.
    pub message_id: MessageId,
    /// Which piece.
    pub ordinal: u32,
    /// The platform's proof.
    pub receipt: String,
}

/// The rows that decide.
#[derive(Debug)]
pub struct View {
    message: Option<Message>,
    replies: Vec<Reply>,
}

impl Transition for Confirm {
    type View = View;
    type Outcome = ();
    const NAME: &'static str = "confirm";

    fn load(&self, rows: &dyn Read) -> Result<View, RowsError> {
        Ok(View {
            message: rows.message(&self.message_id)?,
            replies: rows.replies(&self.message_id)?,
        })
    }

    fn decide(self, view: View, now: Timestamp) -> Result<Decision<()>, Refused> {
        let Some(message) = view.message else {
            return Err(Refused::new(Self::NAME, &self.message_id, None));
        };
        let Some(reply) = view
            .replies
            .iter()
            .find(|reply| reply.ordinal == self.ordinal)
        else {
            return Err(Refused::new(Self::NAME, &self.message_id, Some(&message)));
        };
        if reply.state.settled() {
            return Ok(Decision::nothing(()));
        }
        let mut changes = vec![Change::Reply {
            message_id: self.message_id.clone(),
            ordinal: self.ordinal,
            from: reply.state.name(),
            to: ReplyState::Sent {
                receipt: self.receipt,
                at: Some(now),
            },
            tries: reply.tries,
            first_try_at: reply.first_try_at,
        }];
        let last = view
            .replies
            .iter()
            .all(|reply| reply.ordinal == self.ordinal || reply.state.settled());
        if last && message.life.state.name() == StateName::Sending {
            changes.push(Change::Live {
                message_id: message.message_id,
                from: StateName::Sending,
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
