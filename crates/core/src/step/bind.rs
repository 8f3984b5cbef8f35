//! Bind: the thread id is on disk as soon as the thread exists, so that the conversation continues on it.
//! Unbind: the thread is lost for good, and the next turn starts a new one.

use super::outbox::Outbox;
use super::touched::View;
use super::{Action, Decision, Refused, Staged};
use crate::port::{Change, Read, RowsError};
use crate::value::{
    Conversation, ConversationId, EventKind, MessageId, ReplyKind, ThreadId, Timestamp,
};

/// Binds a conversation to the thread that was just started for it.
#[derive(Clone, Debug)]
pub struct Bind {
    /// Which.
    pub conversation_id: ConversationId,
    /// The new thread.
    pub thread: ThreadId,
}

/// Lets go of a thread that can't be used any more, and tells whoever wrote the message that met the loss.
#[derive(Clone, Debug)]
pub struct Unbind {
    /// The message that met the loss.
    pub message_id: MessageId,
    /// The thread that is lost.
    pub thread: ThreadId,
    /// What is wrong with it.
    pub why: String,
}

/// What people are told of a lost thread.
pub(super) fn lost_notice(why: &str) -> String {
    format!(
        "Codex's record of this conversation is lost ({why}). A new thread goes on with the last messages as a recap."
    )
}

impl Staged for Bind {
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

impl Staged for Unbind {
    type View = (View, Option<Conversation>);
    type Outcome = ();
    const NAME: &'static str = "unbind";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        let view = View::load(rows, &self.message_id)?;
        let conversation = match &view.message {
            Some(message) => rows.conversation(&message.conversation_id)?,
            None => None,
        };
        Ok((view, conversation))
    }

    fn decide(self, view: Self::View, now: Timestamp) -> Result<Decision<()>, Refused> {
        let (view, conversation) = view;
        let (Some(message), Some(conversation)) = (&view.message, conversation) else {
            return Err(Refused::new(Self::NAME, &self.message_id, None));
        };
        if conversation.thread.as_ref() != Some(&self.thread) {
            return Ok(Decision::nothing(()));
        }
        let mut changes = vec![Change::Bind {
            conversation_id: conversation.conversation_id.clone(),
            from: conversation.thread,
            to: None,
        }];
        // A thread without a turn is not on Codex's disk, so losing it loses nothing.
        if conversation.last_turn.is_none() {
            return Ok(Decision {
                changes,
                actions: Vec::new(),
                outcome: (),
            });
        }
        let told = lost_notice(&self.why);
        let kind = EventKind::Bridge;
        changes.extend(super::note::event(
            message,
            view.last_event,
            kind,
            &told,
            now,
        ));
        let outbox = Outbox::of(message, view.replies.len(), None);
        changes.extend(outbox.queue(ReplyKind::Notice, &told, now));
        Ok(Decision {
            changes,
            actions: vec![Action::Deliver {
                conversation_id: conversation.conversation_id,
            }],
            outcome: (),
        })
    }
}
