//! The JSON envelopes of the legacy tool, for those who call the MCP tool `codex_bridge` and for notifications: its keys and
//! its times, made from our own forms.

use super::shape::TaskDetail;
use crate::Time;
use crate::task_view::{
    NotificationReport, NotifyReply, TaskEvent, TaskPageView, TaskReply, TaskRequest, TaskShape,
};
use bridge_core::value::Transport;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

/// One task, or a message shown as one.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TaskEnvelope {
    /// Whether it was done.
    success: bool,
    /// What was done, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// The task as it is now.
    task: TaskView,
    /// `steered`, `queued`, or `unknown` (Codex may have it: look before you send it again), after a steer.
    #[serde(skip_serializing_if = "Option::is_none")]
    steer: Option<String>,
    /// Why it waits, or is not known.
    // `null` after a steer that needs no reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    why: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    error: Option<String>,
    /// `cancelled`, `stopping` or `too_late`, after an interrupt.
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupt: Option<String>,
    /// Whether the task was there before, after a start.
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicate: Option<bool>,
    /// The answer that Codex got.
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<Value>,
    /// The result of Codex's call.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    /// How we talk to Codex.
    #[schemars(with = "Value")]
    protocol: Protocol,
}

/// A page of tasks, newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TaskListEnvelope {
    /// Always true.
    success: bool,
    /// The tasks, without their events and questions.
    #[schemars(with = "Vec<Value>")]
    tasks: Vec<TaskView>,
    /// Where the next page begins.
    next: Option<String>,
}

/// Results of notifications.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct NotifyEnvelope {
    /// Always true.
    success: bool,
    /// Whether nothing was sent.
    dry_run: bool,
    /// How many tasks.
    processed: u32,
    /// One for each: `task_id`, `status`, `target`, `notification_status`, `sent`, `message`, `error`, and `why` it
    /// is still unsent where this call did not wait for it.
    #[schemars(with = "Vec<Value>")]
    notifications: Vec<NotificationView>,
}

/// The notification of one ended task.
#[derive(Debug, Serialize)]
struct NotificationView {
    task_id: String,
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    notification_status: String,
    sent: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    notified_at: Option<f64>,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// One task.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "TaskShape")]
pub(crate) struct TaskView {
    /// Its id, under the name that older callers know.
    hermes_task_id: String,
    /// Its id; a message's where no task is meant.
    task_id: String,
    /// `queued`, `starting`, `working`, `waiting_for_approval`, `waiting_for_user_input`, `parked`, `unclear`,
    /// `completed`, `failed` or `cancelled`.
    status: String,
    /// The same for people: `queued`, `working`, `waiting for you`, `done`, `failed` or `stopped`.
    phase: String,
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
    degraded_mode: &'static str,
    /// Who started it.
    starter: Option<String>,
    /// The channel of its messages.
    channel: Option<String>,
    /// Its messages, oldest first.
    message_ids: Vec<String>,
    /// Target of the notification at its end.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<Value>")]
    recent_events: Option<Vec<RecentEvent>>,
    /// What Codex waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<Value>")]
    pending_requests: Option<Vec<PendingRequest>>,
    /// The whole answer.
    // `null` where the whole task is shown and has no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    answer: Option<Option<String>>,
}

#[derive(Debug, Serialize)]
struct RecentEvent {
    source_event_type: String,
    normalized_status: Option<String>,
    payload_summary: String,
    created_at: f64,
}

#[derive(Debug, Serialize)]
struct PendingRequest {
    request_id: String,
    code: String,
    method: String,
    payload: Value,
    status: &'static str,
    state: String,
    created_at: f64,
    requester: Option<String>,
    sender: Option<String>,
    tier: Option<String>,
    kind: String,
    headline: String,
    shown: String,
    wants: String,
    deciders: String,
    deadline: f64,
}

/// How we talk to Codex, as the legacy envelope names it.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Protocol {
    transport: &'static str,
    mailbox: bool,
}

impl Protocol {
    pub(super) fn of(transport: Transport) -> Self {
        Self {
            transport: match transport {
                Transport::Socket => "app-server unix socket",
                Transport::Stdio => "app-server stdio",
            },
            mailbox: false,
        }
    }
}

/// Seconds, as in the legacy tool.
#[expect(clippy::cast_precision_loss, reason = "milliseconds of this epoch fit")]
fn seconds(at: Time) -> f64 {
    at.ms() as f64 / 1_000.0
}

/// The word of a steer that Codex did not take.
pub(super) const REFUSED: &str = "refused";

impl TaskEnvelope {
    pub(super) fn of(reply: TaskReply, transport: Transport) -> Self {
        let TaskReply {
            message,
            task,
            steer,
            why,
            interrupt,
            duplicate,
            response,
        } = reply;
        let refused = steer.as_deref() == Some(REFUSED);
        let result = match (&steer, &interrupt) {
            (Some(_), _) => (!refused).then(|| json!({ "turnId": task.codex_turn_id })),
            (None, Some(_)) => Some(json!({})),
            (None, None) => None,
        };
        Self {
            success: !refused,
            message,
            task: TaskView::of(task, TaskDetail::Whole),
            error: why.clone().filter(|_| refused),
            why: steer.is_some().then_some(why),
            steer,
            interrupt,
            duplicate,
            response,
            result,
            protocol: Protocol::of(transport),
        }
    }
}

impl From<TaskPageView> for TaskListEnvelope {
    fn from(page: TaskPageView) -> Self {
        let tasks = page.tasks.into_iter();
        Self {
            success: true,
            tasks: tasks
                .map(|task| TaskView::of(task, TaskDetail::Line))
                .collect(),
            next: page.next,
        }
    }
}

impl From<NotifyReply> for NotifyEnvelope {
    fn from(reply: NotifyReply) -> Self {
        let notifications = reply.notifications.into_iter();
        Self {
            success: true,
            dry_run: reply.dry_run,
            processed: reply.processed,
            notifications: notifications.map(NotificationView::from).collect(),
        }
    }
}

impl From<NotificationReport> for NotificationView {
    fn from(report: NotificationReport) -> Self {
        let NotificationReport {
            task_id,
            status,
            target,
            notification_status,
            sent,
            notified_at,
            message,
            error,
            why,
        } = report;
        Self {
            task_id,
            status,
            target,
            notification_status,
            sent,
            notified_at: notified_at.map(seconds),
            message,
            error,
            why,
        }
    }
}

impl TaskView {
    pub(crate) fn of(task: TaskShape, detail: TaskDetail) -> Self {
        Self {
            hermes_task_id: task.task_id.clone(),
            task_id: task.task_id,
            status: task.status,
            phase: task.phase,
            codex_thread_id: task.codex_thread_id,
            codex_turn_id: task.codex_turn_id,
            prompt_summary: task.prompt_summary,
            cwd: task.cwd,
            model: task.model,
            sandbox: task.sandbox,
            approval_policy: task.approval_policy,
            codex_home: task.codex_home,
            degraded_mode: "none",
            starter: task.starter,
            channel: task.channel,
            message_ids: task.message_ids,
            notify_target: task.notify_target,
            notification_status: task.notification_status,
            notified_at: task.notified_at.map(seconds),
            notification_error: task.notification_error,
            last_progress_summary: task.last_progress_summary,
            final_summary: task.final_summary,
            error_summary: task.error_summary,
            stopping: task.stopping,
            created_at: task.created_at.map(seconds),
            updated_at: task.updated_at.map(seconds),
            completed_at: task.completed_at.map(seconds),
            active_connection: task.active_connection,
            recent_events: task
                .recent_events
                .map(|events| events.into_iter().map(RecentEvent::from).collect()),
            pending_requests: task
                .pending_requests
                .map(|requests| requests.into_iter().map(PendingRequest::from).collect()),
            answer: (detail == TaskDetail::Whole).then_some(task.answer),
        }
    }
}

impl From<TaskEvent> for RecentEvent {
    fn from(event: TaskEvent) -> Self {
        Self {
            source_event_type: event.source_event_type,
            normalized_status: event.normalized_status,
            payload_summary: event.payload_summary,
            created_at: seconds(event.created_at),
        }
    }
}

impl From<TaskRequest> for PendingRequest {
    fn from(request: TaskRequest) -> Self {
        Self {
            request_id: request.request_id,
            code: request.code,
            method: request.method,
            payload: request.payload,
            status: "pending",
            state: request.state,
            created_at: seconds(request.created_at),
            requester: request.requester,
            sender: request.sender,
            tier: request.tier,
            kind: request.kind,
            headline: request.headline,
            shown: request.shown,
            wants: request.wants,
            deciders: request.deciders,
            deadline: seconds(request.deadline),
        }
    }
}
