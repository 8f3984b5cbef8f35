//! `start`: gives the daemon a task and prints its id; with `--wait` it stays until the answer is there.

use super::task_text::text;
use crate::cli::{self, OutputArgs};
use crate::client::api::{ApiClient, ClientError, submit_until};
use crate::client::output::{EXIT_INTERRUPTED, print, print_json};
use crate::client::screen::OutputStream;
use crate::client::watch::{WatchTarget, Watcher, ending, last_words};
use anyhow::Context;
use bridge_daemon::term::{self, escape, escape_line};
use bridge_front::StartArgs;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(super) async fn start(
    client: &ApiClient,
    args: cli::StartTaskArgs,
    no_color: bool,
) -> anyhow::Result<ExitCode> {
    let (wait, output) = (args.wait, args.output);
    client.expect_daemon()?;
    let terms = terms(args).context("not started")?;
    let envelope = match submit(client, &terms).await {
        Ok(envelope) => envelope,
        Err(error) => return Err(error.into()),
    };
    let id = text(&envelope["task"], "task_id").to_owned();
    match (wait, output.json) {
        (true, _) => attend(client, &id, output, no_color).await,
        (false, true) => print_json(&envelope, ExitCode::SUCCESS),
        (false, false) => {
            term::complain(&escape_line(&format!(
                "started; `codex-bridge watch {id}` shows it, `codex-bridge status {id}` says how it is"
            )));
            print(&escape_line(&id), ExitCode::SUCCESS)
        }
    }
}

fn terms(args: cli::StartTaskArgs) -> anyhow::Result<StartArgs> {
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
        base: None,
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

/// Submits the task; the same key makes a repetition harmless.
async fn submit(client: &ApiClient, terms: &StartArgs) -> Result<Value, ClientError> {
    let key = uuid::Uuid::new_v4().to_string();
    let submit = async || client.post("/v1/tasks", Some(terms), Some(&key)).await;
    submit_until(None, submit, |why| term::complain(&escape(why))).await
}

/// Waits for the end; progress and questions go to stderr, the answer alone to stdout.
async fn attend(
    client: &ApiClient,
    id: &str,
    output: OutputArgs,
    no_color: bool,
) -> anyhow::Result<ExitCode> {
    term::complain(&escape_line(&format!("→ task {id} is on disk")));
    let target = WatchTarget::Task(id.to_owned());
    let interrupted = term::interrupted();
    let mut watcher = Watcher::for_people(client, target, OutputStream::Stderr, no_color);
    let ended = tokio::select! {
        ended = watcher.until_its_end() => ended,
        () = interrupted => {
            watcher.leave();
            return Ok(ExitCode::from(EXIT_INTERRUPTED));
        }
    };
    watcher.clear();
    let message = match ended {
        Ok(message) => message,
        Err(error) => return Err(error.into()),
    };
    let code = ending(&message);
    if output.json {
        return match client.task(id).await {
            Ok(envelope) => print_json(&envelope, code),
            Err(error) => Err(error.into()),
        };
    }
    match &message.answer {
        Some(answer) => print(&escape(&answer.text), code),
        None => {
            term::complain(&last_words(&message, term::Paint::stderr(no_color)));
            Ok(code)
        }
    }
}
