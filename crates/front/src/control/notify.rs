//! Notifications of finished tasks: what they say, and the action that sends those that are still unsent.

use super::envelope::{Protocol, TaskView};
use super::rows::{TaskRows, TaskSubject};
use super::shape::{TaskDetail, notification_word, notified_at};
use super::{Caller, ControlError, TaskService};
use crate::Time;
use crate::service::{BridgeService, Notified};
use crate::task_view::{NotificationReport, NotifyReply, TaskShape};
use bridge_core::limits::{PAGE_MAX, clip};
use bridge_core::port::{Read, RowsError, readable};
use bridge_core::value::{Subscription, Task, TaskId};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// How many for those who name no number.
const NOTIFY_DEFAULT: u32 = 10;
/// Most that one call sends: a caller waits for them.
const NOTIFY_MAX: u32 = 50;

/// How long one call goes on to send: with the wait for the last one it must end before an API call does, so that its
/// caller gets all results.
const NOTIFY_TIME: Duration = Duration::from_secs(40);
const NO_TIME: &str = "this call had no time left for it: ask again";
const BUSY: &str = "it is on its way, or too many others are: its task shows the result later; if it is still unsent then, ask again";

/// How a notification is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotifyMode {
    Send,
    /// Shown, not sent.
    Preview,
    OutOfTime,
}

impl<D: BridgeService> TaskService<D> {
    pub(crate) async fn notify(
        &self,
        caller: &Caller,
        limit: Option<u32>,
        dry_run: bool,
    ) -> Result<NotifyReply, ControlError> {
        let limit = limit.unwrap_or(NOTIFY_DEFAULT).clamp(1, NOTIFY_MAX);
        let due = self.service.read(move |rows| due(rows, limit));
        let (mut notifications, mut processed) = (Vec::new(), 0_u32);
        let begun = Instant::now();
        for one in due.await? {
            let mode = match (dry_run, begun.elapsed() < NOTIFY_TIME) {
                (true, _) => NotifyMode::Preview,
                (false, true) => NotifyMode::Send,
                (false, false) => NotifyMode::OutOfTime,
            };
            processed = processed.saturating_add(u32::from(mode != NotifyMode::OutOfTime));
            notifications.push(self.notify_one(caller, one, mode).await?);
        }
        Ok(NotifyReply {
            dry_run,
            processed,
            notifications,
        })
    }

    async fn notify_one(
        &self,
        caller: &Caller,
        due: Due,
        mode: NotifyMode,
    ) -> Result<NotificationReport, ControlError> {
        let task_id = due.task.task_id;
        let target = due.notification.as_ref().and_then(Subscription::notify);
        let mut view = NotificationReport {
            task_id: task_id.to_string(),
            status: due.payload.status.to_owned(),
            target: target.map(ToOwned::to_owned),
            notification_status: match (&due.notification, mode) {
                (None, _) => "no_target",
                (Some(_), NotifyMode::Preview) => "dry_run",
                (Some(notification), NotifyMode::Send | NotifyMode::OutOfTime) => {
                    notification_word(notification)
                }
            }
            .to_owned(),
            sent: false,
            notified_at: None,
            message: due.payload.text,
            error: None,
            why: None,
        };
        match mode {
            NotifyMode::Send => {}
            NotifyMode::Preview => return Ok(view),
            NotifyMode::OutOfTime => {
                view.why = Some(NO_TIME.to_owned());
                return Ok(view);
            }
        }
        let by = caller.actor().to_string();
        let done = self.service.notify_task(&task_id, &by).await;
        if done? == Notified::Busy {
            view.why = Some(BUSY.to_owned());
        }
        let row = self
            .service
            .read(move |rows| notification_of(rows, &task_id));
        if let Some(notification) = row.await? {
            view.notified_at = notified_at(&notification).map(Time::from);
            view.sent = view.notified_at.is_some();
            view.notification_status = notification_word(&notification).to_owned();
            view.error = notification.error;
        }
        Ok(view)
    }
}

/// A finished task whose notification is unsent.
#[derive(Debug)]
struct Due {
    task: Task,
    /// `None` without a target.
    notification: Option<Subscription>,
    payload: NotificationPayload,
}

fn notification_of(rows: &dyn Read, id: &TaskId) -> Result<Option<Subscription>, RowsError> {
    rows.subscription(id, Subscription::END)
}

/// Finished tasks whose end was not delivered, oldest first; also those without a target that nobody was shown.
fn due(rows: &dyn Read, limit: u32) -> Result<Vec<Due>, RowsError> {
    let mut tasks = Vec::new();
    for task in rows.started_tasks(None, PAGE_MAX)? {
        if let Some(notification) = readable(notification_of(rows, &task.task_id))? {
            tasks.push((task, notification));
        }
    }
    for notification in unsent(rows)? {
        let known = |(task, _): &(Task, _)| task.task_id == notification.task_id;
        if !tasks.iter().any(known)
            && let Some(task) = readable(rows.task(&notification.task_id))?.flatten()
        {
            tasks.push((task, Some(notification)));
        }
    }
    tasks.retain(|(_, notification)| {
        let closed = |it: &Subscription| it.state.is_closed();
        !notification.as_ref().is_some_and(closed)
    });
    tasks.sort_by_key(|(task, _)| task.created_at);
    let mut due = Vec::new();
    for (task, notification) in tasks {
        if due.len() >= limit as usize {
            break;
        }
        if let Some(payload) = readable(payload_of(rows, &task))?.flatten() {
            due.push(Due {
                task,
                notification,
                payload,
            });
        }
    }
    Ok(due)
}

/// What is sent of a task; nothing while it has an unanswered message.
fn payload_of(rows: &dyn Read, task: &Task) -> Result<Option<NotificationPayload>, RowsError> {
    if !rows.unanswered_of(&task.conversation_id, 1)?.is_empty() {
        return Ok(None);
    }
    NotificationPayload::load(rows, task)
}

/// The open notifications, wherever they are among the subscriptions.
fn unsent(rows: &dyn Read) -> Result<Vec<Subscription>, RowsError> {
    let (mut unsent, mut after) = (Vec::new(), None::<(TaskId, String)>);
    loop {
        let from = after.as_ref().map(|(id, name)| (id, name.as_str()));
        let page = rows.subscriptions_open(from, PAGE_MAX)?;
        let Some(last) = page.last() else {
            return Ok(unsent);
        };
        after = Some((last.task_id.clone(), last.subscription_id.clone()));
        unsent.extend(page.into_iter().filter(|it| it.notify().is_some()));
    }
}

/// Longest summary in the lines for people.
const SUMMARY_MAX_CHARS: usize = 700;

/// The payload of a notification.
#[derive(Clone, Debug, PartialEq)]
pub struct NotificationPayload {
    /// How the task ended.
    pub status: &'static str,
    /// For people.
    pub text: String,
    /// For programs: the envelope, without prompt and answer beyond their summaries.
    pub body: Value,
}

impl NotificationPayload {
    /// Made from rows; `None` if the task's messages are gone.
    pub fn load(rows: &dyn Read, task: &Task) -> Result<Option<Self>, RowsError> {
        let loaded = TaskRows::load(rows, TaskSubject::Task(Box::new(task.clone())))?;
        Ok(loaded.map(|rows| Self::of(&rows)))
    }

    fn of(rows: &TaskRows) -> Self {
        let task = TaskShape::of(rows, TaskDetail::Notification);
        let status = rows.status().as_str();
        let mut text = format!(
            "Codex Bridge task {} finished with status: {status}.\nPrompt: {}",
            task.task_id, task.prompt_summary,
        );
        let summary = task
            .final_summary
            .as_ref()
            .or(task.error_summary.as_ref())
            .or(task.last_progress_summary.as_ref());
        if let Some(summary) = summary {
            text.push_str("\nSummary: ");
            text.push_str(&clip(summary, SUMMARY_MAX_CHARS));
        }
        let body = json!({
            "type": format!("task.{status}"),
            "success": true,
            "task": TaskView::of(task, TaskDetail::Notification),
            "protocol": Protocol::of(rows.transport),
        });
        Self { status, text, body }
    }
}
