//! The JSON envelopes of tasks: the keys of the legacy tool, and our own beside them.

use super::rows::{EVENTS_SHOWN, TaskRows};
use bridge_core::limits::{PROMPT_SUMMARY_MAX_CHARS, clip};
use bridge_core::requester::requester;
use bridge_core::step::OldEvent;
use bridge_core::task::ControlStatus;
use bridge_core::value::{
    EventKind, ItemEvent, Life, MessageState, Request, Subscription, SubscriptionState,
    SubscriptionTarget, Timestamp, Transport, Turn, TurnState,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

/// Longest summary of an answer or an error.
const SUMMARY_MAX_CHARS: usize = 500;
/// Longest summary of the newest event.
const PROGRESS_MAX_CHARS: usize = 300;

/// One task, or a message shown as one.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TaskEnvelope {
    /// Whether it was done.
    success: bool,
    /// What was done, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// The task as it is now.
    pub(super) task: TaskView,
    /// `steered`, `queued`, or `unknown` (Codex may have it: look before you send it again), after a steer.
    #[serde(skip_serializing_if = "Option::is_none")]
    steer: Option<&'static str>,
    /// Why it waits, or is not known.
    // `null` after a steer that needs no reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    why: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    error: Option<String>,
    /// `cancelled` or `stopping`, after an interrupt.
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupt: Option<&'static str>,
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
    pub(super) success: bool,
    /// The tasks, without their events and questions.
    #[schemars(with = "Vec<Value>")]
    pub(super) tasks: Vec<TaskView>,
    /// Where the next page begins.
    pub(super) next: Option<String>,
}

/// Results of notifications.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct NotifyEnvelope {
    /// Always true.
    pub(super) success: bool,
    /// Whether nothing was sent.
    pub(super) dry_run: bool,
    /// How many tasks.
    pub(super) processed: u32,
    /// One for each: `task_id`, `status`, `target`, `notification_status`, `sent`, `message`, `error`, and `why` it
    /// is still unsent where this call did not wait for it.
    #[schemars(with = "Vec<Value>")]
    pub(super) notifications: Vec<NotificationView>,
}

/// The notification of one ended task.
#[derive(Debug, Serialize)]
pub(super) struct NotificationView {
    pub(super) task_id: String,
    pub(super) status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) target: Option<String>,
    pub(super) notification_status: &'static str,
    pub(super) sent: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) notified_at: Option<f64>,
    pub(super) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<&'static str>,
}

/// One task.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "TaskShape")]
pub(crate) struct TaskView {
    /// Its id, under the name that older callers know.
    hermes_task_id: String,
    /// Its id; a message's where no task is meant.
    pub(super) task_id: String,
    /// `queued`, `starting`, `working`, `waiting_for_approval`, `waiting_for_user_input`, `parked`, `unclear`,
    /// `completed`, `failed` or `cancelled`.
    pub(super) status: &'static str,
    /// The same for people: `queued`, `working`, `waiting for you`, `done`, `failed` or `stopped`.
    phase: &'static str,
    /// Codex's thread.
    codex_thread_id: Option<String>,
    /// Codex's newest turn.
    codex_turn_id: Option<String>,
    /// The beginning of the prompt.
    pub(super) prompt_summary: String,
    /// Where it works.
    cwd: Option<String>,
    /// Which model was asked for.
    model: Option<String>,
    /// What its commands may touch.
    sandbox: Option<&'static str>,
    /// When Codex asks.
    approval_policy: Option<&'static str>,
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
    notification_status: Option<&'static str>,
    /// Seconds since the epoch.
    notified_at: Option<f64>,
    /// Why the newest try failed.
    notification_error: Option<String>,
    /// The newest event.
    pub(super) last_progress_summary: Option<String>,
    /// The beginning of the answer.
    pub(super) final_summary: Option<String>,
    /// Why it failed, was stopped or waits.
    pub(super) error_summary: Option<String>,
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
    state: &'static str,
    created_at: f64,
    requester: Option<String>,
    sender: Option<String>,
    tier: Option<&'static str>,
    kind: String,
    headline: String,
    shown: String,
    wants: &'static str,
    deciders: &'static str,
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

/// How much of a task is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskDetail {
    /// A line of a list.
    Line,
    /// All of it, the answer too.
    Whole,
    /// What leaves this machine: no answer beyond its summary.
    Notification,
}

/// Seconds, as in the legacy tool.
#[expect(clippy::cast_precision_loss, reason = "milliseconds of this epoch fit")]
pub(super) fn seconds(at: Timestamp) -> f64 {
    at.0 as f64 / 1_000.0
}

/// One line, with white space collapsed.
pub(crate) fn summary(text: &str, max: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    clip(&words.join(" "), max)
}

impl TaskEnvelope {
    pub(super) fn of(rows: &TaskRows) -> Self {
        Self {
            success: true,
            message: None,
            task: TaskView::of(rows, TaskDetail::Whole),
            steer: None,
            why: None,
            error: None,
            interrupt: None,
            duplicate: None,
            response: None,
            result: None,
            protocol: Protocol::of(rows.transport),
        }
    }

    pub(super) fn with_message(self, message: impl Into<String>) -> Self {
        let message = Some(message.into());
        Self { message, ..self }
    }

    pub(super) fn started(self, duplicate: bool) -> Self {
        let duplicate = Some(duplicate);
        Self { duplicate, ..self }
    }

    pub(super) fn steered(self, steer: &'static str, why: Option<String>) -> Self {
        let refused = steer == "refused";
        let turn = json!({ "turnId": self.task.codex_turn_id });
        Self {
            success: !refused,
            steer: Some(steer),
            error: why.clone().filter(|_| refused),
            why: Some(why),
            result: (!refused).then_some(turn),
            ..self
        }
    }

    pub(super) fn interrupted(self, interrupt: &'static str) -> Self {
        Self {
            interrupt: Some(interrupt),
            result: Some(json!({})),
            ..self
        }
    }

    pub(super) fn answered(self, response: Value) -> Self {
        let response = Some(response);
        Self { response, ..self }
    }
}

impl TaskView {
    pub(crate) fn of(rows: &TaskRows, detail: TaskDetail) -> Self {
        let status = rows.status();
        let first = rows.messages.first().map(|one| &one.message);
        let task = rows.task.as_ref();
        let start = task.and_then(|task| task.start.as_ref());
        let terms = start.map(|start| &start.terms);
        let id = task
            .map(|task| task.task_id.to_string())
            .or(first.map(|message| message.message_id.to_string()))
            .unwrap_or_default();
        let prompt_summary = start
            .map(|start| start.prompt_summary.clone())
            .or(first.map(|message| summary(&message.body, PROMPT_SUMMARY_MAX_CHARS)))
            .unwrap_or_default();
        let turn = rows.turns.last();
        let conversation = rows.conversation.as_ref();
        let notification = rows.notification.as_ref();
        let present = rows.present();
        let answer = present.and_then(|one| one.answer.as_ref());
        let life = present.map(|one| &one.message.life);
        let newest = rows.events.last();
        let created = task
            .map(|task| task.created_at)
            .or(first.map(|message| message.received_at));
        let changed = rows.messages.iter().map(|one| one.message.life.updated_at);
        // The rows of a task that was taken over are of the day of that; its newest event is of its own.
        let imported = newest.filter(|event| event.kind == EventKind::Imported);
        let imported = imported.map(|event| event.at);
        let updated = changed.chain(newest.map(|event| event.at)).max();
        let whole = detail != TaskDetail::Line;
        Self {
            hermes_task_id: id.clone(),
            task_id: id,
            status: status.as_str(),
            phase: rows.phase().as_str(),
            codex_thread_id: conversation
                .and_then(|conversation| conversation.thread.as_ref())
                .map(ToString::to_string),
            codex_turn_id: turn
                .and_then(|turn| turn.turn_id.as_ref())
                .or(conversation.and_then(|conversation| conversation.last_turn.as_ref()))
                .map(ToString::to_string),
            prompt_summary,
            cwd: terms
                .map(|terms| terms.cwd.clone())
                .or(conversation.map(|conversation| conversation.workdir.clone())),
            model: terms.and_then(|terms| terms.model.clone()),
            sandbox: terms
                .map(|terms| terms.sandbox)
                .or(turn.map(|turn| turn.sandbox))
                .map(|sandbox| sandbox.as_str()),
            approval_policy: terms.map(|terms| terms.approval_policy.as_str()),
            codex_home: terms.and_then(|terms| terms.codex_home.clone()),
            degraded_mode: "none",
            starter: task.map(|task| task.owner.clone()),
            channel: first.map(|message| message.channel.to_string()),
            message_ids: rows
                .messages
                .iter()
                .map(|one| one.message.message_id.to_string())
                .collect(),
            notify_target: notification
                .and_then(Subscription::notify)
                .map(ToOwned::to_owned),
            notification_status: notification.map(notification_word),
            notified_at: notification.and_then(notified_at).map(seconds),
            notification_error: notification.and_then(|it| it.error.clone()),
            last_progress_summary: progress(rows),
            final_summary: answer.map(|answer| summary(&answer.text, SUMMARY_MAX_CHARS)),
            error_summary: life
                .and_then(error)
                .map(|reason| summary(reason, SUMMARY_MAX_CHARS)),
            stopping: life.and_then(|life| life.stop.clone()),
            created_at: created.map(seconds),
            updated_at: imported.or(updated).map(seconds),
            completed_at: answer
                .map(|answer| answer.created_at)
                .or(imported)
                .or(life.map(|life| life.updated_at))
                .filter(|_| status.over())
                .map(seconds),
            active_connection: life.is_some_and(is_active),
            recent_events: whole.then(|| recent(rows)),
            pending_requests: whole.then(|| {
                let requests = rows.requests();
                requests.map(|request| pending(rows, request)).collect()
            }),
            answer: (detail == TaskDetail::Whole).then(|| answer.map(|answer| answer.text.clone())),
        }
    }
}

/// The status of a notification. A task without a target has one once `notify_completed` has shown it.
pub(super) fn notification_word(notification: &Subscription) -> &'static str {
    match (&notification.target, notification.state) {
        (SubscriptionTarget::Nobody, _) => "no_target",
        (_, SubscriptionState::Waiting { .. } | SubscriptionState::Sending) => "pending",
        (_, SubscriptionState::Closed { .. }) => "sent",
        (_, SubscriptionState::Dead { .. }) => "failed",
    }
}

/// When a notification was delivered.
pub(super) fn notified_at(notification: &Subscription) -> Option<Timestamp> {
    match (notification.notify(), notification.state) {
        (Some(_), SubscriptionState::Closed { at }) => Some(at),
        _ => None,
    }
}

/// Why a message failed, was stopped or waits.
fn error(life: &Life) -> Option<&str> {
    match &life.state {
        MessageState::Dead { reason }
        | MessageState::Cancelled { reason }
        | MessageState::Parked { reason, .. } => Some(reason),
        MessageState::Received { hold } | MessageState::Unclear { hold } => {
            hold.as_ref().map(|hold| hold.failure.reason.as_str())
        }
        _ => None,
    }
}

fn is_active(life: &Life) -> bool {
    matches!(
        life.state,
        MessageState::Starting | MessageState::Running { .. } | MessageState::Steered { .. }
    )
}

/// The legacy tool's names of events.
fn kind(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Started => "item/started",
        EventKind::Completed => "item/completed",
        EventKind::Retrying => "error",
        EventKind::Asked => "bridge/request",
        EventKind::Bridge => "bridge/note",
        EventKind::Raw | EventKind::Stderr | EventKind::Imported => kind.as_str(),
    }
}

/// The newest event. Lines of the protocol and of standard error are no progress, nor is it that a task was taken over.
fn progress(rows: &TaskRows) -> Option<String> {
    rows.events.iter().rev().find_map(|event| {
        let line = match event.kind {
            EventKind::Raw | EventKind::Stderr => return None,
            EventKind::Imported => match OldEvent::read(&event.text) {
                (OldEvent::TAKEN_OVER, _, _) => return None,
                (source, _, summary) => format!("{source}: {summary}"),
            },
            kind => format!("{}: {}", self::kind(kind), event.text),
        };
        Some(clip(&line, PROGRESS_MAX_CHARS))
    })
}

fn recent(rows: &TaskRows) -> Vec<RecentEvent> {
    let mut events: Vec<(Timestamp, RecentEvent)> = rows
        .turns
        .iter()
        .flat_map(|turn| of_turn(rows, turn))
        .collect();
    events.extend(rows.events.iter().map(of_event));
    // Stable: events of the same time stay in order.
    events.sort_by_key(|(at, _)| *at);
    let surplus = events.len().saturating_sub(EVENTS_SHOWN);
    events
        .into_iter()
        .skip(surplus)
        .map(|(_, event)| event)
        .collect()
}

fn event(
    source: &str,
    status: Option<&str>,
    payload: &str,
    at: Timestamp,
) -> (Timestamp, RecentEvent) {
    let event = RecentEvent {
        source_event_type: source.to_owned(),
        normalized_status: status.map(ToOwned::to_owned),
        payload_summary: payload.to_owned(),
        created_at: seconds(at),
    };
    (at, event)
}

/// The beginning and the end of a turn, which are rows of their own here.
fn of_turn(rows: &TaskRows, turn: &Turn) -> Vec<(Timestamp, RecentEvent)> {
    let name = turn.turn_id.as_ref().map(ToString::to_string);
    let name = name.unwrap_or_default();
    let mut events = vec![event(
        "turn/started",
        Some("working"),
        &name,
        turn.started_at,
    )];
    if let (TurnState::Ended, Some(at)) = (turn.state, turn.ended_at) {
        let status = Some(ended_as(rows, turn).as_str());
        events.push(event("turn/completed", status, &name, at));
    }
    events
}

/// How a turn ended, by what became of its message.
fn ended_as(rows: &TaskRows, turn: &Turn) -> ControlStatus {
    let mut messages = rows.messages.iter();
    let one = messages.find(|one| one.message.message_id == turn.message_id);
    match one.map(|one| (&one.answer, &one.message.life.state)) {
        Some((Some(_), _)) => ControlStatus::Completed,
        Some((None, MessageState::Cancelled { .. })) => ControlStatus::Cancelled,
        Some((None, _)) | None => ControlStatus::Failed,
    }
}

fn of_event(item: &ItemEvent) -> (Timestamp, RecentEvent) {
    let status = match item.kind {
        EventKind::Started | EventKind::Completed | EventKind::Retrying => Some("working"),
        EventKind::Asked => Some(ControlStatus::WaitingForApproval.as_str()),
        EventKind::Bridge | EventKind::Raw | EventKind::Stderr => None,
        EventKind::Imported => {
            let (source, status, summary) = OldEvent::read(&item.text);
            return event(source, status, summary, item.at);
        }
    };
    event(kind(item.kind), status, &item.text, item.at)
}

fn pending(rows: &TaskRows, request: &Request) -> PendingRequest {
    let mut messages = rows.messages.iter().map(|one| &one.message);
    let message = messages.find(|message| message.message_id == request.message_id);
    PendingRequest {
        request_id: request.request_id.to_string(),
        code: request.request_id.code().to_owned(),
        method: request.method.clone(),
        // Codex sends JSON; a payload that was cut is shown as text.
        payload: serde_json::from_str(&request.payload)
            .unwrap_or_else(|_| Value::String(request.payload.clone())),
        status: "pending",
        state: request.state.as_str(),
        created_at: seconds(request.created_at),
        requester: message.map(requester),
        sender: message.map(|message| message.sender.clone()),
        tier: message.map(|message| message.tier.as_str()),
        kind: request.kind.as_str().to_owned(),
        headline: request.headline.clone(),
        shown: request.shown.clone(),
        wants: request.wants.as_str(),
        deciders: request.deciders.as_str(),
        deadline: seconds(request.deadline),
    }
}
