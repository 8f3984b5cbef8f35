//! Tasks in words: state, last events, approval requests. Pure: the daemon's envelope in, lines out.

use super::super::ask::{AnswerBy, ApprovalView};
use crate::client::find::short;
use crate::client::page::{DIM, PLAIN, Page, phase_look};
use crate::client::watch::event_words;
use bridge_core::find::TASK_PREFIX;
use bridge_daemon::term::{cells, escape_line, span, when};
use bridge_front::Time;
use serde_json::Value;

/// Width of the names in front.
const NAME_WIDTH: usize = 12;

/// A field of the envelope as text; nothing for nothing.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// A time of the envelope as milliseconds.
fn ms(value: &Value) -> Option<i64> {
    serde_json::from_value::<Time>(value.clone())
        .ok()
        .map(Time::ms)
}

fn phase(task: &Value) -> String {
    match text(task, "phase") {
        // An older daemon.
        "" => text(task, "status").replace('_', " "),
        phase => phase.to_owned(),
    }
}

/// One task with everything.
pub(super) fn task_words(task: &Value, now_ms: i64, mut page: Page) -> String {
    let (id, phase) = (short(text(task, "task_id")), phase(task));
    let head = format!(
        "{} is {}",
        page.paint.bold(&escape_line(id)),
        phase_look(&phase)(page.paint, &escape_line(&phase))
    );
    page.hang(&head, 2, "", PLAIN);
    let mut line = |name: &str, said: &str| {
        if !said.is_empty() {
            page.field(&format!("  {name}"), NAME_WIDTH, said);
        }
    };
    line("text", text(task, "prompt_summary"));
    line("works in", text(task, "cwd"));
    let mut terms = vec![
        text(task, "sandbox"),
        text(task, "approval_policy"),
        text(task, "model"),
    ];
    terms.retain(|term| !term.is_empty());
    line("may", &terms.join(", "));
    if let Some(at) = ms(&task["created_at"]) {
        line("started", &when(at));
    }
    if let Some(at) = ms(&task["completed_at"]) {
        line("ended", &when(at));
    }
    line("because", text(task, "error_summary"));
    if task["completed_at"].is_null() {
        line("stop", text(task, "stopping"));
    }
    let target = text(task, "notify_target");
    if !target.is_empty() {
        let state = text(task, "notification_status");
        let error = match text(task, "notification_error") {
            "" => String::new(),
            error => format!(": {error}"),
        };
        line("notify", &format!("{target}, {state}{error}"));
    }
    for event in task["recent_events"].as_array().into_iter().flatten() {
        event_line(event, &mut page);
    }
    for question in questions(task) {
        let lines = question.lines(AnswerBy::Command, now_ms, page.paint, page.width());
        page.raw(&lines);
    }
    let answer = match text(task, "answer") {
        "" => text(task, "final_summary"),
        whole => whole,
    };
    if !answer.is_empty() {
        page.gap();
        page.answer(0, answer);
    }
    page.into_text()
}

fn event_line(event: &Value, page: &mut Page) {
    let at = ms(&event["created_at"]).map(when).unwrap_or_default();
    let said = text(event, "payload_summary");
    let (mark, said) = match text(event, "source_event_type") {
        // Their summary is the turn's id.
        "turn/started" => ("→", "the turn began".to_owned()),
        "turn/completed" => ("→", "the turn ended".to_owned()),
        // The box below shows it.
        kind if kind.contains("request") => ("?", said.to_owned()),
        kind => event_words(kind, said),
    };
    let head = format!("  {} {mark} ", page.paint.dim(&at));
    page.hang(&head, cells(&at) + 5, &said, PLAIN);
}

/// What the task asks.
fn questions(task: &Value) -> Vec<ApprovalView> {
    let pending = task["pending_requests"].as_array().into_iter().flatten();
    let read = |asked: &Value| {
        let mut asked = asked.clone();
        let id = text(task, "task_id");
        // A message of a channel is shown as a task too.
        let name = match id.starts_with(TASK_PREFIX) {
            true => "task_id",
            false => "message_id",
        };
        asked[name] = id.into();
        serde_json::from_value(asked).ok()
    };
    pending.filter_map(read).collect()
}

/// Tasks, newest first.
pub(super) fn list_words(tasks: &[Value], now_ms: i64, mut page: Page) -> String {
    if tasks.is_empty() {
        return "no tasks; `codex-bridge start PROMPT` starts one".to_owned();
    }
    for task in tasks {
        let age =
            ms(&task["created_at"]).map_or_else(String::new, |at| span(now_ms.saturating_sub(at)));
        let phase = phase(task);
        let head = format!(
            "{}  {}",
            page.paint.bold(&escape_line(text(task, "task_id"))),
            phase_look(&phase)(page.paint, &escape_line(&phase)),
        );
        page.hang(&head, 2, &format!(", {age} old"), PLAIN);
        page.line(2, text(task, "prompt_summary"), DIM);
    }
    page.into_text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_daemon::term::Paint;
    use serde_json::json;

    #[test]
    fn task_output_includes_events_and_requests() {
        let task = json!({
            "task_id": "codex-0123456789ab", "status": "waiting_for_approval", "phase": "waiting for you",
            "prompt_summary": "push it\u{1b}[2J", "cwd": "/w", "sandbox": "read-only",
            "approval_policy": "on-request", "model": null, "codex_thread_id": "t1",
            "created_at": "1970-01-01T00:00:01.500Z", "completed_at": null, "last_progress_summary": null,
            "notify_target": "feishu:oc_1", "notification_status": "failed", "notification_error": "refused",
            "recent_events": [{"source_event_type": "turn/started", "payload_summary": "01a1e387-7938", "created_at": 2000},
                {"source_event_type": "item/started", "payload_summary": "running `ls`", "created_at": 2000}],
            "pending_requests": [{"request_id": "k3x9qzaaaa", "code": "k3x9qz", "requester": "token ci (task, tier tool)", "kind": "command", "headline": "may it run?",
                "shown": "command: git push", "payload": {}, "status": "pending", "deadline": "1970-01-01T00:01:02.000Z"}],
        });
        let page = || Page::new(Paint::plain(), Some(60));
        let (at, turn) = (when(1_500), when(2_000));
        assert_eq!(
            task_words(&task, 2_000, page()),
            format!(
                "\
codex-0123456789ab is waiting for you
  text      push it\\e[2J
  works in  /w
  may       read-only, on-request
  started   {at}
  notify    feishu:oc_1, failed: refused
  {turn} → the turn began
  {turn} • running `ls`
┌ For token ci (task, tier tool): Codex asks (k3x9qz),
│  task codex-0123456789ab, declined in 60 s if nobody
│  answers
│ command: git push
│ yes: it runs, once; for the session: this same command
│  is not asked about again
│ codex-bridge approve k3x9qz
│ codex-bridge decline k3x9qz
└
"
            )
        );
        assert_eq!(
            list_words(&[task], 61_500, page()),
            "codex-0123456789ab  waiting for you, 60 s old\n  push it\\e[2J\n"
        );
    }
}
