//! `status TASK`, `list`, `steer` and `notify-completed`.

use super::answered;
use super::task_text::{list_words, task_words, text};
use crate::cli::{ListArgs, NotifyArgs, OutputArgs, SteerArgs};
use crate::client::api::ApiClient;
use crate::client::find::resolve;
use crate::client::now_ms;
use crate::client::output::exit_code;
use crate::client::page::Page;
use anyhow::Context;
use bridge_daemon::term::{escape, escape_line};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Duration;

/// How long `notify-completed` may take: targets are called one after the other, and each has its own bound.
const NOTIFY_DEADLINE: Duration = Duration::from_secs(1_800);
pub(crate) async fn task_status(
    client: &ApiClient,
    id: &str,
    output: OutputArgs,
    no_color: bool,
) -> anyhow::Result<ExitCode> {
    answered(client.task(id).await, output, |envelope: &Value| {
        let words = task_words(&envelope["task"], now_ms(), Page::stdout(no_color));
        (words, ExitCode::SUCCESS)
    })
}

pub(super) async fn list(
    client: &ApiClient,
    args: &ListArgs,
    no_color: bool,
) -> anyhow::Result<ExitCode> {
    let found = client.get(&format!("/v1/tasks?limit={}", args.limit)).await;
    answered(found, args.output, |envelope: &Value| {
        let tasks = envelope["tasks"].as_array().map_or(&[][..], Vec::as_slice);
        (
            list_words(tasks, now_ms(), Page::stdout(no_color)),
            ExitCode::SUCCESS,
        )
    })
}

pub(super) async fn steer(client: &ApiClient, args: SteerArgs) -> anyhow::Result<ExitCode> {
    let instruction = crate::text_or_stdin(args.text).context("not steered")?;
    let body = json!({ "instruction": instruction });
    let task = resolve(client, &args.task.id).await?;
    let steered = client.act_on_task(task.id(), "steer", Some(&body)).await;
    answered(steered, args.output, |envelope: &Value| {
        let code = match text(envelope, "steer") {
            "refused" => ExitCode::FAILURE,
            _ => ExitCode::SUCCESS,
        };
        (steer_words(envelope), code)
    })
}

fn steer_words(envelope: &Value) -> String {
    let why = match text(envelope, "why") {
        "" => String::new(),
        why => format!(": {why}"),
    };
    let said = match text(envelope, "steer") {
        "steered" => "steered: the running turn has it".to_owned(),
        "queued" => format!("queued for the next turn{why}"),
        "refused" => format!("refused{why}"),
        other => format!("{other}{why}"),
    };
    escape(&said).into_owned()
}

pub(super) async fn notify(client: &ApiClient, args: &NotifyArgs) -> anyhow::Result<ExitCode> {
    let body = json!({ "limit": args.limit, "dry_run": args.dry_run });
    let done = client
        .post_within(
            NOTIFY_DEADLINE,
            "/v1/tasks/notify-completed",
            Some(&body),
            None,
        )
        .await;
    answered(done, args.output, notified_words)
}

fn notified_words(envelope: &Value) -> (String, ExitCode) {
    let sent = envelope["notifications"].as_array();
    let sent = sent.map_or(&[][..], Vec::as_slice);
    let failed = sent
        .iter()
        .any(|one| text(one, "notification_status") == "failed");
    let code = exit_code(!failed);
    if sent.is_empty() {
        return (
            "no finished task has a notification to send".to_owned(),
            code,
        );
    }
    let line = |one: &Value| {
        let state = text(one, "notification_status");
        let target = match text(one, "target") {
            "" => String::new(),
            target => format!(" to {target}"),
        };
        let error = match text(one, "error") {
            "" => String::new(),
            error => format!(": {error}"),
        };
        let said = format!(
            "{} ({}): {}{target}{error}",
            text(one, "task_id"),
            text(one, "status"),
            state.replace('_', " "),
        );
        escape_line(&said).into_owned()
    };
    (sent.iter().map(line).collect::<Vec<_>>().join("\n"), code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steer_outcome_in_words() {
        for (envelope, said) in [
            (
                json!({"steer": "steered"}),
                "steered: the running turn has it",
            ),
            (
                json!({"steer": "queued", "why": "no turn runs"}),
                "queued for the next turn: no turn runs",
            ),
            (
                json!({"steer": "refused", "why": "it ended"}),
                "refused: it ended",
            ),
        ] {
            assert_eq!(steer_words(&envelope), said);
        }
    }

    #[test]
    fn failed_notification_sets_failure_exit_code() {
        let envelope = json!({"success": true, "dry_run": false, "processed": 3, "notifications": [
            {"task_id": "codex-a", "status": "completed", "notification_status": "sent", "target": "local"},
            {"task_id": "codex-b", "status": "failed", "notification_status": "no_target"},
            {"task_id": "codex-c", "status": "completed", "notification_status": "failed", "target": "webhook:x", "error": "refused"},
        ]});
        let (words, code) = notified_words(&envelope);
        assert_eq!(
            words,
            "codex-a (completed): sent to local\ncodex-b (failed): no target\ncodex-c (completed): failed to webhook:x: refused"
        );
        assert_eq!(code, ExitCode::FAILURE);
        assert_eq!(
            notified_words(&json!({"success": true})).1,
            ExitCode::SUCCESS
        );
    }
}
