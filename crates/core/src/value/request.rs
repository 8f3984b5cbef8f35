//! What Codex asks while a turn runs, as a durable row.
//!
//! A request is bound to one incarnation, item and shown payload; outside it is known by an unguessable id.

use super::{IncarnationId, ItemId, MessageId, RequestId, Timestamp};

/// One question of Codex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Known outside; unguessable.
    pub request_id: RequestId,
    /// The message whose turn asks.
    pub message_id: MessageId,
    /// The attempt whose turn asks.
    pub attempt: u32,
    /// The process that asks; its ids start at 0 again with every process.
    pub incarnation: IncarnationId,
    /// Codex's JSON-RPC id exactly as it was written, with its JSON type.
    pub rpc_id: String,
    /// The item it is about.
    pub item_id: Option<ItemId>,
    /// What kind of answer it needs.
    pub kind: RequestKind,
    /// What is shown to people, one line.
    pub headline: String,
    /// The whole payload as Codex sent it.
    pub payload: String,
    /// How far it is.
    pub state: RequestState,
    /// When it was asked.
    pub created_at: Timestamp,
}

/// What kind of answer a request needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// May this command run?
    Command,
    /// May these files change?
    FileChange,
    /// May the turn have more permissions?
    Permissions,
    /// A question to the user.
    UserInput,
    /// A form or link of an MCP server.
    Elicitation,
    /// A call of a tool that the client provides.
    ToolCall,
    /// Anything else, by its method name.
    Other(String),
}

impl RequestKind {
    /// The stored word.
    #[must_use]
    pub fn word(&self) -> &str {
        match self {
            Self::Command => "command",
            Self::FileChange => "file_change",
            Self::Permissions => "permissions",
            Self::UserInput => "user_input",
            Self::Elicitation => "elicitation",
            Self::ToolCall => "tool_call",
            Self::Other(method) => method,
        }
    }

    /// Reads the stored word.
    #[must_use]
    pub fn from_word(word: &str) -> Self {
        [
            Self::Command,
            Self::FileChange,
            Self::Permissions,
            Self::UserInput,
            Self::Elicitation,
            Self::ToolCall,
        ]
        .into_iter()
        .find(|kind| kind.word() == word)
        .unwrap_or_else(|| Self::Other(word.to_owned()))
    }
}

/// How far a request is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestState {
    /// Nobody has decided.
    Open,
    /// Decided, by whom and why; silence is never consent.
    Decided {
        /// What was decided.
        decision: Decision,
        /// Who decided.
        by: String,
    },
}

/// What was decided about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Do it, once.
    Accept,
    /// Do not; the turn goes on.
    Decline,
}

impl Decision {
    /// The stored word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Decline => "decline",
        }
    }

    /// Reads the stored word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Accept, Self::Decline]
            .into_iter()
            .find(|decision| decision.word() == word)
    }
}
