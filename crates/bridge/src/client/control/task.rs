//! `status TASK`, `list`, `steer` and `interrupt TASK`.

use super::words::{list_words, task_words, text};
use super::{answered, refused};
use crate::cli::{ListArgs, SteerArgs};
use crate::client::api::{ApiClient, checked};
use crate::client::send::EXIT_LATER;
use crate::term::{self, Paint, escape};
use serde_json::{Value, json};
use std::process::ExitCode;

/// What a task's id begins with.
const TASK_PREFIX: &str = "codex-";

/// Whether an id, or its beginning, is a task's; messages have hexadecimal ones.
pub(crate) fn is_task(id: &str) -> bool {
    id.starts_with(TASK_PREFIX) || (id.len() >= 4 && TASK_PREFIX.starts_with(id))
}

pub(super) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

pub(crate) async fn task_status(
    client: &ApiClient,
    id: &str,
    json: bool,
    no_color: bool,
) -> ExitCode {
    let paint = Paint::stdout(no_color);
    let found = match checked(id) {
        Ok(id) => client.get(&format!("/v1/tasks/{id}")).await,
        Err(error) => Err(error),
    };
    answered(client, found, json, |envelope| {
        let words = task_words(&envelope["task"], now_ms(), paint);
        (words, ExitCode::SUCCESS)
    })
}

pub(super) async fn list(client: &ApiClient, args: &ListArgs, no_color: bool) -> ExitCode {
    let paint = Paint::stdout(no_color);
    let found = client.get(&format!("/v1/tasks?limit={}", args.limit)).await;
    answered(client, found, args.json, |envelope| {
        let tasks = envelope["tasks"].as_array().map_or(&[][..], Vec::as_slice);
        (list_words(tasks, now_ms(), paint), ExitCode::SUCCESS)
    })
}

pub(super) async fn steer(client: &ApiClient, args: SteerArgs) -> ExitCode {
    let instruction = match crate::text_or_stdin(args.text) {
        Ok(text) => text,
        Err(error) => {
            term::complain(&escape(&format!("not steered: {error:#}")));
            return ExitCode::FAILURE;
        }
    };
    let body = json!({ "instruction": instruction });
    let steered = match checked(&args.id) {
        Ok(id) => {
            client
                .post(&format!("/v1/tasks/{id}/steer"), Some(&body), None)
                .await
        }
        Err(error) => Err(error),
    };
    answered(client, steered, args.json, |envelope| {
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

pub(crate) async fn interrupt_task(client: &ApiClient, id: &str, json: bool) -> ExitCode {
    let stopped = match checked(id) {
        Ok(id) => {
            client
                .post(&format!("/v1/tasks/{id}/interrupt"), None, None)
                .await
        }
        Err(error) => Err(error),
    };
    let envelope = match stopped {
        Ok(envelope) => envelope,
        Err(error) => return refused(client, &error, json),
    };
    let code = match text(&envelope, "interrupt") {
        "cancelled" => ExitCode::SUCCESS,
        _ => ExitCode::from(EXIT_LATER),
    };
    answered(client, Ok(envelope), json, |envelope| {
        (interrupt_words(envelope), code)
    })
}

fn interrupt_words(envelope: &Value) -> String {
    let task = &envelope["task"];
    let id = text(task, "task_id");
    let said = match (text(envelope, "interrupt"), text(envelope, "message")) {
        ("cancelled", _) => format!("{id} is stopped"),
        (status, "") => {
            format!("{id} is not stopped yet: it is {status}; see `codex-bridge status {id}`")
        }
        (_, message) => format!("{id}: {message}"),
    };
    escape(&said).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_told_from_a_message_by_its_id() {
        for (id, task) in [
            ("codex-0123", true),
            ("codex-", true),
            ("code", true),
            ("c0de", false),
            ("019a8c7e", false),
            ("c", false),
        ] {
            assert_eq!(is_task(id), task, "{id}");
        }
    }

    #[test]
    fn steering_says_what_became_of_it() {
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
}
