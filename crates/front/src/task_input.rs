//! Tasks of other agents as a front and the daemon speak of them: what comes in, and who we say we are.

use crate::Caller;
use bridge_core::value::{ConversationId, RequestDecision, RequestId, TaskId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What another agent said, checked for its form.
#[derive(Clone, Debug)]
pub struct NewTaskInput {
    /// Who says it: what it may do comes from this alone.
    pub from: Caller,
    /// The talk it belongs to; a new one when absent.
    pub context: Option<String>,
    /// The task it goes on with; a new one when absent.
    pub task_id: Option<TaskId>,
    /// The sender's own id for it. It never tells two apart.
    pub client_message_id: String,
    /// The sender's key, where it wants repeats to be known again.
    pub key: Option<String>,
    /// The text for Codex.
    pub text: String,
    /// Files that came with it.
    pub files: Vec<NewFile>,
    /// How many agents answered each other before it, as far as they say so.
    pub hops: u32,
    /// What was said, in the front's stored form.
    pub original: String,
    /// The same without its parts, for a message that a guard refuses.
    pub brief: String,
}

/// What another agent says to a question of Codex in its task.
#[derive(Clone)]
pub struct NewAnswer {
    /// Who says it: what it may decide comes from this alone.
    pub from: Caller,
    /// In which task.
    pub task_id: TaskId,
    /// The conversation of that.
    pub conversation_id: ConversationId,
    /// The question.
    pub request_id: RequestId,
    /// Yes or no.
    pub decision: RequestDecision,
    /// What Codex is told, as JSON.
    pub answers: Option<String>,
    /// The sender's own id for it. It never tells two apart.
    pub client_message_id: String,
    /// The sender's key, where it wants repeats to be known again.
    pub key: Option<String>,
    /// What was said, in the front's stored form.
    pub original: String,
}

impl std::fmt::Debug for NewAnswer {
    /// Without what was said: it may be a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewAnswer")
            .field("from", &self.from)
            .field("task_id", &self.task_id)
            .field("request_id", &self.request_id)
            .field("decision", &self.decision)
            .finish_non_exhaustive()
    }
}

/// A file that came with a message.
#[derive(Clone, PartialEq, Eq)]
pub struct NewFile {
    /// Its name, a label.
    pub name: Option<String>,
    /// Its type, as its sender says.
    pub media_type: Option<String>,
    /// What is in it.
    pub bytes: Vec<u8>,
}

impl std::fmt::Debug for NewFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewFile")
            .field("name", &self.name)
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

/// Who we say we are to other agents, from the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct A2aProfile {
    /// Whether we speak A2A at all.
    pub enabled: bool,
    /// Our name.
    pub name: String,
    /// What we are good for.
    pub description: String,
    /// Where we are reached, such as `https://bridge.example`; what the caller called when absent.
    pub url: Option<String>,
    /// Who may call.
    pub auth: A2aAuth,
    /// What we can do.
    pub skills: Vec<A2aSkill>,
}

impl Default for A2aProfile {
    fn default() -> Self {
        Self {
            enabled: true,
            name: "codex-bridge".to_owned(),
            description: "OpenAI Codex behind codex-bridge: reads, writes and runs code."
                .to_owned(),
            url: None,
            auth: A2aAuth::Tokens,
            skills: vec![A2aSkill {
                id: "codex".to_owned(),
                name: "Work with code".to_owned(),
                description: "Answers questions about code and works on it.".to_owned(),
                tags: vec!["code".to_owned()],
                examples: Vec::new(),
            }],
        }
    }
}

/// How agents say who they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum A2aAuth {
    /// By a token of their own, made with `peers add`.
    #[default]
    Tokens,
    /// Not at all: whoever reaches it is the peer `anonymous`. For conformance kits, and only on this machine.
    None,
}

/// One thing we can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct A2aSkill {
    /// Unique.
    pub id: String,
    /// For people.
    pub name: String,
    /// For people and agents.
    pub description: String,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// What one might ask.
    pub examples: Vec<String>,
}

/// What became of a push configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushPut {
    /// It is on disk.
    Put,
    /// There is no such task of this owner.
    Unknown,
    /// It can't be; nothing was stored.
    Refused {
        /// Why, for its owner.
        why: String,
    },
}
