//! Notify completed: the notifications of finished tasks that are still unsent go out now, or are only shown.

use super::desk::{Done, unavailable};
use super::envelope::{notification_word, seconds};
use super::{Caller, DeskControl, Notice};
use crate::desk::Desk;
use bridge_core::limits::PAGE_MAX;
use bridge_core::port::{Ledger, Read, RowsError};
use bridge_core::value::{NotifyState, Task};
use serde_json::{Value, json};

/// How many for those who name no number.
const NOTIFY_DEFAULT: u32 = 10;
/// Most that one call sends: a caller waits for them.
const NOTIFY_MAX: u32 = 50;

impl<D: Desk> DeskControl<D> {
    pub(super) async fn notify(&self, caller: &Caller, limit: Option<u32>, dry_run: bool) -> Done {
        let limit = limit.unwrap_or(NOTIFY_DEFAULT).clamp(1, NOTIFY_MAX);
        let due = self.desk.ledger().read(move |rows| due(rows, limit));
        let mut told = Vec::new();
        for (task, notice) in due.await.map_err(unavailable)? {
            told.push(self.tell_one(caller, task, &notice, dry_run).await?);
        }
        Ok(json!({
            "success": true,
            "dry_run": dry_run,
            "processed": told.len(),
            "notifications": told,
        }))
    }

    async fn tell_one(&self, caller: &Caller, task: Task, notice: &Notice, dry_run: bool) -> Done {
        let mut told = json!({
            "task_id": task.task_id.to_string(),
            "status": notice.status,
            "sent": false,
            "message": notice.text,
        });
        let word = match (&task.notification.target, dry_run) {
            (None, _) => "no_target",
            (Some(_), true) => "dry_run",
            (Some(_), false) => "pending",
        };
        put(&mut told, "notification_status", json!(word));
        if let Some(target) = &task.notification.target {
            put(&mut told, "target", json!(target));
        }
        if dry_run {
            return Ok(told);
        }
        let now = self.desk.notify_task(&task.task_id, &caller.name).await;
        let state = now.map_err(unavailable)?;
        let task_id = task.task_id.clone();
        let row = self.desk.ledger().read(move |rows| rows.task(&task_id));
        let Some(task) = row.await.map_err(unavailable)? else {
            return Ok(told);
        };
        let state = state.unwrap_or(task.notification.state);
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
fn due(rows: &dyn Read, limit: u32) -> Result<Vec<(Task, Notice)>, RowsError> {
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
        if let Some(notice) = Notice::load(rows, &task)? {
            due.push((task, notice));
        }
    }
    Ok(due)
}
