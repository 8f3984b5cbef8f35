//! Tasks: a chain of inputs of one owner in one conversation, whoever started it.
//!
//! The state of a task is not stored: [`crate::task`] derives it from its messages and their requests.

use super::{
    ApprovalPolicy, ChannelId, ConversationId, ExternalId, MessageId, RequestId, Sandbox, TaskId,
    Timestamp,
};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// One task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Known outside.
    pub task_id: TaskId,
    /// The channel of its messages.
    pub channel: ChannelId,
    /// The conversation of its messages. A task that was started here has it to itself.
    pub conversation_id: ConversationId,
    /// Who started it, by the front's authenticated field. An agent's task is shown to its owner alone.
    pub owner: String,
    /// Highest event number that was reserved.
    pub sequence: u64,
    /// When it was created.
    pub created_at: Timestamp,
    /// Set for a task that was started through the CLI, HTTP or MCP; `None` for a task of another agent, whose turns run
    /// on the terms of its tier.
    pub start: Option<TaskStart>,
}

impl Task {
    /// Whether it is a task of this agent. A started task is no agent's, whatever its owner's name.
    #[must_use]
    pub fn is_agents(&self, name: &str) -> bool {
        self.start.is_none() && self.owner == name
    }

    /// How its turns run, if it was started here.
    #[must_use]
    pub fn terms(&self) -> Option<&TaskTerms> {
        self.start.as_ref().map(|start| &start.terms)
    }
}

/// How a task was started through a control surface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskStart {
    /// The beginning of the prompt, one line.
    pub prompt_summary: String,
    /// Digest of the whole request.
    pub asked: AskedDigest,
    /// How its turns run.
    pub terms: TaskTerms,
}

/// Digest of a start request: a repeated idempotency key must mean the same request. Fields that were left out stay left
/// out here, whatever their default was at the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedDigest(String);

impl AskedDigest {
    /// Of these parts, always in the same order.
    pub fn of<'p>(parts: impl IntoIterator<Item = Option<&'p str>>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            match part {
                None => hash.update([0]),
                Some(text) => {
                    hash.update([1]);
                    hash.update(text.len().to_le_bytes());
                    hash.update(text);
                }
            }
        }
        Self(HEXLOWER.encode(&hash.finalize()))
    }

    /// One that was stored.
    pub fn stored(digest: impl Into<String>) -> Self {
        Self(digest.into())
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// How the turns of a started task run: what its owner asked for and was allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskTerms {
    /// Working directory; an absolute path kept as text.
    pub cwd: String,
    /// Model; that of its tier when absent.
    pub model: Option<String>,
    /// What its commands may touch.
    pub sandbox: Sandbox,
    /// When Codex asks.
    pub approval_policy: ApprovalPolicy,
    /// CODEX_HOME; the usual one when absent.
    pub codex_home: Option<String>,
    /// What its commands may read. Decided by who started it: no later configuration makes an isolated task read the
    /// disk. The paths an isolated one reads beside its directory come from the configuration at each turn.
    pub reads: ReadAccess,
}

/// What the commands of a turn may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum ReadAccess {
    /// All that this user may read: also logins, keys, and other conversations.
    Disk,
    /// The system's own directories, the working directory and `reads_also`. The operator's MCP servers and apps are off.
    /// Where this Codex can't enforce it, messages wait.
    #[cfg_attr(feature = "config", serde(rename = "shielded"))]
    Isolated,
}

words!(ReadAccess {
    Disk => "disk",
    Isolated => "isolated",
});

/// One input of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskInput {
    /// The task.
    pub task_id: TaskId,
    /// Its place, from 1.
    pub ordinal: u32,
    /// The client's own id for it.
    pub client_message_id: String,
    /// Identifies a repeat of an answer. A message has its key in `external_id`.
    pub idempotency_key: Option<ExternalId>,
    /// What it did.
    pub kind: TaskInputKind,
    /// What was sent, in the channel's stored form; empty for a started task, whose message row has it.
    pub original: String,
    /// When it arrived.
    pub at: Timestamp,
}

impl TaskInput {
    /// The message that it is.
    #[must_use]
    pub fn message_id(&self) -> Option<&MessageId> {
        match &self.kind {
            TaskInputKind::Message(message_id) => Some(message_id),
            TaskInputKind::Answer(_) | TaskInputKind::End => None,
        }
    }
}

/// What an input of a task did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskInputKind {
    /// It is a message.
    Message(MessageId),
    /// It answers a request of Codex.
    Answer(RequestId),
    /// It ends a task that waits for its owner's next input.
    End,
}
