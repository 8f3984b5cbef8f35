//! Send: the first unsettled reply of a lane goes out (T9). The intent is on disk before the platform hears it.

use super::{Action, Decision, Refused, Transition};
use crate::port::{Change, Read, RowsError};
use crate::value::{
    ConversationId, Message, MessageState, Reply, ReplyState, StateName, Timestamp,
};

/// Asks a lane for its next reply.
#[derive(Clone, Debug)]
pub struct Send {
    /// Which lane.
    pub conversation_id: ConversationId,
}

/// What the lane has to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// Hand this to the platform.
    Send {
        /// What it replies to.
        message: Box<Message>,
        /// The piece.
        reply: Box<Reply>,
        /// An earlier send of it may have arrived.
        again: bool,
    },
    /// The next one waits until this time.
    Later(Timestamp),
    /// Nothing is left.
    Empty,
}

impl Transition for Send {
    type View = Option<(Reply, Message)>;
    type Outcome = SendOutcome;
    const NAME: &'static str = "send";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        let Some(reply) = rows.next_reply(&self.conversation_id)? else {
            return Ok(None);
        };
        Ok(rows
            .message(&reply.message_id)?
            .map(|message| (reply, message)))
    }

    fn decide(self, view: Self::View, now: Timestamp) -> Result<Decision<SendOutcome>, Refused> {
        let Some((reply, message)) = view else {
            return Ok(Decision::nothing(SendOutcome::Empty));
        };
        if let ReplyState::Queued {
            not_before: Some(at),
        } = reply.state
            && at > now
        {
            return Ok(Decision::nothing(SendOutcome::Later(at)));
        }
        let sent = Reply {
            state: ReplyState::Sending,
            tries: reply.tries.saturating_add(1),
            first_try_at: reply.first_try_at.or(Some(now)),
            ..reply.clone()
        };
        let mut changes = vec![Change::Reply {
            message_id: sent.message_id.clone(),
            ordinal: sent.ordinal,
            from: reply.state.name(),
            to: ReplyState::Sending,
            tries: sent.tries,
            first_try_at: sent.first_try_at,
        }];
        if message.life.state.name() == StateName::Answered {
            changes.push(Change::Live {
                message_id: message.message_id.clone(),
                from: StateName::Answered,
                life: message.life.moved(MessageState::Sending, now),
            });
        }
        let actions = vec![Action::Announce {
            message_id: message.message_id.clone(),
        }];
        Ok(Decision {
            changes,
            actions,
            outcome: SendOutcome::Send {
                message: Box::new(message),
                again: matches!(reply.state, ReplyState::Sending),
                reply: Box::new(sent),
            },
        })
    }
}
