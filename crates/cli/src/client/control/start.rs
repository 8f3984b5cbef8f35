//! `start`: gives the daemon a task and prints its id; with `--wait` it stays until the answer is there.

use super::refused;
use super::words::text;
use crate::cli;
use crate::client::api::{ApiClient, ClientError};
use crate::client::screen::To;
use crate::client::send::{EXIT_INTERRUPTED, RETRY_MAX, RETRY_MIN, SUBMIT_PATIENCE};
use crate::client::show::{print, print_json};
use crate::client::watch::{Target, Watcher, ending, last_words};
use bridge_core::deadline::after;
use bridge_daemon::term::{self, escape, escape_line};
use bridge_front::StartArgs;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio::time::Instant;

pub(super) async fn start(client: &ApiClient, args: cli::StartArgs, no_color: bool) -> ExitCode {
    let (wait, json) = (args.wait, args.json);
    let started = match (client.expect_daemon(), terms(args)) {
        (Ok(()), Ok(terms)) => submit(client, &terms).await,
        (Err(error), _) => Err(error),
        (Ok(()), Err(error)) => {
            term::complain(&escape(&format!("not started: {error:#}")));
            return ExitCode::FAILURE;
        }
    };
    let envelope = match started {
        Ok(envelope) => envelope,
        Err(error) => return refused(client, &error, json),
    };
    let id = text(&envelope["task"], "task_id").to_owned();
    match (wait, json) {
        (true, _) => attend(client, &id, json, no_color).await,
        (false, true) => print_json(&envelope, ExitCode::SUCCESS),
        (false, false) => {
            term::complain(&escape_line(&format!(
                "started; `codex-bridge watch {id}` shows it, `codex-bridge status {id}` says how it is"
            )));
            print(&escape_line(&id), ExitCode::SUCCESS)
        }
    }
}

fn terms(args: cli::StartArgs) -> anyhow::Result<StartArgs> {
    let here = PathBuf::from(".");
    Ok(StartArgs {
        prompt: crate::text_or_stdin(args.prompt)?,
        cwd: Some(whole(args.cwd.as_deref().unwrap_or(&here))?),
        model: args.model,
        sandbox: args.sandbox,
        approval_policy: args.approval_policy,
        codex_home: args.codex_home.as_deref().map(whole).transpose()?,
        notify_target: args.notify_target,
        key: None,
    })
}

/// The daemon works elsewhere: it needs the whole path.
fn whole(path: &Path) -> anyhow::Result<String> {
    let whole = std::path::absolute(path)?;
    let text = whole.to_str().map(ToOwned::to_owned);
    text.ok_or_else(|| anyhow::anyhow!("{} is not UTF-8", whole.display()))
}

/// Starts a task; gives its id.
#[cfg(feature = "demo")]
pub(crate) async fn start_task(
    client: &ApiClient,
    terms: &StartArgs,
) -> Result<String, ClientError> {
    let envelope = submit(client, terms).await?;
    Ok(text(&envelope["task"], "task_id").to_owned())
}

/// Hands the task over; the same key makes a repetition harmless.
async fn submit(client: &ApiClient, terms: &StartArgs) -> Result<Value, ClientError> {
    let body =
        serde_json::to_value(terms).map_err(|error| ClientError::Unreadable(error.to_string()))?;
    let key = uuid::Uuid::new_v4().to_string();
    let give_up = after(Instant::now(), SUBMIT_PATIENCE);
    let mut pause = RETRY_MIN;
    loop {
        match client.post("/v1/tasks", Some(&body), Some(&key)).await {
            Err(error) if error.may_pass() && after(Instant::now(), pause) < give_up => {
                if pause == RETRY_MIN {
                    let said = format!("not taken in yet: {error}; trying again");
                    term::complain(&escape(&said));
                }
                tokio::time::sleep(pause).await;
                pause = pause.saturating_mul(2).min(RETRY_MAX);
            }
            settled => return settled,
        }
    }
}

/// Waits for the end; progress and questions go to stderr, the answer alone to stdout.
async fn attend(client: &ApiClient, id: &str, json: bool, no_color: bool) -> ExitCode {
    term::complain(&escape_line(&format!("→ task {id} is on disk")));
    let target = Target::Task(id.to_owned());
    let interrupted = term::interrupted();
    let mut watcher = Watcher::for_people(client, target, To::Stderr, no_color);
    let ended = tokio::select! {
        ended = watcher.until_its_end() => ended,
        () = interrupted => {
            watcher.leave();
            return ExitCode::from(EXIT_INTERRUPTED);
        }
    };
    watcher.clear();
    let message = match ended {
        Ok(message) => message,
        Err(error) => return refused(client, &error, json),
    };
    let code = ending(&message);
    if json {
        return match client.get::<Value>(&format!("/v1/tasks/{id}")).await {
            Ok(envelope) => print_json(&envelope, code),
            Err(error) => refused(client, &error, json),
        };
    }
    match &message.answer {
        Some(answer) => print(&escape(&answer.text), code),
        None => {
            term::complain(&last_words(&message, term::Paint::stderr(no_color)));
            code
        }
    }
}
