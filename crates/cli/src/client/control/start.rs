//! `start`: gives the daemon a task and prints its id; with `--wait` it stays until the answer is there.

use super::task_text::text;
use crate::cli::{self, OutputArgs};
use crate::client::api::{ApiClient, ClientError, submit_until};
use crate::client::find::path_with;
use crate::client::output::{EXIT_LATER, Failed, print, print_json};
use crate::client::screen::{OutputStream, wrap};
use crate::client::send::{SendOptions, send};
use crate::client::watch::{WatchTarget, Watcher, ending, last_words};
use crate::client::work::{answer_text, spent, uploads, whole_path, works_in};
use anyhow::{Context, bail};
use bridge_core::channels::LOCAL;
use bridge_core::deadline::after;
use bridge_core::value::Sandbox;
use bridge_daemon::term::{self, escape, escape_line};
use bridge_front::{MessageList, StartArgs};
use serde_json::Value;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// The status of an answer that there is no such thing.
const NOT_FOUND: u16 = 404;

pub(super) async fn start(
    client: &ApiClient,
    args: cli::StartTaskArgs,
    no_color: bool,
) -> anyhow::Result<ExitCode> {
    client.expect_daemon()?;
    if let Some(conversation) = args.conversation.clone() {
        let options = message(client, args, conversation, no_color).await;
        return send(client, options.context("not started")?).await;
    }
    let (wait, output, raw) = (args.wait, args.output, args.work.raw);
    let terms = terms(args).context("not started")?;
    let envelope = match submit(client, &terms).await {
        Ok(envelope) => envelope,
        Err(error) => return Err(error.into()),
    };
    let id = text(&envelope["task"], "task_id").to_owned();
    let task = &envelope["task"];
    let place = works_in(text(task, "cwd"), text(task, "sandbox"));
    let width = OutputStream::Stderr.width();
    let say = |line: &str| term::complain(&wrap(&escape_line(line), width));
    match (wait, output.json) {
        (Some(seconds), _) => {
            say(&format!("→ task {id} is on disk"));
            say(&format!("→ {place}"));
            let attendance = Attendance {
                deadline: after(Instant::now(), Duration::from_secs(seconds)),
                output,
                raw,
                no_color,
            };
            attend(client, &id, attendance).await
        }
        (None, true) => print_json(&envelope, ExitCode::SUCCESS),
        (None, false) => {
            say(&format!("→ {place}"));
            say(&format!(
                "started; `codex-bridge watch {id}` shows it, `codex-bridge status {id}` says how it is"
            ));
            print(&escape_line(&id), ExitCode::SUCCESS)
        }
    }
}

/// In a conversation it is a message, on the terms that the conversation has. A new one gets those of a task.
async fn message(
    client: &ApiClient,
    args: cli::StartTaskArgs,
    conversation: String,
    no_color: bool,
) -> anyhow::Result<SendOptions> {
    let is_new = is_new(client, &conversation).await?;
    let work = args.work;
    let cwd = work.cwd.or(is_new.then(|| PathBuf::from(".")));
    let read_only = || Sandbox::ReadOnly.as_str().to_owned();
    Ok(SendOptions {
        text: crate::text_or_stdin(args.prompt)?,
        conversation,
        cwd: cwd.as_deref().map(whole_path).transpose()?,
        model: work.model,
        sandbox: work.sandbox.or(is_new.then(read_only)),
        files: uploads(&work.file)?,
        wait: args.wait.map(Duration::from_secs),
        json: args.output.json,
        quiet: false,
        raw: work.raw,
        no_color,
    })
}

/// Whether a conversation begins with this; one of another channel can't be gone on with.
async fn is_new(client: &ApiClient, conversation: &str) -> anyhow::Result<bool> {
    let query = [("conversation", conversation), ("limit", "1")];
    let path = path_with("/v1/messages", &query)?;
    let said: MessageList = match client.get(&path).await {
        Ok(said) => said,
        Err(ClientError::Refused(problem)) if problem.status == NOT_FOUND => return Ok(true),
        Err(error) => return Err(error.into()),
    };
    let channel = said
        .messages
        .first()
        .map(|message| message.channel.as_str());
    match channel.filter(|channel| *channel != LOCAL) {
        Some(channel) => bail!(
            "{conversation} belongs to the channel {channel}, and nothing said here goes into it: name another conversation"
        ),
        None => Ok(false),
    }
}

/// How a task is waited for.
struct Attendance {
    deadline: Instant,
    output: OutputArgs,
    raw: bool,
    no_color: bool,
}

fn terms(args: cli::StartTaskArgs) -> anyhow::Result<StartArgs> {
    let here = PathBuf::from(".");
    Ok(StartArgs {
        prompt: with_files(crate::text_or_stdin(args.prompt)?, &args.work.file)?,
        cwd: Some(whole_path(args.work.cwd.as_deref().unwrap_or(&here))?),
        model: args.work.model,
        sandbox: args.work.sandbox,
        approval_policy: args.approval_policy,
        codex_home: args.codex_home.as_deref().map(whole_path).transpose()?,
        notify_target: args.notify_target,
        key: None,
        base: None,
    })
}

/// A task works among the caller's own files: it is told where they are, and nothing is copied.
fn with_files(mut prompt: String, files: &[PathBuf]) -> anyhow::Result<String> {
    if !files.is_empty() {
        prompt.push_str("\n\nFiles for this task:\n");
    }
    for file in files {
        std::fs::File::open(file).with_context(|| format!("the file {}", file.display()))?;
        prompt.push_str(&format!("- {}\n", whole_path(file)?));
    }
    Ok(prompt)
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
async fn attend(client: &ApiClient, id: &str, how: Attendance) -> anyhow::Result<ExitCode> {
    let Attendance {
        deadline,
        output,
        raw,
        no_color,
    } = how;
    let target = WatchTarget::Task(id.to_owned());
    let interrupted = term::interrupted();
    let mut watcher = Watcher::for_people(client, target, OutputStream::Stderr, no_color);
    let ended = tokio::select! {
        ended = timeout_at(deadline, watcher.until_its_end()) => ended,
        () = interrupted => {
            return watcher.left(output.json);
        }
    };
    watcher.clear();
    let message = match ended {
        Ok(Ok(message)) => message,
        Ok(Err(error)) => return Err(error.into()),
        Err(_) => return not_yet(client, id, &mut watcher, output).await,
    };
    let code = ending(&message);
    if message.answer.is_some() && !output.json {
        let spent = spent(client, &message.message_id, watcher.elapsed()).await;
        watcher.done(&spent);
    }
    if output.json {
        return match client.task(id).await {
            Ok(envelope) => print_json(&envelope, code),
            Err(error) => Err(error.into()),
        };
    }
    match &message.answer {
        Some(answer) => print(&answer_text(&answer.text, raw, no_color), code),
        None => {
            let words = last_words(&message, term::Paint::stderr(no_color));
            term::complain(&wrap(&words, OutputStream::Stderr.width()));
            Ok(code)
        }
    }
}

/// The time to wait is over; the task goes on.
async fn not_yet(
    client: &ApiClient,
    id: &str,
    watcher: &mut Watcher<'_>,
    output: OutputArgs,
) -> anyhow::Result<ExitCode> {
    let code = ExitCode::from(EXIT_LATER);
    if output.json {
        return match client.task(id).await {
            Ok(envelope) => print_json(&envelope, code),
            Err(error) => {
                let failed = Failed::new("lost sight of it", error.to_string());
                Err(failed.going_on(Some(id), EXIT_LATER).into())
            }
        };
    }
    let width = OutputStream::Stderr.width();
    let open = watcher.waits_for_you().await;
    for request in &open {
        let said = format!("waiting for you: {request}");
        term::complain(&wrap(&escape(&said), width));
    }
    if open.is_empty() {
        let said = format!(
            "still working: the answer is not there yet; `codex-bridge watch {id}` shows it"
        );
        term::complain(&wrap(&said, width));
    }
    Ok(code)
}
