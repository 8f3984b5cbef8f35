//! The commands about tasks, questions and tokens: what they call, and what they print.
//!
//! The daemon decides everything; `--json` prints what it said as it is.

mod notify;
mod peers;
mod requests;
mod start;
mod stop;
mod task;
mod token;
mod words;

#[cfg(feature = "demo")]
pub(crate) use start::start_task;
pub(crate) use task::{interrupt_task, is_task, task_status};

use super::api::{ApiClient, ClientError};
use super::dead::failed;
use super::show::{print, print_json};
use super::watch::watch;
use crate::cli::ControlCommand;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Runs one of them.
pub(crate) async fn control(
    client: &ApiClient,
    command: ControlCommand,
    no_color: bool,
) -> ExitCode {
    match command {
        ControlCommand::Start(args) => start::start(client, args, no_color).await,
        ControlCommand::List(args) => task::list(client, &args, no_color).await,
        ControlCommand::Stop(args) => stop::stop(client, args).await,
        ControlCommand::Steer(args) => task::steer(client, args).await,
        ControlCommand::Respond(args) => requests::respond(client, &args).await,
        ControlCommand::Requests(args) => requests::list(client, &args, no_color).await,
        ControlCommand::Approve(args) => requests::decide(client, &args, "accept").await,
        ControlCommand::Decline(args) => requests::decide(client, &args, "decline").await,
        ControlCommand::NotifyCompleted(args) => notify::notify(client, &args).await,
        ControlCommand::Watch(args) => watch(client, args, no_color).await,
        ControlCommand::Token(command) => token::token(client, command).await,
        ControlCommand::Peers(command) => peers::peers(client, command).await,
        ControlCommand::Completions { shell } => crate::completions(shell),
    }
}

/// Prints what the daemon answered: as it is for programs, in words for people.
fn answered(
    client: &ApiClient,
    answer: Result<Value, ClientError>,
    json: bool,
    told: impl FnOnce(&Value) -> (String, ExitCode),
) -> ExitCode {
    match answer {
        Ok(answer) if json => {
            let (_, code) = told(&answer);
            print_json(&answer, code)
        }
        Ok(answer) => {
            let (words, code) = told(&answer);
            print(words.trim_end(), code)
        }
        Err(error) => refused(client, &error, json),
    }
}

/// A refusal: programs get the envelope that says so, people a sentence.
fn refused(client: &ApiClient, error: &ClientError, json: bool) -> ExitCode {
    match (json, error) {
        (true, ClientError::Refused(problem) | ClientError::NotNow(problem)) => {
            let envelope = json!({ "success": false, "error": problem.detail });
            print_json(&envelope, ExitCode::FAILURE)
        }
        (true | false, error) => failed(client, error),
    }
}
