//! The envelopes as the API's document describes them. What they hold is made in `envelope`; a test holds both to each
//! other.

use schemars::JsonSchema;
use serde_json::Value;

/// About one task, or a message in the same words.
#[derive(Debug, JsonSchema)]
#[expect(dead_code, reason = "it is only described")]
pub(crate) struct TaskEnvelope {
    /// Whether it was done.
    success: bool,
    /// What was done, for people.
    message: Option<String>,
    /// The task as it is now.
    task: TaskShape,
    /// `steered`, `queued`, or `unknown` (it may have been heard: look before it is said again), after telling more.
    steer: Option<String>,
    /// Why it waits, or is not known.
    why: Option<String>,
    /// `cancelled` or `stopping`, after an interrupt.
    interrupt: Option<String>,
    /// Whether the task was there before, after a start.
    duplicate: Option<bool>,
    /// What Codex was answered.
    response: Option<Value>,
    /// What Codex said.
    result: Option<Value>,
    /// How we talk to Codex.
    protocol: Value,
}

/// A page of tasks, newest first.
#[derive(Debug, JsonSchema)]
#[expect(dead_code, reason = "it is only described")]
pub(crate) struct TaskListEnvelope {
    /// Always true.
    success: bool,
    /// The tasks, without their events and questions.
    tasks: Vec<Value>,
    /// Where the next page begins.
    next: Option<String>,
}

/// What became of notifications.
#[derive(Debug, JsonSchema)]
#[expect(dead_code, reason = "it is only described")]
pub(crate) struct NotifyEnvelope {
    /// Always true.
    success: bool,
    /// Whether nothing was sent.
    dry_run: bool,
    /// How many tasks.
    processed: u32,
    /// One for each: `task_id`, `status`, `target`, `notification_status`, `sent`, `message`, `error`, and `why` it
    /// is still unsent where this call did not wait for it.
    notifications: Vec<Value>,
}

/// One task.
#[derive(Debug, JsonSchema)]
#[expect(dead_code, reason = "it is only described")]
pub(crate) struct TaskShape {
    /// Its id, under the name that older callers know.
    hermes_task_id: String,
    /// Its id; a message's where no task is meant.
    task_id: String,
    /// `queued`, `starting`, `working`, `waiting_for_approval`, `waiting_for_user_input`, `parked`, `unclear`,
    /// `completed`, `failed` or `cancelled`.
    status: String,
    /// Codex's thread.
    codex_thread_id: Option<String>,
    /// Codex's newest turn.
    codex_turn_id: Option<String>,
    /// The beginning of the prompt.
    prompt_summary: String,
    /// Where it works.
    cwd: Option<String>,
    /// Which model was asked for.
    model: Option<String>,
    /// What its commands may touch.
    sandbox: Option<String>,
    /// When Codex asks.
    approval_policy: Option<String>,
    /// Which CODEX_HOME was asked for.
    codex_home: Option<String>,
    /// Always `none`.
    degraded_mode: String,
    /// Who started it.
    starter: Option<String>,
    /// The channel of its messages.
    channel: Option<String>,
    /// Its messages, oldest first.
    message_ids: Vec<String>,
    /// Who is told when it is over.
    notify_target: Option<String>,
    /// `pending`, `sent`, `failed` or `no_target`.
    notification_status: Option<String>,
    /// Seconds since the epoch.
    notified_at: Option<f64>,
    /// Why the newest try failed.
    notification_error: Option<String>,
    /// The newest event.
    last_progress_summary: Option<String>,
    /// The beginning of the answer.
    final_summary: Option<String>,
    /// Why it failed, was stopped or waits.
    error_summary: Option<String>,
    /// Who wants it stopped, until it is.
    stopping: Option<String>,
    /// Seconds since the epoch.
    created_at: Option<f64>,
    /// Seconds since the epoch.
    updated_at: Option<f64>,
    /// Seconds since the epoch, once it is over.
    completed_at: Option<f64>,
    /// Whether a turn of it is followed now.
    active_connection: bool,
    /// The last 20: `source_event_type`, `normalized_status`, `payload_summary`, `created_at`.
    recent_events: Vec<Value>,
    /// What Codex waits for.
    pending_requests: Vec<Value>,
    /// The whole answer.
    answer: Option<String>,
}

#[cfg(test)]
pub(super) fn task_keys() -> Vec<String> {
    let schema = schemars::schema_for!(TaskShape);
    let properties = schema.get("properties").and_then(Value::as_object);
    properties
        .into_iter()
        .flatten()
        .map(|(key, _)| key.clone())
        .collect()
}
