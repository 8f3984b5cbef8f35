//! `failed`, `retry` and `discard`: messages that only a person moves on. `retry` sends them again, a few at a time, and
//! stops when they fail again.

use super::api::{ApiClient, ClientError, MessageAct};
use super::find::{resolve_message, short};
use super::message::message_words;
use super::output::{Failed, exit_code, print_json, say, tell};
use super::page::{DIM, PLAIN, Page};
use crate::cli::{DeadCommand, DeadIds, DeadListArgs, DropArgs, IdArgs, RedriveArgs};
use anyhow::bail;
use bridge_core::limits::{BACKLOG_MAX, PAGE_MAX, REDRIVE_MAX};
use bridge_core::requester::LOCAL_OWNER;
use bridge_daemon::term::{escape, span};
use bridge_front::{ActView, DeadList, DeadView, MessageView, RefusedAct, StoryView};
use schemars::JsonSchema;
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

/// What every command says where there is nothing.
const NOTHING: &str = "nothing failed; `codex-bridge status` shows what else waits for you";

/// Lists them.
async fn failed(
    client: &ApiClient,
    args: &DeadListArgs,
    no_color: bool,
) -> anyhow::Result<ExitCode> {
    let before = match &args.before {
        Some(before) => Some(resolve_message(client, before).await?),
        None => None,
    };
    let found = client.dead(args.limit, before.as_deref()).await?;
    args.output.show(&found, ExitCode::SUCCESS, |found| {
        list_words(found, Page::stdout(no_color))
    })
}

/// Runs one of the commands.
pub(crate) async fn dead(
    client: &ApiClient,
    command: DeadCommand,
    no_color: bool,
) -> anyhow::Result<ExitCode> {
    match command {
        DeadCommand::List(args) => failed(client, &args, no_color).await,
        DeadCommand::Show(args) => show(client, &args, no_color).await,
        DeadCommand::Redrive(args) => redrive(client, args).await,
        DeadCommand::Drop(args) => drop_letters(client, args).await,
    }
}

fn list_words(list: &DeadList, mut page: Page) -> String {
    if list.dead.is_empty() {
        return NOTHING.to_owned();
    }
    for dead in &list.dead {
        entry(dead, &mut page);
    }
    let hint = "`codex-bridge retry ID` sends one again, `codex-bridge discard ID` gives it up";
    page.line(0, hint, DIM);
    if let Some(next) = &list.next {
        page.line(0, &format!("older ones: --before {}", short(next)), DIM);
    }
    page.into_text()
}

fn entry(dead: &DeadView, page: &mut Page) {
    let state = match dead.state.as_str() {
        "parked" => page.paint.yellow("waiting for you"),
        _ => page.paint.red("failed"),
    };
    let attempts = match dead.attempts {
        1 => "1 attempt".to_owned(),
        attempts => format!("{attempts} attempts"),
    };
    let answered = match dead.answered {
        true => ", answered but not delivered",
        false => "",
    };
    let from = match dead.sender.as_str() {
        LOCAL_OWNER => "you".to_owned(),
        sender => format!("{sender} on {}", dead.channel),
    };
    let head = format!("{}  {state}", page.paint.bold(short(&dead.message_id)));
    let said = format!(
        " {} ago in {}, from {from}, {attempts}{answered}",
        span(dead.age_ms),
        dead.conversation,
    );
    page.hang(&head, 10, &said, PLAIN);
    page.line(2, &dead.reason, PLAIN);
    page.line(2, &format!("> {}", dead.line), DIM);
}

async fn show(client: &ApiClient, args: &IdArgs, no_color: bool) -> anyhow::Result<ExitCode> {
    let id = resolve_message(client, &args.id).await?;
    let found = client.message(&id).await?;
    let StoryView { message, .. } = &found;
    if !matches!(message.state.as_str(), "dead" | "parked") {
        bail!(
            "message {} did not fail, it is {}: {}",
            short(&id),
            message.phase,
            message.why.now
        );
    }
    args.output.show(&found, ExitCode::SUCCESS, |found| {
        message_words(found, None, true, Page::stdout(no_color))
    })
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

/// Does something to the message that is named.
async fn act(client: &ApiClient, reference: &str, act: MessageAct) -> Result<ActView, ClientError> {
    let id = resolve_message(client, reference).await?;
    client.act(&id, act).await
}

/// Whether it is about this message alone; the others go on.
fn is_about(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::Refused(_) | ClientError::NotFound(_) | ClientError::Several { .. }
    )
}

/// What `discard --json` prints.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "DiscardReport")]
pub(crate) struct Dropped {
    /// Those that were given up.
    dropped: Vec<ActView>,
    /// Those that were not, and why.
    refused: Vec<RefusedAct>,
}

async fn drop_letters(client: &ApiClient, args: DropArgs) -> anyhow::Result<ExitCode> {
    let DropArgs {
        dead: DeadIds { ids },
        all,
        yes,
        output,
    } = args;
    let ids = chosen(client, ids, all, usize::MAX).await?;
    if all && !ids.is_empty() && !yes {
        confirm(ids.len())?;
    }
    let mut done = Dropped::default();
    for id in ids {
        match act(client, &id, MessageAct::Drop).await {
            Ok(act) => done.dropped.push(act),
            Err(error) if is_about(&error) => done.refused.push(RefusedAct {
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
    for RefusedAct { reason, .. } in &done.refused {
        say(&format!("not discarded: {reason}"));
    }
    let words: Vec<_> = done
        .dropped
        .iter()
        .map(|act| format!("{} is given up", short(&act.message_id)))
        .collect();
    match (words.is_empty(), all) {
        (true, true) => tell(NOTHING, code),
        (true, false) => Ok(code),
        (false, _) => tell(&words.join("\n"), code),
    }
}

/// Asks for confirmation; without a terminal the answer is no.
fn confirm(count: usize) -> Result<(), Failed> {
    let refused = |why: String| {
        let said = format!("nothing was discarded: {why}");
        Err(Failed::new("not confirmed", said))
    };
    if !std::io::stdin().is_terminal() {
        return refused(format!(
            "{count} failed messages would be given up for good; say --yes"
        ));
    }
    let mut stderr = std::io::stderr().lock();
    let _closed = write!(stderr, "Give up {count} failed messages for good? [y/N] ")
        .and_then(|()| stderr.flush());
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    match (read, answer.trim()) {
        (Ok(_), "y" | "Y" | "yes") => Ok(()),
        _ => refused("you did not say yes".to_owned()),
    }
}

/// What `retry --json` prints.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "RetryReport")]
pub(crate) struct Redriven {
    /// Those that were sent again.
    redriven: Vec<ActView>,
    /// Those that were not, and why.
    refused: Vec<RefusedAct>,
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
        say(&format!(
            "stopped: {DEATHS_MAX} in a row failed again, {} were not sent again; `codex-bridge failed` says why",
            done.left.len()
        ));
    }
    if all && done.redriven.is_empty() && done.refused.is_empty() {
        tell(NOTHING, code)
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
        match act(client, &id, MessageAct::Redrive).await {
            Ok(act) => {
                if !quiet {
                    let said = format!("{}: {}", short(&act.message_id), act.detail);
                    // The rest is sent again all the same.
                    if let Err(error) = tell(&escape(&said), ExitCode::SUCCESS) {
                        say(&format!("{error:#}"));
                    }
                }
                pending.under_way.push(act.message_id.clone());
                done.redriven.push(act);
            }
            Err(error) if is_about(&error) => {
                if !quiet {
                    say(&format!("not sent again: {error}"));
                }
                done.refused.push(RefusedAct {
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
