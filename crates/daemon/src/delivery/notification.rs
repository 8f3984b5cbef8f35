//! What a target of notifications is sent, made from rows: the end of a task that named it, or an alert.

use bridge_core::step::EventDelivery;
use bridge_core::value::{ConversationId, MessageId, TaskInput, Timestamp};
use bridge_front::NotificationPayload;
use serde_json::Value;

/// What begins the id of a notification; the rest is the task's.
const ID_PREFIX: &str = "msg_";

/// One notification on its way.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Notification {
    /// The same for every try, so that a receiver can drop what it has.
    pub(super) id: String,
    /// The message that replies to a workspace are named after: one that no other reply has.
    pub(super) reply_of: MessageId,
    pub(super) conversation_id: ConversationId,
    /// For people who look closely: all that is said of it.
    pub(super) text: String,
    /// For programs.
    pub(super) body: Value,
    pub(super) note: Note,
    /// An earlier send may have arrived.
    pub(super) again: bool,
    pub(super) tries: u32,
    pub(super) first_try_at: Option<Timestamp>,
    pub(super) created_at: Timestamp,
}

/// What people see on a locked screen or in a mailbox: only what their entry of the configuration lets through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) title: String,
    pub(super) text: String,
    /// The same for an entry that lets the first line through, or the summary of a task.
    pub(super) headline: String,
    /// Opens the console where it shows what this is about. It holds no credential.
    pub(super) link: String,
    /// Somebody waits for an answer.
    pub(super) is_urgent: bool,
}

impl Notification {
    /// The end of a task; `None` where its messages are gone.
    pub(super) fn of_task(
        delivery: &EventDelivery,
        payload: NotificationPayload,
        console: &str,
    ) -> Option<Self> {
        let timeline = &delivery.timeline;
        let task = &timeline.view.task;
        let first = timeline.view.inputs.iter().find_map(TaskInput::message_id);
        let first_try_at = delivery.subscription.first_try_at;
        Some(Self {
            id: format!("{ID_PREFIX}{}", task.task_id),
            reply_of: first?.clone(),
            conversation_id: task.conversation_id.clone(),
            note: Note {
                title: "A task has ended".to_owned(),
                text: format!("Task {}: {}.", task.task_id, payload.status),
                link: format!("{console}#/tasks/{}", task.task_id),
                headline: payload.text.clone(),
                is_urgent: false,
            },
            text: payload.text,
            body: payload.body,
            again: delivery.again,
            tries: delivery.subscription.tries,
            first_try_at,
            created_at: first_try_at.unwrap_or(task.created_at),
        })
    }
}
