//! `interrupt`: stops a message and says what that came to.

use super::api::{Act, ApiClient, ClientError};
use super::dead::failed;
use super::progress::Progress;
use super::send::{EXIT_LATER, Outcome, Sender};
use super::show::{print, print_json};
use bridge_core::deadline::after;
use bridge_daemon::term::{self, escape};
use serde::Serialize;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::Instant;

/// What stopping a message came to.
#[derive(Debug, Serialize)]
struct Stopped {
    message_id: String,
    /// `cancelled`, `stopping`, `answered`, `dead`, `too_late` or `steered`.
    outcome: &'static str,
    detail: String,
}

impl Stopped {
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
    id: &str,
    wait: Duration,
    json: bool,
) -> ExitCode {
    let stopped = match client.act(id, Act::Cancel).await {
        Ok(act) if act.outcome == "stopping" => {
            if !json {
                term::complain(&escape(&format!("{}: {}", act.message_id, act.detail)));
            }
            ending(client, &act.message_id, wait).await
        }
        Ok(act) => Ok(Stopped::new(&act.message_id, "cancelled", act.detail)),
        Err(ClientError::Refused(problem)) if problem.state.is_some() => {
            let message_id = problem.message_id.unwrap_or_else(|| id.to_owned());
            let outcome = match problem.state.as_deref() {
                Some("steered") => "steered",
                Some(_) | None => "too_late",
            };
            Ok(Stopped::new(&message_id, outcome, problem.detail))
        }
        Err(error) => Err(error),
    };
    match stopped {
        Ok(stopped) if json => print_json(&stopped, stopped.code()),
        Ok(stopped) if stopped.outcome == "cancelled" => {
            let said = format!("{} is stopped: {}", stopped.message_id, stopped.detail);
            print(&escape(&said), stopped.code())
        }
        Ok(stopped) => {
            term::complain(&escape(&format!("not stopped: {}", stopped.detail)));
            stopped.code()
        }
        Err(error) => failed(client, &error),
    }
}

/// Waits for the end of a message whose turn is being interrupted.
async fn ending(client: &ApiClient, id: &str, wait: Duration) -> Result<Stopped, ClientError> {
    let sender = Sender {
        client,
        deadline: after(Instant::now(), wait),
    };
    let mut progress = Progress::new(true, true);
    Ok(match sender.follow(id, &mut progress).await? {
        Outcome::Answered(_) => {
            let detail = format!("its answer came first; `codex-bridge show {id}` prints it");
            Stopped::new(id, "answered", detail)
        }
        Outcome::Unanswered(message) if message.state == "cancelled" => {
            Stopped::new(id, "cancelled", "its turn was interrupted and has ended")
        }
        Outcome::Unanswered(message) => Stopped::new(id, "dead", message.why.now),
        Outcome::Held(message) => Stopped::new(
            id,
            "stopping",
            format!("{}; {}", message.why.now, message.why.next),
        ),
        Outcome::StillWorking(_) => {
            let detail = format!("its turn has not ended yet; see `codex-bridge why {id}`");
            Stopped::new(id, "stopping", detail)
        }
    })
}
