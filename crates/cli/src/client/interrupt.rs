//! `interrupt`: stops a message and says what that came to.

use super::api::{ApiClient, ClientError, MessageAct};
use super::ask::{AskMode, Asker};
use super::output::{print, print_json};
use super::screen::{OutputStream, Screen};
use super::send::EXIT_LATER;
use super::watch::{FollowOutcome, Watcher};
use crate::cli::InterruptArgs;
use bridge_core::deadline::after;
use bridge_daemon::term::{self, escape};
use serde::Serialize;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::Instant;

/// What stopping a message came to.
#[derive(Debug, Serialize)]
struct StopReport {
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

pub(crate) async fn interrupt(
    client: &ApiClient,
    args: &InterruptArgs,
) -> anyhow::Result<ExitCode> {
    let (id, json) = (args.id.as_str(), args.output.json);
    let wait = Duration::from_secs(args.wait);
    let stopped = match client.act(id, MessageAct::Cancel).await {
        Ok(act) if act.outcome == "stopping" => {
            if !json {
                term::complain(&escape(&format!("{}: {}", act.message_id, act.detail)));
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
        let said = format!("{} is stopped: {}", stopped.message_id, stopped.detail);
        return print(&escape(&said), stopped.code());
    }
    term::complain(&escape(&format!("not stopped: {}", stopped.detail)));
    Ok(stopped.code())
}

/// Waits for the end of a message whose turn is being interrupted.
async fn ending(client: &ApiClient, id: &str, wait: Duration) -> Result<StopReport, ClientError> {
    let screen = Screen::new(OutputStream::Stderr, true);
    let asker = Asker::new(client, AskMode::Silent);
    let mut watcher = Watcher::of_message(asker, id, screen, None);
    Ok(match watcher.follow(after(Instant::now(), wait)).await? {
        FollowOutcome::Answered(_) => {
            let detail = format!("its answer came first; `codex-bridge show {id}` prints it");
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
            let detail = format!("its turn has not ended yet; see `codex-bridge why {id}`");
            StopReport::new(id, "stopping", detail)
        }
    })
}
