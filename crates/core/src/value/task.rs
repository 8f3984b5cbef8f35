//! A task of the control surfaces: what was asked for, beside the conversation that it is.
//!
//! What it does is never stored here: it is derived from its messages and their questions.

use super::{ApprovalPolicy, ConversationId, MessageId, Sandbox, TaskId, Timestamp};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// One task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Known outside.
    pub task_id: TaskId,
    /// Its conversation, which has no other purpose.
    pub conversation_id: ConversationId,
    /// Its first message, the prompt.
    pub message_id: MessageId,
    /// Who started it, by the front's own authenticated field.
    pub starter: String,
    /// The beginning of the prompt, one line.
    pub prompt_summary: String,
    /// What its starter asked for, all of it.
    pub asked: AskedDigest,
    /// How its turns run.
    pub terms: TaskTerms,
    /// Who is told when it is over.
    pub notification: Notification,
    /// When it was started.
    pub created_at: Timestamp,
}

/// What a starter asked for, summed: the same key again must mean the same. What it left out stays left out here,
/// whatever that meant at the time.
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

/// How a task's turns run: what its starter asked for and was allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskTerms {
    /// Where it works; an absolute path kept as text.
    pub cwd: String,
    /// Which model; that of its tier when absent.
    pub model: Option<String>,
    /// What its commands may touch.
    pub sandbox: Sandbox,
    /// When Codex asks.
    pub approval_policy: ApprovalPolicy,
    /// Which CODEX_HOME; the usual one when absent.
    pub codex_home: Option<String>,
    /// What its commands may read. Decided by who started it: no later configuration makes an isolated task read the
    /// disk. Which paths an isolated one reads beside its directory is what the configuration says at each turn.
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

impl ReadAccess {
    /// The stored word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Isolated => "isolated",
        }
    }

    /// Reads the stored word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Disk, Self::Isolated]
            .into_iter()
            .find(|access| access.as_str() == word)
    }
}

/// The one notification of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// Where it goes.
    pub target: Option<String>,
    /// How far it is.
    pub state: NotifyState,
    pub tries: u32,
    /// When the first one began.
    pub first_try_at: Option<Timestamp>,
    /// Why the newest one failed.
    pub error: Option<String>,
}

/// How far a notification is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotifyState {
    /// Nobody is to be told.
    NoTarget,
    /// It waits for the task's end, or for the next try.
    Pending {
        /// Not before this.
        not_before: Option<Timestamp>,
    },
    /// A send was begun; its outcome is not known.
    Sending,
    /// It was taken.
    Sent { at: Timestamp },
    /// It was given up.
    Failed { at: Timestamp },
}

impl NotifyState {
    /// The stored word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoTarget => "no_target",
            Self::Pending { .. } => "pending",
            Self::Sending => "sending",
            Self::Sent { .. } => "sent",
            Self::Failed { .. } => "failed",
        }
    }
}
