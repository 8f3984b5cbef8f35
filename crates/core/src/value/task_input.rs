//! A task: one piece of work that another agent gave us, a chain of messages of one conversation; and where its
//! owner wants to be told of it.
//!
//! How it stands is never stored here: [`crate::task`] derives it from its messages and their questions.

use super::{ChannelId, ConversationId, ExternalId, MessageId, RequestId, TaskId, Timestamp};
use std::fmt;

/// One task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct A2aTask {
    /// Known outside.
    pub task_id: TaskId,
    /// The channel it came from.
    pub channel: ChannelId,
    /// The conversation its messages belong to.
    pub conversation_id: ConversationId,
    /// Who gave it, by the channel's authenticated field: nobody else may know that it exists.
    pub owner: String,
    /// News of it was numbered up to here, at most.
    pub sequence: u64,
    /// When it was given.
    pub created_at: Timestamp,
}

/// One thing that its owner said in a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskInput {
    /// In which.
    pub task_id: TaskId,
    /// Its place, without gaps, from 1.
    pub ordinal: u32,
    /// The owner's own id for it.
    pub client_message_id: String,
    /// A repeat of it is known again by this, where its owner wants that. What became a message has it there.
    pub idempotency_key: Option<ExternalId>,
    /// What it became.
    pub kind: TaskInputKind,
    /// What was said, in the channel's own stored form.
    pub original: String,
    /// When it came.
    pub at: Timestamp,
}

/// What a word of an owner became.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskInputKind {
    /// A message.
    Message(MessageId),
    /// The answer to a question of Codex.
    Answer(RequestId),
    /// The end of the task, which waited for its owner's next word and gets none.
    End,
}

/// Where the owner of a task wants to be told how it stands.
#[derive(Clone, PartialEq, Eq)]
pub struct Push {
    pub task_id: TaskId,
    /// The owner's, or our own, name for it.
    pub config_id: String,
    /// Where to.
    pub url: String,
    /// Sent along, so that the receiver knows us.
    pub token: Option<String>,
    /// What goes into the Authorization header: scheme and credentials.
    pub authorization: Option<(String, String)>,
    /// Address and credentials are in the ledger and can't be decrypted, so that nothing may be sent.
    pub unreadable: bool,
    /// The version of the protocol it was asked for in.
    pub version: String,
    /// How far it is.
    pub state: PushState,
    /// What was told last, in the front's own words; news is what differs from it.
    pub mark: Option<String>,
    /// Tries of what is to be told now.
    pub tries: u32,
    /// When the first of them began.
    pub first_try_at: Option<Timestamp>,
    /// Why the newest one failed.
    pub error: Option<String>,
    /// When it was asked for.
    pub created_at: Timestamp,
}

impl fmt::Debug for Push {
    /// Without what the receiver knows us by.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Push")
            .field("task_id", &self.task_id)
            .field("config_id", &self.config_id)
            .field("state", &self.state)
            .field("mark", &self.mark)
            .field("tries", &self.tries)
            .finish_non_exhaustive()
    }
}

/// How far the telling of a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushState {
    /// It waits for news, or for the next try.
    Waiting {
        /// Not before this.
        not_before: Option<Timestamp>,
    },
    /// A send was begun; its outcome is not known.
    Sending,
    /// The end was told; nothing more comes.
    Closed,
    /// It was given up.
    Dead { at: Timestamp },
}

impl PushState {
    /// The stored word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting { .. } => "waiting",
            Self::Sending => "sending",
            Self::Closed => "closed",
            Self::Dead { .. } => "dead",
        }
    }

    /// Whether something may still be told through it.
    #[must_use]
    pub fn is_open(self) -> bool {
        match self {
            Self::Waiting { .. } | Self::Sending => true,
            Self::Closed | Self::Dead { .. } => false,
        }
    }
}
