//! `dead`: messages that only a person moves on. `dead redrive` sends them again, a few at a time, and stops when they
//! die again.

use super::api::{ApiClient, ClientError, MessageAct};
use super::message::message_words;
use super::output::{exit_code, print, print_json};
use crate::cli::{DeadCommand, DeadIds, DropArgs, IdArgs, RedriveArgs};
use anyhow::bail;
use bridge_core::limits::{BACKLOG_MAX, PAGE_MAX, REDRIVE_MAX};
use bridge_daemon::term::{self, Paint, escape, escape_line, span};
use bridge_front::{ActView, DeadList, DeadView, MessageView, StoryView};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// Deaths in a row after which no more are sent: what killed them is still there.
const DEATHS_MAX: u32 = 3;
/// How many may be under way at a time: half of the usual turns, so that new messages have room.
const UNDER_WAY_MAX: usize = 8;
/// How soon those under way are looked at again.
const LOOK_EVERY: Duration = Duration::from_millis(200);

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
async fn chosen(
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
struct NotDone {
    message_id: String,
    reason: String,
}

#[derive(Debug, Default, Serialize)]
struct Dropped {
    dropped: Vec<ActView>,
    refused: Vec<NotDone>,
}

async fn drop_letters(client: &ApiClient, args: DropArgs) -> anyhow::Result<ExitCode> {
    let DropArgs {
        dead: DeadIds { ids },
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

#[derive(Debug, Default, Serialize)]
struct Redriven {
    redriven: Vec<ActView>,
    refused: Vec<NotDone>,
    /// Ids that were not sent again, because too many before them died again.
    left: Vec<String>,
}

/// Those that were sent again and whose end was not seen yet.
#[derive(Debug, Default)]
struct PendingRedrives {
    under_way: Vec<String>,
    deaths: u32,
}

async fn redrive(client: &ApiClient, args: RedriveArgs) -> anyhow::Result<ExitCode> {
    let RedriveArgs {
        dead: DeadIds { ids },
        all,
        per_second,
        output,
    } = args;
    let max = usize::try_from(REDRIVE_MAX)?;
    let ids = chosen(client, ids, all, max).await?;
    let mut done = Redriven::default();
    each(client, ids, per_second, output.json, &mut done).await?;
    let code = exit_code(done.refused.is_empty() && done.left.is_empty());
    if output.json {
        return print_json(&done, code);
    }
    if !done.left.is_empty() {
        term::complain(&format!(
            "stopped: {DEATHS_MAX} in a row died again, {} were not sent again; `codex-bridge dead list` says why",
            done.left.len()
        ));
    }
    if all && done.redriven.is_empty() && done.refused.is_empty() {
        print("no dead letters, and nothing waits for you", code)
    } else {
        Ok(code)
    }
}

/// One after the other, at this rate.
async fn each(
    client: &ApiClient,
    ids: Vec<String>,
    per_second: u32,
    quiet: bool,
    done: &mut Redriven,
) -> Result<(), ClientError> {
    let pace = Duration::from_secs(1) / per_second.max(1);
    let mut ticks = interval_at(Instant::now(), pace);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut pending = PendingRedrives::default();
    let mut ids = ids.into_iter();
    while let Some(id) = ids.next() {
        ticks.tick().await;
        if !pending.room(client).await? {
            done.left = std::iter::once(id).chain(ids).collect();
            return Ok(());
        }
        match client.act(&id, MessageAct::Redrive).await {
            Ok(act) => {
                if !quiet {
                    let said = format!("{}: {}", act.message_id, act.detail);
                    // The rest is sent again all the same.
                    if let Err(error) = term::print(&escape(&said)) {
                        term::complain(&format!("this could not be printed: {error}"));
                    }
                }
                pending.under_way.push(act.message_id.clone());
                done.redriven.push(act);
            }
            Err(error @ ClientError::Refused(_)) => {
                if !quiet {
                    term::complain(&escape(&format!("not sent again: {error}")));
                }
                done.refused.push(NotDone {
                    message_id: id,
                    reason: error.to_string(),
                });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl PendingRedrives {
    /// Waits until one more may be sent; `false` when too many died in a row.
    async fn room(&mut self, client: &ApiClient) -> Result<bool, ClientError> {
        loop {
            self.look(client).await?;
            if self.deaths >= DEATHS_MAX {
                return Ok(false);
            }
            if self.under_way.len() < UNDER_WAY_MAX {
                return Ok(true);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn look(&mut self, client: &ApiClient) -> Result<(), ClientError> {
        let mut still = Vec::new();
        for id in std::mem::take(&mut self.under_way) {
            let message = client.message(&id).await?.message;
            match ended(&message) {
                None => still.push(id),
                Some(RedriveEnd::Well) => self.deaths = 0,
                Some(RedriveEnd::Dead) => self.deaths += 1,
                Some(RedriveEnd::Waits) => {}
            }
        }
        self.under_way = still;
        Ok(())
    }
}

/// How a message that was sent again went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RedriveEnd {
    /// It has its answer, or was stopped.
    Well,
    /// It died again, or was cut again.
    Dead,
    /// For something that will not come by itself soon.
    Waits,
}

fn ended(message: &MessageView) -> Option<RedriveEnd> {
    match message.state.as_str() {
        "dead" | "parked" => Some(RedriveEnd::Dead),
        "cancelled" => Some(RedriveEnd::Well),
        _ if message.answer.is_some() => Some(RedriveEnd::Well),
        _ if !message.worth_waiting => Some(RedriveEnd::Waits),
        _ => None,
    }
}
