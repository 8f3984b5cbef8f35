//! The commands about tasks, questions and tokens: what they call, and what they print.
//!
//! `--json` prints the daemon's answers unchanged; a failure is printed by `main`, in the one form.

mod requests;
mod senders;
mod start;
mod task;
mod task_text;

pub(crate) use senders::{PeerList, stop_sender};
#[cfg(feature = "demo")]
pub(crate) use start::start_task;
pub(crate) use task::task_status;
pub(super) use task_text::text;

use super::api::{ApiClient, ClientError};
use super::watch::watch;
use crate::cli::{ControlCommand, OutputArgs};
use serde::Serialize;
use std::process::ExitCode;

/// Runs one of them.
pub(crate) async fn control(
    client: &ApiClient,
    command: ControlCommand,
    no_color: bool,
) -> anyhow::Result<ExitCode> {
    match command {
        ControlCommand::Start(args) => start::start(client, args, no_color).await,
        ControlCommand::List(args) => task::list(client, &args, no_color).await,
        ControlCommand::Steer(args) => task::steer(client, args).await,
        ControlCommand::Respond(args) => requests::respond(client, &args).await,
        ControlCommand::Requests(args) => requests::list(client, &args, no_color).await,
        ControlCommand::Approve(args) => requests::decide(client, &args, "accept").await,
        ControlCommand::Decline(args) => requests::decide(client, &args, "decline").await,
        ControlCommand::NotifyCompleted(args) => task::notify(client, &args).await,
        ControlCommand::Watch(args) => watch(client, args, no_color).await,
        ControlCommand::Token(command) => senders::token(client, command).await,
        ControlCommand::Peers(command) => senders::peers(client, command).await,
        ControlCommand::Completions { shell } => crate::completion::script(shell),
    }
}

/// Prints what the daemon answered: as it is for programs, in words for people.
pub(super) fn answered<T: Serialize>(
    answer: Result<T, ClientError>,
    output: OutputArgs,
    words: impl FnOnce(&T) -> (String, ExitCode),
) -> anyhow::Result<ExitCode> {
    let answer = answer?;
    let (words, code) = words(&answer);
    output.show(&answer, code, |_| words)
}
