//! The messages of Codex 0.166 as JSON, with the members it gives them; copied from what it really says.

use super::VERSION;
use super::threads::Thread;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// What one answer is said to have cost.
const INPUT: u64 = 100;
const CACHED: u64 = 20;
const OUTPUT: u64 = 10;

pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

pub(super) fn notification(method: &str, params: &Value) -> Value {
    json!({"method": method, "params": params, "emittedAtMs": now_ms()})
}

pub(super) fn initialized(client: &Value, home: &Path) -> Value {
    let name = client.as_str().unwrap_or("client");
    json!({
        "userAgent": format!("{name}/{VERSION} (Fake; x86_64) unknown ({name}; 0)"),
        "codexHome": home, "platformFamily": "unix", "platformOs": "linux",
    })
}

pub(super) fn thread(thread: &Thread, home: &Path) -> Value {
    let status = match thread.active() {
        Some(_) => json!({"type": "active", "activeFlags": []}),
        None => json!({"type": "idle"}),
    };
    json!({
        "id": thread.id, "sessionId": thread.id, "preview": "", "ephemeral": false,
        "historyMode": "paginated", "modelProvider": "mock", "model": "mock-model",
        "createdAt": now_ms() / 1000, "updatedAt": now_ms() / 1000, "status": status,
        "path": thread.path(home), "cwd": thread.settings.get("cwd"), "cliVersion": VERSION,
        "source": "vscode", "turns": [],
    })
}

/// What `thread/start` and `thread/resume` answer: the settings in force, which are those asked for.
pub(super) fn opened(subject: &Thread, home: &Path) -> Value {
    let asked = |name: &str| subject.settings.get(name).cloned();
    let sandbox = match asked("sandbox").as_ref().and_then(Value::as_str) {
        Some("workspace-write") => json!({
            "type": "workspaceWrite", "writableRoots": [], "networkAccess": false,
            "excludeTmpdirEnvVar": false, "excludeSlashTmp": false,
        }),
        Some("danger-full-access") => json!({"type": "dangerFullAccess"}),
        Some(_) | None => json!({"type": "readOnly", "networkAccess": false}),
    };
    json!({
        "thread": thread(subject, home), "model": "mock-model", "modelProvider": "mock",
        "cwd": asked("cwd"), "approvalPolicy": asked("approvalPolicy").unwrap_or(json!("on-request")),
        "approvalsReviewer": "user", "sandbox": sandbox, "activePermissionProfile": null,
    })
}

/// What `thread/settings/update` makes it tell: the settings in force with what was asked for.
pub(super) fn updated(subject: &Thread, asked: &Value, home: &Path) -> Value {
    let before = opened(subject, home);
    let in_force = |name: &str, known: &str| {
        let asked = asked.get(name).filter(|asked| !asked.is_null());
        asked.or_else(|| before.get(known)).cloned()
    };
    json!({"threadId": subject.id, "threadSettings": {
        "sandboxPolicy": in_force("sandboxPolicy", "sandbox"),
        "approvalPolicy": in_force("approvalPolicy", "approvalPolicy"),
        "approvalsReviewer": "user", "activePermissionProfile": null,
    }})
}

pub(super) fn new_turn() -> Value {
    let id = uuid::Uuid::now_v7().to_string();
    json!({
        "id": id, "rootTurnId": id, "items": [], "itemsView": "notLoaded", "status": "inProgress",
        "error": null, "startedAt": null, "completedAt": null, "durationMs": null,
    })
}

pub(super) fn user_message(input: &Value, client_id: &Value) -> Value {
    let text = input.get(0).and_then(|input| input.get("text"));
    json!({
        "type": "userMessage", "id": uuid::Uuid::now_v7().to_string(), "clientId": client_id,
        "content": [{"type": "text", "text": text, "text_elements": []}],
        "startedAtMs": now_ms(), "completedAtMs": null,
    })
}

pub(super) fn agent_message(id: &str, text: &str) -> Value {
    json!({
        "type": "agentMessage", "id": id, "text": text, "phase": null, "memoryCitation": null,
        "delivery": null, "questions": null, "startedAtMs": now_ms(), "completedAtMs": null,
    })
}

/// The thread's counter after so many answers.
pub(super) fn usage(answers: u64) -> Value {
    let tokens = |times: u64| {
        json!({
            "totalTokens": (INPUT + OUTPUT) * times, "inputTokens": INPUT * times,
            "cachedInputTokens": CACHED * times, "cacheWriteInputTokens": 0,
            "outputTokens": OUTPUT * times, "reasoningOutputTokens": 0,
        })
    };
    json!({"total": tokens(answers), "last": tokens(1), "modelContextWindow": 258_400})
}

pub(super) fn rate_limits() -> Value {
    json!({"rateLimits": {
        "limitId": "codex", "limitName": null, "primary": null, "secondary": null, "credits": null,
        "planType": null, "rateLimitReachedType": null,
    }})
}

/// What the model would say: what the message tells it to.
pub(super) fn answer_to(input: &Value) -> String {
    let text = input.get(0).and_then(|input| input.get("text"));
    let text = text.and_then(Value::as_str).unwrap_or_default();
    match text.rsplit_once("echo:") {
        Some((_, answer)) => answer.lines().next().unwrap_or_default().trim().to_owned(),
        None => format!("fake: {text}"),
    }
}
