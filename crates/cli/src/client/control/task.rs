//! `status TASK`, `list`, `steer` and `interrupt TASK`.

use super::answered;
use super::words::{list_words, task_words, text};
use crate::cli::{InterruptArgs, ListArgs, OutputArgs, SteerArgs};
use crate::client::api::{ApiClient, ClientError, NO_BODY};
use crate::client::send::EXIT_LATER;
use anyhow::Context;
use bridge_core::deadline::after;
use bridge_daemon::term::{Paint, escape};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long the daemon is given to write a stop down, however short the wait.
const STOP_GIVEN: Duration = Duration::from_secs(2);
/// How often a task that is being stopped is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
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
    output: OutputArgs,
    no_color: bool,
) -> anyhow::Result<ExitCode> {
    let paint = Paint::stdout(no_color);
    answered(client.task(id).await, output, |envelope: &Value| {
        let words = task_words(&envelope["task"], now_ms(), paint);
        (words, ExitCode::SUCCESS)
    })
}

pub(super) async fn list(
    client: &ApiClient,
    args: &ListArgs,
    no_color: bool,
) -> anyhow::Result<ExitCode> {
    let paint = Paint::stdout(no_color);
    let found = client.get(&format!("/v1/tasks?limit={}", args.limit)).await;
    answered(found, args.output, |envelope: &Value| {
        let tasks = envelope["tasks"].as_array().map_or(&[][..], Vec::as_slice);
        (list_words(tasks, now_ms(), paint), ExitCode::SUCCESS)
    })
}

pub(super) async fn steer(client: &ApiClient, args: SteerArgs) -> anyhow::Result<ExitCode> {
    let instruction = crate::text_or_stdin(args.text).context("not steered")?;
    let body = json!({ "instruction": instruction });
    let steered = client.act_on_task(&args.id, "steer", Some(&body)).await;
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

/// Stops a task, and stays until its turn has ended or the time is over; it is interrupted all the same.
pub(crate) async fn interrupt_task(
    client: &ApiClient,
    args: &InterruptArgs,
) -> anyhow::Result<ExitCode> {
    let wait = Duration::from_secs(args.wait);
    let deadline = after(Instant::now(), wait.max(STOP_GIVEN));
    let stopped = stop(client, &args.id, deadline).await;
    answered(stopped, args.output, |envelope: &Value| {
        let code = match text(&envelope["task"], "status") {
            "cancelled" => ExitCode::SUCCESS,
            status if is_over(status) => ExitCode::FAILURE,
            _ => ExitCode::from(EXIT_LATER),
        };
        (interrupt_words(envelope), code)
    })
}

/// Sends the stop and polls the task until it has ended.
async fn stop(client: &ApiClient, id: &str, deadline: Instant) -> Result<Value, ClientError> {
    let interrupt = client.act_on_task(id, "interrupt", NO_BODY);
    let mut envelope = match timeout_at(deadline, interrupt).await {
        Ok(handed) => handed?,
        Err(_elapsed) => client.task(id).await?,
    };
    while !is_over(text(&envelope["task"], "status")) {
        if timeout_at(deadline, tokio::time::sleep(LOOK_EVERY))
            .await
            .is_err()
        {
            break;
        }
        match client.task(id).await {
            Ok(newer) => envelope = newer,
            // The stop is on disk; a daemon that restarts meanwhile goes on with it.
            Err(error) if error.may_pass() => {}
            Err(error) => return Err(error),
        }
    }
    envelope["interrupt"] = match text(&envelope["task"], "status") {
        status if is_over(status) => json!(status),
        _ => json!("stopping"),
    };
    Ok(envelope)
}

fn is_over(status: &str) -> bool {
    matches!(status, "completed" | "failed" | "cancelled")
}

fn interrupt_words(envelope: &Value) -> String {
    let id = text(&envelope["task"], "task_id");
    let said = match text(&envelope["task"], "status") {
        "cancelled" => format!("{id} is stopped"),
        "completed" => {
            format!(
                "{id} is not stopped: its answer came first; `codex-bridge status {id}` prints it"
            )
        }
        "failed" => format!(
            "{id} is not stopped: it had failed before; `codex-bridge status {id}` says why"
        ),
        status => format!(
            "{id} is stopping and has not ended yet: it is {status}; see `codex-bridge status {id}`"
        ),
    };
    escape(&said).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_task_ids_from_message_ids() {
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
}
