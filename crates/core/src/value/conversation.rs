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
    /// The model of its turns, fixed by its first message; that of the sender's tier when absent.
    pub model: Option<String>,
    /// The sandbox of its turns, fixed by its first message; that of the sender's tier when absent.
    pub sandbox: Option<Sandbox>,
    /// When its first message came.
    pub created_at: Timestamp,
}

/// Who a sender is, taken from the channel's own authenticated field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum Tier {
    /// The owner of this machine.
    Owner,
    /// Other agents, and people whom the channel can't tell from strangers.
    Peer,
    /// Programs that start tasks.
    Tool,
}

words!(Tier {
    Owner => "owner",
    Peer => "peer",
    Tool => "tool",
});

/// What the commands of a turn may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum Sandbox {
    /// Write nothing, no network.
    ReadOnly,
    /// Also write in the working directory and, unless shielded, in the temporary directories.
    WorkspaceWrite,
    /// No sandbox at all. Only where the machine itself is the sandbox.
    DangerFullAccess,
}

words!(Sandbox {
    ReadOnly => "read-only",
    WorkspaceWrite => "workspace-write",
    DangerFullAccess => "danger-full-access",
});

impl Sandbox {
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
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum ApprovalPolicy {
    /// When a command wants to leave the sandbox.
    OnRequest,
    /// For nearly every command; one that is accepted may run outside the sandbox.
    Untrusted,
    /// Never: what the sandbox forbids fails.
    Never,
}

words!(ApprovalPolicy {
    OnRequest => "on-request",
    Untrusted => "untrusted",
    Never => "never",
});
