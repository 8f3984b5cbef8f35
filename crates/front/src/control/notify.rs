//! Notify completed: the notifications of finished tasks that are still unsent go out now, or are only shown.

use super::envelope::{notification_word, seconds};
use super::service::{Done, unavailable};
use super::{Caller, NotificationPayload, TaskService};
use crate::service::{BridgeService, Notified};
use bridge_core::limits::PAGE_MAX;
use bridge_core::port::{Ledger, Read, RowsError};
use bridge_core::value::{NotifyState, Task};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// How many for those who name no number.
const NOTIFY_DEFAULT: u32 = 10;
/// Most that one call sends: a caller waits for them.
const NOTIFY_MAX: u32 = 50;

/// How long one call goes on to send: with the wait for the last one it must end before an API call does, so that its
/// caller hears what became of all of them.
const NOTIFY_TIME: Duration = Duration::from_secs(40);
const NO_TIME: &str = "this call had no time left for it: ask again";
const BUSY: &str = "it is on its way, or too many others are: its task says later what became of it; if it is still unsent then, ask again";

/// What is done with one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// It is sent.
    Send,
    /// It is only shown.
    Show,
    /// There is no time left.
    Leave,
}

impl<D: BridgeService> TaskService<D> {
    pub(super) async fn notify(&self, caller: &Caller, limit: Option<u32>, dry_run: bool) -> Done {
        let limit = limit.unwrap_or(NOTIFY_DEFAULT).clamp(1, NOTIFY_MAX);
        let due = self.service.ledger().read(move |rows| due(rows, limit));
        let (mut told, mut processed) = (Vec::new(), 0_u32);
        let begun = Instant::now();
        for (task, notice) in due.await.map_err(unavailable)? {
            let way = match (dry_run, begun.elapsed() < NOTIFY_TIME) {
                (true, _) => Way::Show,
                (false, true) => Way::Send,
                (false, false) => Way::Leave,
            };
            processed = processed.saturating_add(u32::from(way != Way::Leave));
            told.push(self.tell_one(caller, task, &notice, way).await?);
        }
        Ok(json!({
            "success": true,
            "dry_run": dry_run,
            "processed": processed,
            "notifications": told,
        }))
    }

    async fn tell_one(
        &self,
        caller: &Caller,
        task: Task,
        notice: &NotificationPayload,
        way: Way,
    ) -> Done {
        let mut told = json!({
            "task_id": task.task_id.to_string(),
            "status": notice.status,
            "sent": false,
            "message": notice.text,
        });
        let word = match (&task.notification.target, way) {
            (None, _) => "no_target",
            (Some(_), Way::Show) => "dry_run",
            (Some(_), Way::Send | Way::Leave) => {
                notification_word(&task.notification).unwrap_or("pending")
            }
        };
        put(&mut told, "notification_status", json!(word));
        if let Some(target) = &task.notification.target {
            put(&mut told, "target", json!(target));
        }
        match way {
            Way::Send => {}
            Way::Show => return Ok(told),
            Way::Leave => {
                put(&mut told, "why", json!(NO_TIME));
                return Ok(told);
            }
        }
        let by = caller.actor().to_string();
        let now = self.service.notify_task(&task.task_id, &by).await;
        let done = now.map_err(unavailable)?;
        let task_id = task.task_id.clone();
        let row = self.service.ledger().read(move |rows| rows.task(&task_id));
        let Some(task) = row.await.map_err(unavailable)? else {
            return Ok(told);
        };
        let state = match done {
            Notified::Ended(state) => state,
            Notified::Nothing => task.notification.state,
            Notified::Busy => {
                put(&mut told, "why", json!(BUSY));
                task.notification.state
            }
        };
        if let NotifyState::Sent { at } = state {
            put(&mut told, "sent", json!(true));
            put(&mut told, "notified_at", seconds(at));
        }
        if let Some(word) = notification_word(&task.notification) {
            put(&mut told, "notification_status", json!(word));
        }
        if let Some(error) = &task.notification.error {
            put(&mut told, "error", json!(error));
        }
        Ok(told)
    }
}

fn put(told: &mut Value, key: &str, value: Value) {
    if let Some(told) = told.as_object_mut() {
        told.insert(key.to_owned(), value);
    }
}

/// Finished tasks of which nobody was told, oldest first; also those without a target that nobody was shown.
fn due(rows: &dyn Read, limit: u32) -> Result<Vec<(Task, NotificationPayload)>, RowsError> {
    let mut tasks = rows.tasks(None, PAGE_MAX)?;
    for untold in rows.untold_tasks(None, PAGE_MAX)? {
        if tasks.iter().all(|task| task.task_id != untold.task_id) {
            tasks.push(untold);
        }
    }
    tasks.retain(|task| match task.notification.state {
        NotifyState::NoTarget => task.notification.tries == 0,
        NotifyState::Pending { .. } | NotifyState::Sending | NotifyState::Failed { .. } => true,
        NotifyState::Sent { .. } => false,
    });
    tasks.sort_by_key(|task| task.created_at);
    let mut due = Vec::new();
    for task in tasks {
        if due.len() >= limit as usize {
            break;
        }
        if !rows.unanswered_of(&task.conversation_id, 1)?.is_empty() {
            continue;
        }
        if let Some(notice) = NotificationPayload::load(rows, &task)? {
            due.push((task, notice));
        }
    }
    Ok(due)
}
