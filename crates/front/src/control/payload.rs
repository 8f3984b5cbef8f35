//! What is told when a task is over: a few lines for people, and the envelope for programs.

use super::envelope::{Told, protocol, view};
use super::rows::{Subject, TaskRows};
use bridge_core::limits::clip;
use bridge_core::port::{Read, RowsError};
use bridge_core::value::Task;
use serde_json::{Value, json};

/// Longest summary in the lines for people.
const SUMMARY_MAX_CHARS: usize = 700;

/// What is told of one task.
#[derive(Clone, Debug, PartialEq)]
pub struct NotificationPayload {
    /// How the task ended.
    pub status: String,
    /// For people.
    pub text: String,
    /// For programs: the envelope, without prompt and answer beyond their summaries.
    pub body: Value,
}

impl NotificationPayload {
    /// Made from rows; nothing if the task's messages are gone.
    pub fn load(rows: &dyn Read, task: &Task) -> Result<Option<Self>, RowsError> {
        let loaded = TaskRows::load(rows, Subject::Task(Box::new(task.clone())))?;
        Ok(loaded.map(|rows| Self::of(&rows)))
    }

    fn of(rows: &TaskRows) -> Self {
        let view = view(rows, Told::Notice);
        let word = |key: &str| view.get(key).and_then(Value::as_str);
        let status = word("status").unwrap_or("unknown").to_owned();
        let mut text = format!(
            "Codex Bridge task {} finished with status: {status}.\nPrompt: {}",
            word("task_id").unwrap_or("unknown"),
            word("prompt_summary").unwrap_or("(no prompt summary)"),
        );
        let summary = word("final_summary")
            .or(word("error_summary"))
            .or(word("last_progress_summary"));
        if let Some(summary) = summary {
            text.push_str("\nSummary: ");
            text.push_str(&clip(summary, SUMMARY_MAX_CHARS));
        }
        let body = json!({
            "type": format!("task.{status}"),
            "success": true,
            "task": view,
            "protocol": protocol(rows.transport),
        });
        Self { status, text, body }
    }
}
