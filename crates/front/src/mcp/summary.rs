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
    for name in ["success", "steer", "why", "message", "error"] {
        if let Some(value) = envelope.get(name).filter(|value| !value.is_null()) {
            brief.insert(name.to_owned(), value.clone());
        }
    }
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
    let tasks: Vec<Value> = tasks
        .into_iter()
        .flatten()
        .map(|task| {
            let mut line = Map::new();
            for name in [
                "task_id",
                "status",
                "prompt_summary",
                "created_at",
                "completed_at",
            ] {
                if let Some(value) = task.get(name).filter(|value| !value.is_null()) {
                    line.insert(name.to_owned(), value.clone());
                }
            }
            Value::Object(line)
        })
        .collect();
    json!({"success": true, "tasks": tasks})
}

/// Open requests of a task.
pub(super) fn requests(task: &Value) -> Vec<Value> {
    let pending = task.get("pending_requests").and_then(Value::as_array);
    let brief = |request: &Value| {
        let mut brief = Map::new();
        for name in [
            "request_id",
            "requester",
            "kind",
            "wants",
            "method",
            "headline",
            "shown",
            "deadline",
        ] {
            if let Some(value) = request.get(name).filter(|value| !value.is_null()) {
                brief.insert(name.to_owned(), value.clone());
            }
        }
        // Answers need the question ids, which are in Codex's payload.
        let method = brief.get("method").and_then(Value::as_str);
        let approval = brief.get("wants").is_some_and(|wants| wants == "approval");
        if method.is_some_and(is_a_question)
            && !approval
            && let Some(payload) = request.get("payload")
        {
            brief.insert("payload".to_owned(), payload.clone());
        }
        Value::Object(brief)
    };
    pending.into_iter().flatten().map(brief).collect()
}

fn is_a_question(method: &str) -> bool {
    method.ends_with("requestUserInput") || method.contains("elicitation")
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
