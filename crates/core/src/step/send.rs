//! Send: the first unsettled reply of a lane goes out (T9). The intent is on disk before the platform hears it.

use super::{RunError, Transition, Tx};
use crate::port::Change;
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
    type Outcome = SendOutcome;
    const NAME: &'static str = "send";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<SendOutcome, RunError> {
        let Some(reply) = tx.next_reply(&self.conversation_id)? else {
            return Ok(SendOutcome::Empty);
        };
        let Some(message) = tx.message(&reply.message_id)? else {
            return Ok(SendOutcome::Empty);
        };
        if let ReplyState::Queued {
            not_before: Some(at),
        } = reply.state
            && at > now
        {
            return Ok(SendOutcome::Later(at));
        }
        let again = matches!(reply.state, ReplyState::Sending);
        let from = reply.state.name();
        let reply = Reply {
            state: ReplyState::Sending,
            tries: reply.tries.saturating_add(1),
            first_try_at: reply.first_try_at.or(Some(now)),
            ..reply
        };
        tx.change(Change::Reply {
            message_id: reply.message_id.clone(),
            ordinal: reply.ordinal,
            from,
            to: ReplyState::Sending,
            tries: reply.tries,
            first_try_at: reply.first_try_at,
        })?;
        if message.life.state.name() == StateName::Answered {
            tx.set_life(&message, message.life.moved(MessageState::Sending, now))?;
        }
        tx.announce(&message.message_id);
        Ok(SendOutcome::Send {
            message: Box::new(message),
            reply: Box::new(reply),
            again,
        })
    }
}
