//! What a notification of an ended task says: a few lines for people, and the envelope for programs.

use super::envelope::{Protocol, TaskDetail, TaskView};
use super::rows::{Subject, TaskRows};
use bridge_core::limits::clip;
use bridge_core::port::{Read, RowsError};
use bridge_core::value::Task;
use serde_json::{Value, json};

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
        let loaded = TaskRows::load(rows, Subject::Task(Box::new(task.clone())))?;
        Ok(loaded.map(|rows| Self::of(&rows)))
    }

    fn of(rows: &TaskRows) -> Self {
        let view = TaskView::of(rows, TaskDetail::Notification);
        let status = view.status;
        let mut text = format!(
            "Codex Bridge task {} finished with status: {status}.\nPrompt: {}",
            view.task_id, view.prompt_summary,
        );
        let summary = view
            .final_summary
            .as_ref()
            .or(view.error_summary.as_ref())
            .or(view.last_progress_summary.as_ref());
        if let Some(summary) = summary {
            text.push_str("\nSummary: ");
            text.push_str(&clip(summary, SUMMARY_MAX_CHARS));
        }
        let body = json!({
            "type": format!("task.{status}"),
            "success": true,
            "task": view,
            "protocol": Protocol::of(rows.transport),
        });
        Self { status, text, body }
    }
}
