//! Tasks in JSON over HTTP, in the same words and times as messages. They are built from rows in `control::shape`; the
//! envelope of the older tool, which MCP's `codex_bridge` answers with, is made from them.

use crate::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// About one task, or a message in the same words.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TaskReply {
    /// What was done, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The task as it is now.
    pub task: TaskShape,
    /// `steered`, `queued`, or `unknown` (it may have been heard: look before it is said again), after telling more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steer: Option<String>,
    /// Why it waits, or is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// `cancelled` or `stopping`, after an interrupt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt: Option<String>,
    /// Whether the task was there before, after a start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<bool>,
    /// What Codex was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Value>,
}

/// A page of tasks, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TaskPageView {
    /// The tasks, without their events and questions.
    pub tasks: Vec<TaskShape>,
    /// What to give as `before` for the next page; absent on the last one.
    #[serde(default)]
    pub next: Option<String>,
}

/// One task.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TaskShape {
    /// Its id; a message's where no task is meant.
    pub task_id: String,
    /// `queued`, `starting`, `working`, `waiting_for_approval`, `waiting_for_user_input`, `parked`, `unclear`,
    /// `completed`, `failed` or `cancelled`.
    pub status: String,
    /// The same for people: `queued`, `working`, `waiting for you`, `done`, `failed` or `stopped`.
    #[serde(default)]
    pub phase: String,
    /// Codex's thread.
    pub codex_thread_id: Option<String>,
    /// Codex's newest turn.
    pub codex_turn_id: Option<String>,
    /// The beginning of the prompt.
    pub prompt_summary: String,
    /// Where it works.
    pub cwd: Option<String>,
    /// Which model was asked for.
    pub model: Option<String>,
    /// What its commands may touch.
    pub sandbox: Option<String>,
    /// When Codex asks.
    pub approval_policy: Option<String>,
    /// Which CODEX_HOME was asked for.
    pub codex_home: Option<String>,
    /// Who started it.
    pub starter: Option<String>,
    /// The channel of its messages.
    pub channel: Option<String>,
    /// Its messages, oldest first.
    pub message_ids: Vec<String>,
    /// Target of the notification at its end.
    pub notify_target: Option<String>,
    /// `pending`, `sent`, `failed` or `no_target`.
    pub notification_status: Option<String>,
    /// When it was notified.
    pub notified_at: Option<Time>,
    /// Why the newest try failed.
    pub notification_error: Option<String>,
    /// The newest event.
    pub last_progress_summary: Option<String>,
    /// The beginning of the answer.
    pub final_summary: Option<String>,
    /// Why it failed, was stopped or waits.
    pub error_summary: Option<String>,
    /// Who wants it stopped, until it is.
    pub stopping: Option<String>,
    /// When it was started.
    pub created_at: Option<Time>,
    /// When something last happened to it.
    pub updated_at: Option<Time>,
    /// When it was over.
    pub completed_at: Option<Time>,
    /// Whether a turn of it is followed now.
    pub active_connection: bool,
    /// The last 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recent_events: Option<Vec<TaskEvent>>,
    /// What Codex waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_requests: Option<Vec<TaskRequest>>,
    /// The whole answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

/// Something that happened to a task.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TaskEvent {
    /// What kind of thing.
    pub source_event_type: String,
    /// What the task was then.
    pub normalized_status: Option<String>,
    /// One line for people.
    pub payload_summary: String,
    /// When.
    pub created_at: Time,
}

/// Something that Codex asks for a task.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TaskRequest {
    /// Its id.
    pub request_id: String,
    /// What stands for it in a chat.
    pub code: String,
    /// Codex's own name for this kind of question.
    pub method: String,
    /// What Codex sent.
    pub payload: Value,
    /// `open`, `orphaned` or `granted`.
    pub state: String,
    /// When it was asked.
    pub created_at: Time,
    /// Whose work it is about, for people.
    pub requester: Option<String>,
    /// Who sent the message whose turn asks.
    pub sender: Option<String>,
    /// What that sender may do.
    pub tier: Option<String>,
    /// What kind of answer it needs.
    pub kind: String,
    /// One line for people.
    pub headline: String,
    /// All that is decided about, in plain lines.
    pub shown: String,
    /// What an accept must say.
    pub wants: String,
    /// Who may decide.
    pub deciders: String,
    /// When silence becomes a decline.
    pub deadline: Time,
}

/// What became of notifications.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NotifyReply {
    /// Whether nothing was sent.
    pub dry_run: bool,
    /// How many tasks.
    pub processed: u32,
    /// One for each.
    pub notifications: Vec<NotificationReport>,
}

/// The notification of one ended task.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NotificationReport {
    /// Which task.
    pub task_id: String,
    /// How it ended.
    pub status: String,
    /// Who is notified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// `pending`, `sent`, `failed` or `no_target`.
    pub notification_status: String,
    /// Whether this call sent it.
    pub sent: bool,
    /// When it was notified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notified_at: Option<Time>,
    /// What is said.
    pub message: String,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why it is still unsent where this call did not wait for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}
