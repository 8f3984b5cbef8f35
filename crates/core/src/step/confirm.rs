//! Confirm: the platform took a reply (T10), and with the last one the message is finished (T13) unless its
//! source must still be told. A message that ended without an answer is owed to its source until its notice is out.

use super::{Action, Decision, Refused, Staged};
use crate::port::{Change, Read, RowsError};
use crate::value::{
    Ack, AckState, Message, MessageId, MessageState, Reply, ReplyState, StateName, Timestamp,
};

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
    ack: Option<Ack>,
}

impl Staged for Confirm {
    type View = View;
    type Outcome = ();
    const NAME: &'static str = "confirm";

    fn load(&self, rows: &dyn Read) -> Result<View, RowsError> {
        Ok(View {
            message: rows.message(&self.message_id)?,
            replies: rows.replies(&self.message_id)?,
            ack: rows.ack(&self.message_id)?,
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
        let mut actions = Vec::new();
        let due = view.ack.is_some_and(|ack| ack.state == AckState::Due);
        let state = message.life.state.name();
        if last && state == StateName::Sending {
            changes.push(finished(&message, due, now));
        }
        if last && due && (state == StateName::Sending || state.finished()) {
            actions.push(Action::Acknowledge {
                message_id: self.message_id.clone(),
            });
        }
        actions.push(Action::Announce {
            message_id: self.message_id,
        });
        Ok(Decision {
            changes,
            actions,
            outcome: (),
        })
    }
}

fn finished(message: &Message, due: bool, now: Timestamp) -> Change {
    let state = if due {
        MessageState::Replied
    } else {
        MessageState::Done
    };
    Change::Live {
        message_id: message.message_id.clone(),
        from: StateName::Sending,
        life: message.life.moved(state, now),
    }
}
