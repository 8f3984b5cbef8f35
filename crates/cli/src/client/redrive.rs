//! `dead redrive`: sends dead letters again, a few at a time and in sight, and stops when they die again.

use super::api::{ApiClient, ClientError, MessageAct};
use super::dead::{NotDone, chosen};
use super::output::{exit_code, print, print_json};
use crate::cli::RedriveArgs;
use bridge_core::limits::REDRIVE_MAX;
use bridge_daemon::term::{self, escape};
use bridge_front::{ActView, MessageView};
use serde::Serialize;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// Deaths in a row after which no more are sent: what killed them is still there.
const DEATHS_MAX: u32 = 3;
/// How many may be under way at a time: half of the usual turns, so that new messages have room.
const UNDER_WAY_MAX: usize = 8;
/// How soon those under way are looked at again.
const LOOK_EVERY: Duration = Duration::from_millis(200);

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

pub(super) async fn redrive(client: &ApiClient, args: RedriveArgs) -> anyhow::Result<ExitCode> {
    let RedriveArgs {
        ids,
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
