//! Tasks in words: state, last events, approval requests. Pure: the daemon's envelope in, lines out.

use super::super::ask::{AnswerBy, ApprovalView};
use bridge_daemon::term::{Paint, escape, escape_line, span, when};
use serde_json::Value;

/// Width of the names in front.
const NAME_WIDTH: usize = 10;
/// Longest summary in a list.
const SUMMARY_MAX_CHARS: usize = 70;

/// A field of the envelope as text; nothing for nothing.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Seconds of the envelope as milliseconds.
fn ms(value: &Value) -> Option<i64> {
    let seconds = value.as_f64()?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a time of this age fits many times over"
    )]
    seconds.is_finite().then_some((seconds * 1000.0) as i64)
}

fn status(task: &Value, paint: Paint) -> String {
    let status = escape_line(text(task, "status")).replace('_', " ");
    match text(task, "status") {
        "completed" => paint.green(&status),
        "failed" => paint.red(&status),
        "starting" | "working" => paint.cyan(&status),
        _ => paint.yellow(&status),
    }
}

/// One task with everything.
pub(super) fn task_words(task: &Value, now_ms: i64, paint: Paint) -> String {
    let mut words = format!(
        "{} is {}\n",
        paint.bold(&escape_line(text(task, "task_id"))),
        status(task, paint)
    );
    let mut line = |name: &str, said: &str| {
        if !said.is_empty() {
            let name = paint.dim(&format!("{name:<NAME_WIDTH$}"));
            words.push_str(&format!("  {name}{}\n", escape_line(said)));
        }
    };
    line("task", text(task, "prompt_summary"));
    let mut terms = vec![
        text(task, "cwd"),
        text(task, "sandbox"),
        text(task, "approval_policy"),
    ];
    terms.push(text(task, "model"));
    terms.retain(|term| !term.is_empty());
    line("terms", &terms.join(", "));
    line("thread", text(task, "codex_thread_id"));
    if let Some(at) = ms(&task["created_at"]) {
        line("started", &when(at));
    }
    if let Some(at) = ms(&task["completed_at"]) {
        line("ended", &when(at));
    }
    line("last", text(task, "last_progress_summary"));
    line("error", text(task, "error_summary"));
    if task["completed_at"].is_null() {
        line("stop", text(task, "stopping"));
    }
    let target = text(task, "notify_target");
    if !target.is_empty() {
        let state = text(task, "notification_status");
        let error = text(task, "notification_error");
        line("notify", format!("{target}, {state} {error}").trim_end());
    }
    for event in task["recent_events"].as_array().into_iter().flatten() {
        words.push_str(&event_line(event, paint));
    }
    for question in questions(task) {
        for line in question.lines(AnswerBy::Command, now_ms, paint, None) {
            words.push_str(&format!("{line}\n"));
        }
    }
    let answer = match text(task, "answer") {
        "" => text(task, "final_summary"),
        whole => whole,
    };
    if !answer.is_empty() {
        words.push_str(&format!("\n{}\n", escape(answer)));
    }
    words
}

fn event_line(event: &Value, paint: Paint) -> String {
    let at = ms(&event["created_at"]).map(when).unwrap_or_default();
    // The day is the task's.
    let at = at.split(' ').nth(1).unwrap_or_default();
    let said = text(event, "payload_summary");
    let (mark, said) = match text(event, "source_event_type") {
        // Their summary is the turn's id.
        "turn/started" => ("→", "the turn began"),
        "turn/completed" => ("→", "the turn ended"),
        "item/started" => ("•", said),
        "item/completed" => ("✓", said),
        "turn/retrying" => ("↻", said),
        kind if kind.contains("request") => ("?", said),
        _ => ("!", said),
    };
    let said = escape_line(said);
    format!("  {} {mark} {said}\n", paint.dim(at))
}

/// What the task asks. The envelope's times are seconds.
fn questions(task: &Value) -> Vec<ApprovalView> {
    let pending = task["pending_requests"].as_array().into_iter().flatten();
    let read = |asked: &Value| {
        let mut asked = asked.clone();
        asked["deadline"] = Value::from(ms(&asked["deadline"]).unwrap_or(0));
        asked["task_id"] = task["task_id"].clone();
        serde_json::from_value(asked).ok()
    };
    pending.filter_map(read).collect()
}

/// Tasks, one line each.
pub(super) fn list_words(tasks: &[Value], now_ms: i64, paint: Paint) -> String {
    if tasks.is_empty() {
        return "no tasks; `codex-bridge start PROMPT` starts one".to_owned();
    }
    let line = |task: &Value| {
        let age =
            ms(&task["created_at"]).map_or_else(String::new, |at| span(now_ms.saturating_sub(at)));
        let asks = task["pending_requests"].as_array().map_or(0, Vec::len);
        let asks = match asks {
            0 => String::new(),
            asks => paint.yellow(&format!(" [asks {asks}]")),
        };
        let summary: String = escape_line(text(task, "prompt_summary"))
            .chars()
            .take(SUMMARY_MAX_CHARS)
            .collect();
        format!(
            "{} {}, {age} old{asks}\n  {}\n",
            paint.bold(&escape_line(text(task, "task_id"))),
            status(task, paint),
            paint.dim(&summary)
        )
    };
    tasks.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn task_output_includes_events_and_requests() {
        let task = json!({
            "task_id": "codex-0123456789ab", "status": "waiting_for_approval",
            "prompt_summary": "push it\u{1b}[2J", "cwd": "/w", "sandbox": "read-only",
            "approval_policy": "on-request", "model": null, "codex_thread_id": "t1",
            "created_at": 1.5, "completed_at": null, "last_progress_summary": null,
            "notify_target": "local", "notification_status": "pending",
            "recent_events": [{"source_event_type": "turn/started", "payload_summary": "01a1e387-7938", "created_at": 2.0},
                {"source_event_type": "item/started", "payload_summary": "running `ls`", "created_at": 2.0}],
            "pending_requests": [{"request_id": "k3x9qzaaaa", "code": "k3x9qz", "requester": "token ci (task, tier tool)", "kind": "command", "headline": "may it run?",
                "shown": "command: git push", "payload": {}, "status": "pending", "deadline": 62.0}],
        });
        assert_eq!(
            task_words(&task, 2_000, Paint::plain()),
            "\
codex-0123456789ab is waiting for approval
  task      push it\\e[2J
  terms     /w, read-only, on-request
  thread    t1
  started   1970-01-01 00:00:01 UTC
  notify    local, pending
  00:00:02 → the turn began
  00:00:02 • running `ls`
┌ For token ci (task, tier tool): Codex asks (k3x9qz), task codex-0123456789ab, declined in 60 s if nobody answers
│ command: git push
│ yes: it runs, once; for the session: this same command is not asked about again
└ codex-bridge approve k3x9qz  ·  codex-bridge decline k3x9qz
"
        );
        assert_eq!(
            list_words(&[task], 61_500, Paint::plain()),
            "codex-0123456789ab waiting for approval, 60 s old [asks 1]\n  push it\\e[2J\n"
        );
    }
}
