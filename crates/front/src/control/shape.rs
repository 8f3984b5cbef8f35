//! Builds the JSON form of a task from its rows.

use super::rows::{EVENTS_SHOWN, TaskRows};
use crate::Time;
use crate::task_view::{TaskEvent, TaskReply, TaskRequest, TaskShape};
use bridge_core::limits::{PROMPT_SUMMARY_MAX_CHARS, clip};
use bridge_core::requester::requester;
use bridge_core::step::OldEvent;
use bridge_core::task::ControlStatus;
use bridge_core::value::{
    EventKind, ItemEvent, Life, MessageState, Request, Subscription, SubscriptionState,
    SubscriptionTarget, Timestamp, Turn, TurnState,
};
use serde_json::Value;

/// Longest summary of an answer or an error.
const SUMMARY_MAX_CHARS: usize = 500;
/// Longest summary of the newest event.
const PROGRESS_MAX_CHARS: usize = 300;

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

/// One line, with white space collapsed.
pub(crate) fn summary(text: &str, max: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    clip(&words.join(" "), max)
}

impl TaskReply {
    /// About the whole task.
    pub(super) fn of(rows: &TaskRows) -> Self {
        Self {
            message: None,
            task: TaskShape::of(rows, TaskDetail::Whole),
            steer: None,
            why: None,
            interrupt: None,
            duplicate: None,
            response: None,
        }
    }

    pub(super) fn with_message(self, message: impl Into<String>) -> Self {
        let message = Some(message.into());
        Self { message, ..self }
    }
}

impl TaskShape {
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
            task_id: id,
            status: status.as_str().to_owned(),
            phase: rows.phase().as_str().to_owned(),
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
                .map(|sandbox| sandbox.as_str().to_owned()),
            approval_policy: terms.map(|terms| terms.approval_policy.as_str().to_owned()),
            codex_home: terms.and_then(|terms| terms.codex_home.clone()),
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
            notification_status: notification.map(|it| notification_word(it).to_owned()),
            notified_at: notification.and_then(notified_at).map(Time::from),
            notification_error: notification.and_then(|it| it.error.clone()),
            last_progress_summary: progress(rows),
            final_summary: answer.map(|answer| summary(&answer.text, SUMMARY_MAX_CHARS)),
            error_summary: life
                .and_then(error)
                .map(|reason| summary(reason, SUMMARY_MAX_CHARS)),
            stopping: life.and_then(|life| life.stop.clone()),
            created_at: created.map(Time::from),
            updated_at: imported.or(updated).map(Time::from),
            completed_at: answer
                .map(|answer| answer.created_at)
                .or(imported)
                .or(life.map(|life| life.updated_at))
                .filter(|_| status.over())
                .map(Time::from),
            active_connection: life.is_some_and(is_active),
            recent_events: whole.then(|| recent(rows)),
            pending_requests: whole.then(|| {
                let requests = rows.requests();
                requests.map(|request| pending(rows, request)).collect()
            }),
            answer: answer
                .filter(|_| detail == TaskDetail::Whole)
                .map(|answer| answer.text.clone()),
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

fn recent(rows: &TaskRows) -> Vec<TaskEvent> {
    let mut events: Vec<(Timestamp, TaskEvent)> = rows
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
) -> (Timestamp, TaskEvent) {
    let event = TaskEvent {
        source_event_type: source.to_owned(),
        normalized_status: status.map(ToOwned::to_owned),
        payload_summary: payload.to_owned(),
        created_at: at.into(),
    };
    (at, event)
}

/// The beginning and the end of a turn, which are rows of their own here.
fn of_turn(rows: &TaskRows, turn: &Turn) -> Vec<(Timestamp, TaskEvent)> {
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

fn of_event(item: &ItemEvent) -> (Timestamp, TaskEvent) {
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

fn pending(rows: &TaskRows, request: &Request) -> TaskRequest {
    let mut messages = rows.messages.iter().map(|one| &one.message);
    let message = messages.find(|message| message.message_id == request.message_id);
    TaskRequest {
        request_id: request.request_id.to_string(),
        code: request.request_id.code().to_owned(),
        method: request.method.clone(),
        // Codex sends JSON; a payload that was cut is shown as text.
        payload: serde_json::from_str(&request.payload)
            .unwrap_or_else(|_| Value::String(request.payload.clone())),
        state: request.state.as_str().to_owned(),
        created_at: request.created_at.into(),
        requester: message.map(requester),
        sender: message.map(|message| message.sender.clone()),
        tier: message.map(|message| message.tier.as_str().to_owned()),
        kind: request.kind.as_str().to_owned(),
        headline: request.headline.clone(),
        shown: request.shown.clone(),
        wants: request.wants.as_str().to_owned(),
        deciders: request.deciders.as_str().to_owned(),
        deadline: request.deadline.into(),
    }
}
