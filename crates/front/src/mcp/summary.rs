//! Answers of the small tools: the parts of the envelope that a model needs, and the next step.

use serde_json::{Map, Value, json};

/// Summary of a task's envelope.
pub(super) fn task(envelope: &Value) -> Value {
    let Some(task) = envelope.get("task") else {
        return envelope.clone();
    };
    let mut brief = Map::new();
    for (name, from) in FIELDS {
        if let Some(value) = task.get(from).filter(|value| !value.is_null()) {
            brief.insert((*name).to_owned(), value.clone());
        }
    }
    brief.extend(pick(
        envelope,
        &["success", "steer", "why", "message", "error"],
    ));
    let requests = requests(task);
    if !requests.is_empty() {
        brief.insert("requests".to_owned(), Value::Array(requests));
    }
    let status = task.get("status").and_then(Value::as_str);
    brief.insert("next".to_owned(), json!(next(status.unwrap_or_default())));
    Value::Object(brief)
}

/// Field names here and in the envelope.
const FIELDS: &[(&str, &str)] = &[
    ("task_id", "task_id"),
    ("status", "status"),
    ("prompt", "prompt_summary"),
    ("cwd", "cwd"),
    ("answer", "final_summary"),
    ("answer", "answer"),
    ("error", "error_summary"),
    ("progress", "last_progress_summary"),
];

/// The newest tasks, a line each.
pub(super) fn list(envelope: &Value) -> Value {
    let tasks = envelope.get("tasks").and_then(Value::as_array);
    let line = |task| {
        let names = [
            "task_id",
            "status",
            "prompt_summary",
            "created_at",
            "completed_at",
        ];
        Value::Object(pick(task, &names))
    };
    let tasks: Vec<Value> = tasks.into_iter().flatten().map(line).collect();
    json!({"success": true, "tasks": tasks})
}

/// Open requests of a task.
pub(super) fn requests(task: &Value) -> Vec<Value> {
    let pending = task.get("pending_requests").and_then(Value::as_array);
    let brief = |request: &Value| {
        let names = [
            "request_id",
            "requester",
            "kind",
            "wants",
            "method",
            "headline",
            "shown",
            "deadline",
        ];
        let mut brief = pick(request, &names);
        // Answers need the question ids, which are in Codex's payload.
        let is = |name: &str, word: &str| request.get(name).is_some_and(|value| value == word);
        if (is("kind", "user_input") || is("kind", "elicitation")) && !is("wants", "approval") {
            brief.extend(pick(request, &["payload"]));
        }
        Value::Object(brief)
    };
    pending.into_iter().flatten().map(brief).collect()
}

/// The named fields that are not null.
fn pick(from: &Value, names: &[&str]) -> Map<String, Value> {
    let values = names.iter().filter_map(|name| {
        let value = from.get(name).filter(|value| !value.is_null())?;
        Some(((*name).to_owned(), value.clone()))
    });
    values.collect()
}

/// The next step.
fn next(status: &str) -> &'static str {
    match status {
        "queued" | "starting" | "working" => {
            "It works by itself: call codex_wait with this task_id, or do something else meanwhile."
        }
        "unclear" => {
            "Its turn was cut and is being looked at, nothing is lost: call codex_wait with this task_id."
        }
        "waiting_for_approval" => {
            "Codex waits for a decision about what `requests` shows: call codex_respond with request_id and \
             decision. Without one it is declined at the deadline."
        }
        "waiting_for_user_input" => {
            "Codex asks a question: call codex_respond with request_id, decision accept and answers. Without them \
             it goes on without an answer at the deadline."
        }
        "parked" => {
            "It was cut after it may have changed something, and waits for a person: `codex-bridge why TASK` says \
             what can be done."
        }
        "completed" => {
            "It is done; the answer is in `answer`. What else is wanted is a new task: codex_start."
        }
        "failed" => "It failed; `error` says why. Mend that, then start it again with codex_start.",
        "cancelled" => "It was stopped. Start another one with codex_start if it is still wanted.",
        _ => "Call codex_status with this task_id to look again.",
    }
}
