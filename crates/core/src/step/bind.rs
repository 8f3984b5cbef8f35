//! Bind: the thread id is on disk as soon as the thread exists, so that the conversation continues on it.
//! Unbind: the thread is lost for good, and the next turn starts a new one.

use super::{Decision, Refused, Transition};
use crate::port::{Change, Read, RowsError};
use crate::value::{Conversation, ConversationId, ThreadId, Timestamp};

/// Binds a conversation to the thread that was just started for it.
#[derive(Clone, Debug)]
pub struct Bind {
    /// Which.
    pub conversation_id: ConversationId,
    /// The new thread.
    pub thread: ThreadId,
}

/// Lets go of a thread that can't be used any more.
#[derive(Clone, Debug)]
pub struct Unbind {
    /// Which.
    pub conversation_id: ConversationId,
    /// The thread that is lost.
    pub thread: ThreadId,
}

impl Transition for Bind {
    type View = Option<Conversation>;
    type Outcome = ();
    const NAME: &'static str = "bind";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        rows.conversation(&self.conversation_id)
    }

    fn decide(self, view: Self::View, _now: Timestamp) -> Result<Decision<()>, Refused> {
        let from = view.and_then(|conversation| conversation.thread);
        let changes = vec![Change::Bind {
            conversation_id: self.conversation_id,
            from,
            to: Some(self.thread),
        }];
        Ok(Decision {
            changes,
            actions: Vec::new(),
            outcome: (),
        })
    }
}

impl Transition for Unbind {
    type View = Option<Conversation>;
    type Outcome = ();
    const NAME: &'static str = "unbind";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        rows.conversation(&self.conversation_id)
    }

    fn decide(self, view: Self::View, _now: Timestamp) -> Result<Decision<()>, Refused> {
        let bound = view.and_then(|conversation| conversation.thread);
        if bound.as_ref() != Some(&self.thread) {
            return Ok(Decision::nothing(()));
        }
        let changes = vec![Change::Bind {
            conversation_id: self.conversation_id,
            from: bound,
            to: None,
        }];
        Ok(Decision {
            changes,
            actions: Vec::new(),
            outcome: (),
        })
    }
}
