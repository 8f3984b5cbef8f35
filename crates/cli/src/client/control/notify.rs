//! `notify-completed`: sends the notifications of finished tasks that were not sent yet.

use super::answered;
use super::words::text;
use crate::cli::NotifyArgs;
use crate::client::api::ApiClient;
use crate::client::output::exit_code;
use bridge_daemon::term::escape_line;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Duration;

/// How long it may take: targets are called one after the other, and each has its own bound.
const DEADLINE: Duration = Duration::from_secs(1_800);

pub(super) async fn notify(client: &ApiClient, args: &NotifyArgs) -> anyhow::Result<ExitCode> {
    let body = json!({ "limit": args.limit, "dry_run": args.dry_run });
    let done = client
        .post_within(DEADLINE, "/v1/tasks/notify-completed", Some(&body), None)
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
        return ("no finished task is still to be told of".to_owned(), code);
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
