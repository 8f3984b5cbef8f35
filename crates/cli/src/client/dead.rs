//! `dead`: messages that only a person moves on. `dead redrive` is in `redrive`.

use super::api::{ApiClient, ClientError, MessageAct};
use super::message::message_words;
use super::output::{exit_code, print, print_json};
use super::redrive::redrive;
use crate::cli::{DeadCommand, DropArgs, IdArgs};
use anyhow::bail;
use bridge_core::limits::{BACKLOG_MAX, PAGE_MAX};
use bridge_daemon::term::{self, Paint, escape, escape_line, span};
use bridge_front::{ActView, DeadList, DeadView, StoryView};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// Runs one of the commands.
pub(crate) async fn dead(
    client: &ApiClient,
    command: DeadCommand,
    no_color: bool,
) -> anyhow::Result<ExitCode> {
    let paint = Paint::stdout(no_color);
    match command {
        DeadCommand::List(args) => {
            let found = client.dead(args.limit, args.before.as_deref()).await?;
            let words = |found: &DeadList| list_words(found, paint);
            args.output.show(&found, ExitCode::SUCCESS, words)
        }
        DeadCommand::Show(args) => show(client, &args, paint).await,
        DeadCommand::Redrive(args) => redrive(client, args).await,
        DeadCommand::Drop(args) => drop_letters(client, args).await,
    }
}

fn list_words(list: &DeadList, paint: Paint) -> String {
    if list.dead.is_empty() {
        return "no dead letters, and nothing waits for you".to_owned();
    }
    let mut words: String = list.dead.iter().map(|dead| entry(dead, paint)).collect();
    words.push_str(&paint.dim(
        "`codex-bridge dead redrive ID` sends one again, `codex-bridge dead drop ID` gives it up",
    ));
    if let Some(next) = &list.next {
        words.push_str(&paint.dim(&format!("\nolder ones: --before {next}")));
    }
    words
}

fn entry(dead: &DeadView, paint: Paint) -> String {
    let state = match dead.state.as_str() {
        "parked" => paint.yellow("waits for you"),
        _ => paint.red("dead"),
    };
    let attempts = match dead.attempts {
        1 => "1 attempt".to_owned(),
        attempts => format!("{attempts} attempts"),
    };
    let answered = if dead.answered {
        ", answered but not delivered"
    } else {
        ""
    };
    format!(
        "{} {state} for {}, {attempts}{answered}, from {} in {}/{}\n  {}\n  {}\n",
        paint.bold(&dead.message_id),
        span(dead.age_ms),
        escape_line(&dead.sender),
        escape_line(&dead.channel),
        escape_line(&dead.conversation),
        escape_line(&dead.reason),
        paint.dim(&format!("> {}", escape_line(&dead.line))),
    )
}

async fn show(client: &ApiClient, args: &IdArgs, paint: Paint) -> anyhow::Result<ExitCode> {
    let found = client.message(&args.id).await?;
    let StoryView { message, .. } = &found;
    if !matches!(message.state.as_str(), "dead" | "parked") {
        bail!(
            "message {} is no dead letter, it is {}: {}",
            args.id,
            message.state,
            message.why.now
        );
    }
    let words = |found: &StoryView| message_words(found, paint);
    args.output.show(&found, ExitCode::SUCCESS, words)
}

/// The ids of the letters that a command is for: those given, or all, oldest first, at most `max`.
pub(super) async fn chosen(
    client: &ApiClient,
    ids: Vec<String>,
    all: bool,
    max: usize,
) -> Result<Vec<String>, ClientError> {
    if !all {
        return Ok(ids);
    }
    let mut found = Vec::new();
    let mut before: Option<String> = None;
    loop {
        let page = client.dead(PAGE_MAX, before.as_deref()).await?;
        found.extend(page.dead.into_iter().map(|dead| dead.message_id));
        before = page.next;
        if before.is_none() || found.len() >= usize::try_from(BACKLOG_MAX).unwrap_or(0) {
            break;
        }
    }
    found.reverse();
    found.truncate(max);
    Ok(found)
}

/// One that could not be done.
#[derive(Clone, Debug, Serialize)]
pub(super) struct NotDone {
    pub(super) message_id: String,
    pub(super) reason: String,
}

#[derive(Debug, Default, Serialize)]
struct Dropped {
    dropped: Vec<ActView>,
    refused: Vec<NotDone>,
}

async fn drop_letters(client: &ApiClient, args: DropArgs) -> anyhow::Result<ExitCode> {
    let DropArgs {
        ids,
        all,
        yes,
        output,
    } = args;
    let ids = chosen(client, ids, all, usize::MAX).await?;
    if all && !ids.is_empty() && !yes && !agreed(ids.len()) {
        return Ok(ExitCode::FAILURE);
    }
    let mut done = Dropped::default();
    for id in ids {
        match client.act(&id, MessageAct::Drop).await {
            Ok(act) => done.dropped.push(act),
            Err(error @ ClientError::Refused(_)) => done.refused.push(NotDone {
                message_id: id,
                reason: error.to_string(),
            }),
            Err(error) => return Err(error.into()),
        }
    }
    let code = exit_code(done.refused.is_empty());
    if output.json {
        return print_json(&done, code);
    }
    for NotDone { reason, .. } in &done.refused {
        term::complain(&escape(&format!("not dropped: {reason}")));
    }
    let words: Vec<_> = done
        .dropped
        .iter()
        .map(|act| format!("{} is given up", act.message_id))
        .collect();
    match (words.is_empty(), all) {
        (true, true) => print("no dead letters, and nothing waits for you", code),
        (true, false) => Ok(code),
        (false, _) => print(&words.join("\n"), code),
    }
}

/// Asks for confirmation; without a terminal the answer is no.
fn agreed(count: usize) -> bool {
    if !std::io::stdin().is_terminal() {
        term::complain(&format!(
            "nothing was dropped: {count} dead letters would be given up for good; say --yes"
        ));
        return false;
    }
    let mut stderr = std::io::stderr().lock();
    let _closed = write!(stderr, "Give up {count} dead letters for good? [y/N] ")
        .and_then(|()| stderr.flush());
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}
