//! A conversation: the ordering unit on a channel and its binding to one Codex thread.
//!
//! How much power a turn has comes from the tier's settings at the time of the turn, not from this row and
//! never from a text.

use super::{ChannelId, ConversationId, ThreadId, Timestamp, TurnId};

/// One conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// Ours.
    pub conversation_id: ConversationId,
    /// The channel it lives on.
    pub channel: ChannelId,
    /// The platform's name for it, unique on its channel.
    pub external_key: String,
    /// The platform's name for the present talk on this key; another one means another conversation.
    pub context: Option<String>,
    /// The Codex thread, set when the thread starts and changed only when it is lost.
    pub thread: Option<ThreadId>,
    /// The last turn we know on that thread: what reconcile looks behind.
    pub last_turn: Option<TurnId>,
    /// Where its turns work; an absolute path kept as text.
    pub workdir: String,
    /// When its first message came.
    pub created_at: Timestamp,
}

/// Who a sender is, taken from the channel's own authenticated field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tier {
    /// The local command line, owner tokens, canvas users of the own workspace.
    Owner,
    /// Peer agents and A2A clients.
    Peer,
    /// `start` through MCP, HTTP or the command line.
    Tool,
}

impl Tier {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Owner, Self::Peer, Self::Tool];

    /// The word in configuration, storage and display.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Peer => "peer",
            Self::Tool => "tool",
        }
    }

    /// Reads the stored word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tier| tier.as_str() == word)
    }
}

/// What a turn's commands may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sandbox {
    /// Read the disk, write nothing.
    ReadOnly,
    /// Write in the working directory.
    WorkspaceWrite,
    /// No sandbox. Only an operator's configuration file can choose it.
    DangerFullAccess,
}

impl Sandbox {
    /// Codex's word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::WorkspaceWrite => "workspace-write",
            Self::DangerFullAccess => "danger-full-access",
        }
    }

    /// Reads the stored word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::ReadOnly, Self::WorkspaceWrite, Self::DangerFullAccess]
            .into_iter()
            .find(|sandbox| sandbox.as_str() == word)
    }

    /// Whether a turn in it can change the world, and so must never be run again blindly.
    #[must_use]
    pub fn can_write(self) -> bool {
        match self {
            Self::ReadOnly => false,
            Self::WorkspaceWrite | Self::DangerFullAccess => true,
        }
    }
}

/// When Codex asks before it acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApprovalPolicy {
    /// Ask when a command wants to leave the sandbox. The sandbox held every time it was measured.
    OnRequest,
    /// Ask for nearly everything; an accept may run the command outside the sandbox.
    Untrusted,
    /// Never ask; what the sandbox forbids fails.
    Never,
}

impl ApprovalPolicy {
    /// Codex's word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OnRequest => "on-request",
            Self::Untrusted => "untrusted",
            Self::Never => "never",
        }
    }

    /// Reads the word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::OnRequest, Self::Untrusted, Self::Never]
            .into_iter()
            .find(|policy| policy.as_str() == word)
    }
}
