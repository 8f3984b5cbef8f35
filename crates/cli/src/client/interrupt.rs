//! `stop`: stops a message or a task and reports the outcome, or everything of one sender.

use super::api::{ApiClient, ClientError, MessageAct, NO_BODY};
use super::ask::{AskMode, Asker};
use super::control::{answered, stop_sender, text};
use super::find::{Target, resolve, short};
use super::output::{EXIT_LATER, print_json, say, tell};
use super::screen::{OutputStream, Screen};
use super::watch::{FollowOutcome, Watcher};
use crate::cli::{OutputArgs, StopArgs};
use bridge_core::deadline::after;
use bridge_daemon::term::escape;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long the daemon is given to write a stop down, however short the wait.
const STOP_GIVEN: Duration = Duration::from_secs(2);
/// How often a task that is being stopped is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What stopping a message came to.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StopReport {
    message_id: String,
    /// `cancelled`, `stopping`, `answered`, `dead`, `too_late` or `steered`.
    outcome: &'static str,
    detail: String,
}

impl StopReport {
    fn new(message_id: &str, outcome: &'static str, detail: impl Into<String>) -> Self {
        Self {
            message_id: message_id.to_owned(),
            outcome,
            detail: detail.into(),
        }
    }

    fn code(&self) -> ExitCode {
        match self.outcome {
            "cancelled" => ExitCode::SUCCESS,
            "stopping" => ExitCode::from(EXIT_LATER),
            _ => ExitCode::FAILURE,
        }
    }
}

pub(crate) async fn stop(client: &ApiClient, args: StopArgs) -> anyhow::Result<ExitCode> {
    let reference = match (&args.id, args.sender) {
        (_, Some(sender)) => return stop_sender(client, sender, args.channel, args.output).await,
        (Some(reference), None) => reference.as_str(),
        // The command line wants one of the two.
        (None, None) => return Ok(ExitCode::FAILURE),
    };
    let (id, json) = match resolve(client, reference).await? {
        Target::Task(id) => return interrupt_task(client, &id, args.wait, args.output).await,
        Target::Message(id) => (id, args.output.json),
    };
    let id = id.as_str();
    let wait = Duration::from_secs(args.wait);
    let stopped = match client.act(id, MessageAct::Cancel).await {
        Ok(act) if act.outcome == "stopping" => {
            if !json {
                say(&format!("{}: {}", short(&act.message_id), act.detail));
            }
            ending(client, &act.message_id, wait).await?
        }
        Ok(act) => StopReport::new(&act.message_id, "cancelled", act.detail),
        Err(ClientError::Refused(problem)) if problem.state.is_some() => {
            let message_id = problem.message_id.unwrap_or_else(|| id.to_owned());
            let outcome = match problem.state.as_deref() {
                Some("steered") => "steered",
                Some(_) | None => "too_late",
            };
            StopReport::new(&message_id, outcome, problem.detail)
        }
        Err(error) => return Err(error.into()),
    };
    if json {
        return print_json(&stopped, stopped.code());
    }
    if stopped.outcome == "cancelled" {
        let id = short(&stopped.message_id);
        let said = format!("{id} is stopped: {}", stopped.detail);
        return tell(&escape(&said), stopped.code());
    }
    say(&format!("not stopped: {}", stopped.detail));
    Ok(stopped.code())
}

/// Waits for the end of a message whose turn is being interrupted.
async fn ending(client: &ApiClient, id: &str, wait: Duration) -> Result<StopReport, ClientError> {
    let screen = Screen::new(OutputStream::Stderr, true);
    let asker = Asker::new(client, AskMode::Silent);
    let mut watcher = Watcher::of_message(asker, id, screen, None);
    let shown = short(id);
    Ok(match watcher.follow(after(Instant::now(), wait)).await? {
        FollowOutcome::Answered(_) => {
            let detail = format!("its answer came first; `codex-bridge show {shown}` prints it");
            StopReport::new(id, "answered", detail)
        }
        FollowOutcome::Unanswered(message) if message.state == "cancelled" => {
            StopReport::new(id, "cancelled", "its turn was interrupted and has ended")
        }
        FollowOutcome::Unanswered(message) => StopReport::new(id, "dead", message.why.now),
        FollowOutcome::Held(message) => StopReport::new(
            id,
            "stopping",
            format!("{}; {}", message.why.now, message.why.next),
        ),
        FollowOutcome::StillWorking => {
            let detail = format!("its turn has not ended yet; see `codex-bridge why {shown}`");
            StopReport::new(id, "stopping", detail)
        }
    })
}

/// Stops a task, and stays until its turn has ended or the time is over; it is interrupted all the same.
async fn interrupt_task(
    client: &ApiClient,
    id: &str,
    wait: u64,
    output: OutputArgs,
) -> anyhow::Result<ExitCode> {
    let wait = Duration::from_secs(wait);
    let deadline = after(Instant::now(), wait.max(STOP_GIVEN));
    let mut stopped = stop_task(client, id, deadline).await;
    if let Err(ClientError::Refused(_)) = &stopped
        && let Ok(mut envelope) = client.task(id).await
        && is_over(text(&envelope["task"], "status"))
    {
        // How it ended says more than that it can't be stopped.
        envelope["interrupt"] = json!("too_late");
        stopped = Ok(envelope);
    }
    answered(stopped, output, |envelope: &Value| {
        if text(envelope, "interrupt") == "too_late" {
            return (interrupt_words(envelope), ExitCode::FAILURE);
        }
        let code = match text(&envelope["task"], "status") {
            "cancelled" => ExitCode::SUCCESS,
            status if is_over(status) => ExitCode::FAILURE,
            _ => ExitCode::from(EXIT_LATER),
        };
        (interrupt_words(envelope), code)
    })
}

/// Sends the stop and polls the task until it has ended.
async fn stop_task(client: &ApiClient, id: &str, deadline: Instant) -> Result<Value, ClientError> {
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
    let id = short(text(&envelope["task"], "task_id"));
    let said = match text(&envelope["task"], "status") {
        "cancelled" if text(envelope, "interrupt") == "too_late" => {
            format!("{id} was stopped before")
        }
        "cancelled" => format!("{id} is stopped"),
        "completed" => {
            format!(
                "{id} is not stopped: its answer came first; `codex-bridge show {id}` prints it"
            )
        }
        "failed" => {
            format!("{id} is not stopped: it had failed before; `codex-bridge why {id}` says why")
        }
        _ => format!(
            "{id} is stopping and has not ended yet: it is {}; see `codex-bridge why {id}`",
            text(&envelope["task"], "phase")
        ),
    };
    escape(&said).into_owned()
}
