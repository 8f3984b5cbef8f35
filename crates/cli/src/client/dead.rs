//! `dead list`, `dead show` and `dead drop`: messages that only a person moves on.

use super::api::{Act, ApiClient, ClientError};
use super::show::{finish, print, print_json};
use super::story::story_words;
use bridge_core::limits::{BACKLOG_MAX, PAGE_MAX};
use bridge_daemon::term::{self, Paint, escape, escape_line, span};
use bridge_front::{ActView, DeadList, DeadView, StoryView};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

pub(crate) async fn list_dead(
    client: &ApiClient,
    limit: u32,
    before: Option<&str>,
    json: bool,
    no_color: bool,
) -> ExitCode {
    let found = client.dead(limit, before).await;
    finish(client, found, json, no_color, list_words)
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

pub(crate) async fn show_dead(
    client: &ApiClient,
    id: &str,
    json: bool,
    no_color: bool,
) -> ExitCode {
    let found = client.message(id).await;
    if let Ok(StoryView { message, .. }) = &found
        && !matches!(message.state.as_str(), "dead" | "parked")
    {
        term::complain(&escape(&format!(
            "message {id} is no dead letter, it is {}: {}",
            message.state, message.why.now
        )));
        return ExitCode::FAILURE;
    }
    finish(client, found, json, no_color, story_words)
}

/// Which ones.
pub(super) enum Chosen {
    Ids(Vec<String>),
    All,
}

impl Chosen {
    pub(super) fn of(ids: Vec<String>, all: bool) -> Self {
        if all { Self::All } else { Self::Ids(ids) }
    }

    /// Their ids, oldest first when all are meant, at most `max`.
    pub(super) async fn ids(
        self,
        client: &ApiClient,
        max: u32,
    ) -> Result<Vec<String>, ClientError> {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let mut found = match self {
            Self::Ids(ids) => return Ok(ids),
            Self::All => Vec::new(),
        };
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

pub(crate) async fn drop_dead(
    client: &ApiClient,
    ids: Vec<String>,
    all: bool,
    yes: bool,
    json: bool,
) -> ExitCode {
    let ids = match Chosen::of(ids, all).ids(client, u32::MAX).await {
        Ok(ids) => ids,
        Err(error) => return failed(client, &error),
    };
    if all && !ids.is_empty() && !yes && !agreed(ids.len()) {
        return ExitCode::FAILURE;
    }
    let mut done = Dropped::default();
    for id in ids {
        match client.act(&id, Act::Drop).await {
            Ok(act) => done.dropped.push(act),
            Err(error @ ClientError::Refused(_)) => done.refused.push(NotDone {
                message_id: id,
                reason: error.to_string(),
            }),
            Err(error) => return failed(client, &error),
        }
    }
    let code = if done.refused.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    };
    if json {
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
        (true, false) => code,
        (false, _) => print(&words.join("\n"), code),
    }
}

/// Asks whoever is at the terminal; without one there is nobody to ask, and silence is never consent.
fn agreed(count: usize) -> bool {
    if !std::io::stdin().is_terminal() {
        term::complain(&format!(
            "nothing was dropped: {count} dead letters would be given up for good; say --yes"
        ));
        return false;
    }
    let mut stderr = std::io::stderr().lock();
    let _unheard = write!(stderr, "Give up {count} dead letters for good? [y/N] ")
        .and_then(|()| stderr.flush());
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}

/// That no daemon runs says more than that its socket is silent.
pub(super) fn failed(client: &ApiClient, error: &ClientError) -> ExitCode {
    let said = match client.expect_daemon() {
        Ok(()) => error.to_string(),
        Err(none) => none.to_string(),
    };
    term::complain(&escape(&said));
    ExitCode::FAILURE
}
