//! Tasks as resources: a list, and one resource per task.

use crate::{Caller, Control, ControlAction, ControlError, ControlErrorKind};
use rmcp::ErrorData;
use rmcp::model::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate,
};
use serde_json::Value;

/// All recent tasks.
const TASKS: &str = "codex-bridge://tasks";
/// URI prefix of a task.
const TASK: &str = "codex-bridge://tasks/";
/// Tasks listed as resources.
const LISTED: u32 = 50;

const JSON: &str = "application/json";

pub(super) async fn list<C: Control>(
    control: &C,
    caller: &Caller,
) -> Result<ListResourcesResult, ErrorData> {
    let all = Resource::new(TASKS, "tasks")
        .with_title("Codex tasks")
        .with_description("The newest tasks with their status")
        .with_mime_type(JSON);
    let envelope = control.act(caller, newest()).await.map_err(refused)?;
    let tasks = envelope.get("tasks").and_then(Value::as_array);
    let each = tasks.into_iter().flatten().filter_map(|task| {
        let id = task.get("task_id").and_then(Value::as_str)?;
        let summary = task.get("prompt_summary").and_then(Value::as_str);
        let resource = Resource::new(format!("{TASK}{id}"), id).with_mime_type(JSON);
        Some(resource.with_description(summary.unwrap_or_default()))
    });
    let resources = std::iter::once(all).chain(each).collect();
    Ok(ListResourcesResult::with_all_items(resources))
}

pub(super) fn templates() -> ListResourceTemplatesResult {
    let task = ResourceTemplate::new("codex-bridge://tasks/{task_id}", "task")
        .with_title("A Codex task")
        .with_description("Status, recent events, what Codex asks, and the answer")
        .with_mime_type(JSON);
    ListResourceTemplatesResult::with_all_items(vec![task])
}

pub(super) async fn read<C: Control>(
    control: &C,
    caller: &Caller,
    uri: &str,
) -> Result<ReadResourceResult, ErrorData> {
    let act = match uri.strip_prefix(TASK) {
        Some(task_id) if !task_id.is_empty() => ControlAction::Status {
            task_id: task_id.to_owned(),
        },
        Some(_) | None if uri == TASKS => newest(),
        Some(_) | None => return Err(unknown(uri, "there is no such resource")),
    };
    let envelope = control
        .act(caller, act)
        .await
        .map_err(|error| match error.kind {
            ControlErrorKind::Unknown => unknown(uri, &error.message),
            _ => refused(error),
        })?;
    let text = ResourceContents::text(envelope.to_string(), uri).with_mime_type(JSON);
    Ok(ReadResourceResult::new(vec![text]))
}

fn newest() -> ControlAction {
    ControlAction::List {
        limit: Some(LISTED),
    }
}

fn unknown(uri: &str, why: &str) -> ErrorData {
    let data = serde_json::json!({"uri": uri});
    ErrorData::resource_not_found(why.to_owned(), Some(data))
}

fn refused(error: ControlError) -> ErrorData {
    match error.kind {
        ControlErrorKind::Unavailable | ControlErrorKind::Unreadable => {
            ErrorData::internal_error(error.message, None)
        }
        _ => ErrorData::invalid_request(error.message, None),
    }
}
