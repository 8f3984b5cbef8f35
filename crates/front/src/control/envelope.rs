//! The envelope of a task: the JSON that other agents know, with their keys, and ours beside them.

use super::rows::TaskRows;
use bridge_core::limits::{PROMPT_SUMMARY_MAX_CHARS, clip};
use bridge_core::requester::requester;
use bridge_core::task::ControlStatus;
use bridge_core::value::{
    EventKind, ItemEvent, MessageState, Request, Subscription, SubscriptionState,
    SubscriptionTarget, TaskStart, Timestamp, Transport, Turn, TurnState,
};
use serde_json::{Value, json};

/// Longest summary of what was answered or went wrong.
const SUMMARY_MAX_CHARS: usize = 500;
/// Longest summary of the newest event.
const PROGRESS_MAX_CHARS: usize = 300;

/// How much is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// A line of a list.
    Line,
    /// All of it, the answer too.
    Whole,
    /// What leaves this machine: no answer beyond its summary.
    Notice,
}

/// Seconds, as other agents know times.
pub(super) fn seconds(at: Timestamp) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of this epoch fit")]
    let seconds = at.0 as f64 / 1_000.0;
    json!(seconds)
}

fn maybe_seconds(at: Option<Timestamp>) -> Value {
    at.map_or(Value::Null, seconds)
}

/// One line: white space as it comes in prompts says nothing in a summary.
pub(crate) fn summary(text: &str, max: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    clip(&words.join(" "), max)
}

/// What the ancestor's envelope calls the protocol.
pub(crate) fn protocol(transport: Transport) -> Value {
    let transport = match transport {
        Transport::Socket => "app-server unix socket",
        Transport::Stdio => "app-server stdio",
    };
    json!({ "transport": transport, "mailbox": false })
}

/// A good answer about one task.
pub(crate) fn envelope(rows: &TaskRows, message: &str) -> Value {
    json!({
        "success": true,
        "message": message,
        "task": view(rows, Told::Whole),
        "protocol": protocol(rows.transport),
    })
}

pub(crate) fn view(rows: &TaskRows, told: Told) -> Value {
    let status = rows.status();
    let mut view = base(rows, status);
    merge(&mut view, notification(rows.notification.as_ref()));
    merge(&mut view, progress(rows, status));
    match told {
        Told::Line => {}
        Told::Whole | Told::Notice => {
            let events: Vec<Value> = recent(rows);
            let asked = rows.requests().map(|request| pending(rows, request));
            merge(
                &mut view,
                json!({
                    "recent_events": events,
                    "pending_requests": asked.collect::<Vec<_>>(),
                }),
            );
        }
    }
    if told == Told::Whole {
        let answer = rows.present().and_then(|rows| rows.answer.as_ref());
        merge(
            &mut view,
            json!({ "answer": answer.map(|answer| &answer.text) }),
        );
    }
    view
}

fn merge(view: &mut Value, more: Value) {
    if let (Value::Object(view), Value::Object(more)) = (view, more) {
        view.extend(more);
    }
}

fn base(rows: &TaskRows, status: ControlStatus) -> Value {
    let first = rows.messages.first().map(|rows| &rows.message);
    let id = match (&rows.task, first) {
        (Some(task), _) => task.task_id.to_string(),
        (None, Some(message)) => message.message_id.to_string(),
        (None, None) => String::new(),
    };
    let turn = rows.turns.last();
    let conversation = rows.conversation.as_ref();
    let thread = conversation.and_then(|conversation| conversation.thread.as_ref());
    let start = rows.task.as_ref().and_then(|task| task.start.as_ref());
    let terms = start.map(|start| &start.terms);
    let summary_of_prompt = match (start, first) {
        (Some(TaskStart { prompt_summary, .. }), _) => prompt_summary.clone(),
        (None, Some(message)) => summary(&message.body, PROMPT_SUMMARY_MAX_CHARS),
        (None, None) => String::new(),
    };
    let cwd = match (terms, conversation) {
        (Some(terms), _) => Some(&terms.cwd),
        (None, Some(conversation)) => Some(&conversation.workdir),
        (None, None) => None,
    };
    let sandbox = terms
        .map(|terms| terms.sandbox)
        .or(turn.map(|turn| turn.sandbox));
    json!({
        "hermes_task_id": id,
        "task_id": id,
        "status": status.as_str(),
        "codex_thread_id": thread.map(ToString::to_string),
        "codex_turn_id": turn.and_then(|turn| turn.turn_id.as_ref()).map(ToString::to_string),
        "prompt_summary": summary_of_prompt,
        "cwd": cwd,
        "model": terms.and_then(|terms| terms.model.as_ref()),
        "sandbox": sandbox.map(|sandbox| sandbox.as_str()),
        "approval_policy": terms.map(|terms| terms.approval_policy.as_str()),
        "codex_home": terms.and_then(|terms| terms.codex_home.as_ref()),
        "degraded_mode": "none",
        "starter": rows.task.as_ref().map(|task| &task.owner),
        "channel": first.map(|message| message.channel.to_string()),
        "message_ids": rows.messages.iter().map(|rows| rows.message.message_id.to_string()).collect::<Vec<_>>(),
    })
}

/// The word for how far the notification of a task is. A task without a target says so once a person was shown it.
pub(crate) fn notification_word(notification: &Subscription) -> &'static str {
    match (&notification.target, notification.state) {
        (SubscriptionTarget::Nobody, _) => "no_target",
        // The intent to send is ours to know.
        (_, SubscriptionState::Waiting { .. } | SubscriptionState::Sending) => "pending",
        (_, SubscriptionState::Closed { .. }) => "sent",
        (_, SubscriptionState::Dead { .. }) => "failed",
    }
}

/// When a notification was taken.
pub(crate) fn notified_at(notification: &Subscription) -> Option<Timestamp> {
    match (notification.notify(), notification.state) {
        (Some(_), SubscriptionState::Closed { at }) => Some(at),
        _ => None,
    }
}

fn notification(notification: Option<&Subscription>) -> Value {
    json!({
        "notify_target": notification.and_then(Subscription::notify),
        "notification_status": notification.map(notification_word),
        "notified_at": maybe_seconds(notification.and_then(notified_at)),
        "notification_error": notification.and_then(|it| it.error.as_ref()),
    })
}

fn progress(rows: &TaskRows, status: ControlStatus) -> Value {
    let present = rows.present();
    let answer = present.and_then(|rows| rows.answer.as_ref());
    let life = present.map(|rows| &rows.message.life);
    let error = life.and_then(|life| match &life.state {
        MessageState::Dead { reason }
        | MessageState::Cancelled { reason }
        | MessageState::Parked { reason, .. } => Some(reason.clone()),
        MessageState::Received { hold } | MessageState::Unclear { hold } => {
            hold.as_ref().map(|hold| hold.failure.reason.clone())
        }
        MessageState::Claimed
        | MessageState::Starting
        | MessageState::Running { .. }
        | MessageState::Steered { .. }
        | MessageState::Answered
        | MessageState::Sending
        | MessageState::Replied
        | MessageState::Done => None,
    });
    let newest = rows.events.last();
    let created = match (&rows.task, rows.messages.first()) {
        (Some(task), _) => Some(task.created_at),
        (None, Some(rows)) => Some(rows.message.received_at),
        (None, None) => None,
    };
    let changed = rows
        .messages
        .iter()
        .map(|rows| rows.message.life.updated_at);
    let updated = changed.chain(newest.map(|event| event.at)).max();
    let ended = answer
        .map(|answer| answer.created_at)
        .or(life.map(|life| life.updated_at));
    let active = life.is_some_and(|life| match life.state {
        MessageState::Starting | MessageState::Running { .. } | MessageState::Steered { .. } => {
            true
        }
        MessageState::Received { .. }
        | MessageState::Claimed
        | MessageState::Unclear { .. }
        | MessageState::Parked { .. }
        | MessageState::Answered
        | MessageState::Sending
        | MessageState::Replied
        | MessageState::Done
        | MessageState::Dead { .. }
        | MessageState::Cancelled { .. } => false,
    });
    json!({
        "last_progress_summary": newest.map(|event| clip(&format!("{}: {}", kind(event.kind), event.text), PROGRESS_MAX_CHARS)),
        "final_summary": answer.map(|answer| summary(&answer.text, SUMMARY_MAX_CHARS)),
        "error_summary": error.map(|reason| summary(&reason, SUMMARY_MAX_CHARS)),
        "stopping": life.and_then(|life| life.stop.as_ref()),
        "created_at": maybe_seconds(created),
        "updated_at": maybe_seconds(updated),
        "completed_at": maybe_seconds(ended.filter(|_| status.over())),
        "active_connection": active,
    })
}

/// The names of events that other agents know.
fn kind(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Started => "item/started",
        EventKind::Completed => "item/completed",
        EventKind::Retrying => "error",
        EventKind::Asked => "bridge/request",
        EventKind::Bridge => "bridge/note",
    }
}

fn recent(rows: &TaskRows) -> Vec<Value> {
    let mut told: Vec<(Timestamp, Value)> = rows.turns.iter().flat_map(of_turn).collect();
    told.extend(rows.events.iter().map(of_event));
    // Stable: what happened at the same time stays in order.
    told.sort_by_key(|(at, _)| *at);
    let surplus = told.len().saturating_sub(super::rows::EVENTS_TOLD);
    told.into_iter()
        .skip(surplus)
        .map(|(_, event)| event)
        .collect()
}

fn event(source: &str, status: Option<&str>, payload: &str, at: Timestamp) -> (Timestamp, Value) {
    let told = json!({
        "source_event_type": source,
        "normalized_status": status,
        "payload_summary": payload,
        "created_at": seconds(at),
    });
    (at, told)
}

/// A turn's beginning and end, which are rows of their own here.
fn of_turn(turn: &Turn) -> Vec<(Timestamp, Value)> {
    let name = turn.turn_id.as_ref().map(ToString::to_string);
    let name = name.unwrap_or_default();
    let begun = event("turn/started", Some("working"), &name, turn.started_at);
    let ended = match (turn.state, turn.ended_at) {
        (TurnState::Ended, Some(at)) => Some(event("turn/completed", None, &name, at)),
        (TurnState::Begun | TurnState::Attached | TurnState::Ended | TurnState::Lost, _) => None,
    };
    [Some(begun), ended].into_iter().flatten().collect()
}

fn of_event(told: &ItemEvent) -> (Timestamp, Value) {
    let status = match told.kind {
        EventKind::Started | EventKind::Completed | EventKind::Retrying => Some("working"),
        EventKind::Asked => Some("waiting_for_approval"),
        EventKind::Bridge => None,
    };
    event(kind(told.kind), status, &told.text, told.at)
}

fn pending(rows: &TaskRows, request: &Request) -> Value {
    let mut messages = rows.messages.iter().map(|rows| &rows.message);
    let message = messages.find(|message| message.message_id == request.message_id);
    // What Codex sent is JSON; where it was cut it is shown as the text it is.
    let payload = serde_json::from_str(&request.payload)
        .unwrap_or_else(|_| Value::String(request.payload.clone()));
    json!({
        "request_id": request.request_id.to_string(),
        "code": request.request_id.code(),
        "method": request.method,
        "payload": payload,
        "status": "pending",
        "state": request.state.as_str(),
        "created_at": seconds(request.created_at),
        "requester": message.map(requester),
        "sender": message.map(|message| &message.sender),
        "tier": message.map(|message| message.tier.as_str()),
        "kind": request.kind.as_str(),
        "headline": request.headline,
        "shown": request.shown,
        "wants": request.wants.as_str(),
        "deciders": request.deciders.as_str(),
        "deadline": seconds(request.deadline),
    })
}
