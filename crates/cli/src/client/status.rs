//! `status`: what needs you first, then how many messages are where, then the daemon itself.

use super::api::{ApiClient, ClientError};
use super::ask::ApprovalView;
use super::find::{resolve, short};
use super::ls::{conversations, loan_words, needs_you};
use super::nodes::node_line;
use super::output::ErrorReport;
use super::page::{BOLD, DIM, PLAIN, Page, YELLOW};
use super::quota::quota_lines;
use super::{now_ms, output, task_status};
use crate::cli::{OutputArgs, StatusArgs};
use bridge_core::phase::Phase;
use bridge_daemon::term::{self, size, span};
use bridge_front::{ChannelView, CodexMemoryView, HealthView, ReloadView, StatusView, SummaryView};
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

/// Things of one kind that are named; the rest is counted.
const NAMED_MAX: usize = 5;
/// Conversations that are looked through for what needs you.
const LOOKED_AT: u32 = 100;
/// How often `--watch` looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Clears the screen and goes to its beginning.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J\u{1b}[3J";

pub(crate) async fn status(
    client: &ApiClient,
    args: StatusArgs,
    no_color: bool,
) -> anyhow::Result<ExitCode> {
    if let Some(reference) = &args.id {
        let target = resolve(client, reference).await?;
        return task_status(client, target.id(), args.output, no_color).await;
    }
    if args.watch {
        return keep_looking(client, args.output, no_color).await;
    }
    let seen = Seen::look(client).await?;
    args.output.show(&seen.status, ExitCode::SUCCESS, |_| {
        seen.words(now_ms(), Page::stdout(no_color))
    })
}

/// Prints the status again whenever it changed, until Ctrl-C.
async fn keep_looking(
    client: &ApiClient,
    output: OutputArgs,
    no_color: bool,
) -> anyhow::Result<ExitCode> {
    let mut last = String::new();
    let look = async {
        loop {
            let text = match Seen::look(client).await {
                Ok(seen) if output.json => serde_json::to_string(&seen.status)?,
                Ok(seen) => seen.words(now_ms(), Page::stdout(no_color)),
                Err(error) if error.may_pass() && !last.is_empty() => {
                    let said = format!("the daemon does not answer: {error}");
                    match output.json {
                        true => serde_json::to_string(&ErrorReport::of(&error.into()))?,
                        false => said,
                    }
                }
                Err(error) => return Err(error.into()),
            };
            if text != last {
                let page = match Page::stdout(no_color).width() {
                    Some(_) if !output.json => format!("{CLEAR}{}", text.trim_end()),
                    _ => text.trim_end().to_owned(),
                };
                term::print(&page)?;
                last = text;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::select! {
        ended = look => ended,
        () = term::interrupted() => Ok(ExitCode::from(output::EXIT_INTERRUPTED)),
    }
}

/// A message that goes on when somebody has done something.
#[derive(Debug)]
struct Waiting {
    message_id: String,
    conversation: String,
    reason: String,
}

/// The daemon's status and what needs you.
#[derive(Debug)]
struct Seen {
    status: StatusView,
    asked: Vec<ApprovalView>,
    waiting: Vec<Waiting>,
}

impl Seen {
    async fn look(client: &ApiClient) -> Result<Self, ClientError> {
        let status = client.status().await?;
        let asked = match status.requests_waiting {
            0 => Vec::new(),
            _ => client.open_requests().await?,
        };
        let waiting = match status.summary.waiting_for_you {
            0 => Vec::new(),
            _ => waiting(client).await?,
        };
        Ok(Self {
            status,
            asked,
            waiting,
        })
    }

    fn words(&self, now_ms: i64, mut page: Page) -> String {
        self.needs_you(now_ms, &mut page);
        let health = &self.status.health;
        let ready = match health.ready {
            true => page.paint.green("ready"),
            false => page.paint.yellow("not ready"),
        };
        let said = format!(
            ": codex-bridge {} (pid {}), {}",
            health.version, health.pid, health.codex
        );
        page.hang(&ready, 2, &said, PLAIN);
        if !health.ready && health.detail != health.codex {
            page.line(2, &health.detail, YELLOW);
        }
        if let Some(said) = health.reload.as_ref().and_then(reload_line) {
            page.line(2, &said, YELLOW);
        }
        if let Some(said) = health.codex_memory.as_ref().and_then(memory_line) {
            page.line(2, &said, DIM);
        }
        for channel in &health.channels {
            channel_line(channel, &mut page);
        }
        for node in self.status.nodes.iter().flatten() {
            node_line(node, &health.version, now_ms, &mut page);
        }
        if let Some(quotas) = &self.status.quotas {
            quota_lines(quotas, now_ms, &mut page);
        }
        for warning in health.ledger.iter().flat_map(|ledger| &ledger.warnings) {
            page.line(2, warning, YELLOW);
        }
        for lent in &self.status.lent {
            let said = format!("{}: {}", lent.key, loan_words(&lent.loan, now_ms));
            page.line(2, &said, YELLOW);
        }
        self.counts(&mut page);
        if let Some(bytes) = self.status.ledger_bytes {
            let said = format!("database {}{}", size(bytes), vitals(health));
            page.line(2, &said, DIM);
        }
        page.into_text()
    }

    /// What only a person moves on, with the command that does it.
    fn needs_you(&self, now_ms: i64, page: &mut Page) {
        let held = self.status.summary.waiting_for_you;
        let count = u64::try_from(self.asked.len())
            .unwrap_or(0)
            .saturating_add(held);
        if count == 0 {
            return;
        }
        page.line(0, &format!("waiting for you: {count}"), |paint, text| {
            paint.yellow(&paint.bold(text))
        });
        for request in self.asked.iter().take(NAMED_MAX) {
            let whose = match &request.task_id {
                Some(task) => task.clone(),
                None => format!("{}, {}", request.conversation, short(&request.message_id)),
            };
            request.tell(2, &format!("{whose}; "), now_ms, page);
        }
        for one in self.waiting.iter().take(NAMED_MAX) {
            let name = short(&one.message_id);
            page.line(
                2,
                &format!("{name} in {}: {}", one.conversation, one.reason),
                BOLD,
            );
            page.line(4, &format!("`codex-bridge why {name}` says more"), DIM);
        }
        let named = self.asked.len().min(NAMED_MAX) + self.waiting.len().min(NAMED_MAX);
        let more = count.saturating_sub(u64::try_from(named).unwrap_or(0));
        if more > 0 {
            let said = format!("and {more} more: `codex-bridge requests`, `codex-bridge failed`");
            page.line(2, &said, DIM);
        }
        page.gap();
    }

    fn counts(&self, page: &mut Page) {
        let status = &self.status;
        if status.counts.is_empty() {
            page.line(2, "no messages yet", PLAIN);
        }
        let about: BTreeSet<&str> = self
            .asked
            .iter()
            .map(|one| one.message_id.as_str())
            .collect();
        let asked = u64::try_from(about.len()).unwrap_or(0);
        for (name, count, remark) in places(status, asked) {
            if count > 0 {
                page.hang(&format!("  {name:<16}{count:>6}  "), 26, &remark, PLAIN);
            }
        }
        for (name, count, remark) in [
            (
                "suspects",
                status.suspects,
                "Codex died under them; tried one at a time",
            ),
            (
                "replies retried",
                status.replies_retried,
                "a platform did not take them yet",
            ),
        ] {
            if count > 0 {
                page.hang(&format!("  {name:<16}{count:>6}  "), 26, remark, YELLOW);
            }
        }
    }
}

/// The messages that wait for a person and that nobody is asked about.
async fn waiting(client: &ApiClient) -> Result<Vec<Waiting>, ClientError> {
    let mut found = Vec::new();
    let list = conversations(client, LOOKED_AT).await?;
    for one in list.conversations.iter().filter(|one| needs_you(one)) {
        let Some(id) = one.message_id.as_deref().filter(|_| one.open_requests == 0) else {
            continue;
        };
        if found.len() >= NAMED_MAX {
            break;
        }
        let message = client.message(id).await?.message;
        let reason = match &message.hold {
            Some(hold) => hold.failure.reason.clone(),
            None => message.why.now,
        };
        // The same reason once: it is one thing to mend.
        if found.iter().any(|other: &Waiting| other.reason == reason) {
            continue;
        }
        found.push(Waiting {
            message_id: id.to_owned(),
            conversation: one.conversation.key.clone(),
            reason,
        });
    }
    Ok(found)
}

/// A channel that receives needs no attention, one that is parked needs a person.
fn channel_line(channel: &ChannelView, page: &mut Page) {
    let state = match channel.state.as_str() {
        "parked" => Phase::WaitingForYou.as_str(),
        state => state,
    };
    let said = format!("{} {state}: {}", channel.channel, channel.detail);
    let look = match channel.state.as_str() {
        "receiving" => PLAIN,
        _ => YELLOW,
    };
    page.line(2, &said, look);
}

/// How the database is beside its size.
fn vitals(health: &HealthView) -> String {
    let Some(ledger) = &health.ledger else {
        return String::new();
    };
    let free = match ledger.free_bytes {
        Some(free) => format!(", {} free on its disk", size(free)),
        None => String::new(),
    };
    format!(
        ", {}, {} of log{free}",
        ledger.health,
        size(ledger.log_bytes)
    )
}

/// What Codex has of its budget; nothing to say where none runs.
fn memory_line(memory: &CodexMemoryView) -> Option<String> {
    let resident = size(memory.resident_bytes?);
    let of = match memory.budget_bytes {
        Some(budget) => format!(" of {}", size(budget)),
        None => String::new(),
    };
    let threads = match memory.threads_loaded {
        1 => "1 conversation".to_owned(),
        count => format!("{count} conversations"),
    };
    let over = match memory.budget_bytes < memory.resident_bytes && memory.budget_bytes.is_some() {
        true => ": over its budget, so idle conversations are unloaded at once (codex.memory_mib)",
        false => "",
    };
    Some(format!(
        "Codex has {resident}{of} of memory, {threads} loaded{over}"
    ))
}

/// What the last reading of the configuration left to do; nothing to say where it went well.
fn reload_line(reload: &ReloadView) -> Option<String> {
    match (&reload.error, reload.needs_restart.as_slice()) {
        (None, []) => None,
        (None, keys) => Some(format!("restart the daemon for {}", keys.join(" "))),
        (Some(error), _) => Some(format!(
            "the configuration on disk can't be used, the old one is in force: {error}"
        )),
    }
}

/// Where messages are, in the words of people. `asked` of those at work wait for a decision.
fn places(status: &StatusView, asked: u64) -> [(&'static str, u64, String); 6] {
    let SummaryView {
        waiting,
        working,
        unclear,
        waiting_for_you,
        sending,
        answered,
        answered_24h,
        dead,
        cancelled,
    } = status.summary;
    let at_work = working.saturating_add(unclear).saturating_add(sending);
    let at_work = at_work.saturating_sub(asked);
    let oldest = status.oldest_unanswered_ms.map_or_else(String::new, |ms| {
        format!("the oldest unanswered came {} ago", span(ms))
    });
    let (queued_remark, working_remark) = match waiting {
        0 => (String::new(), oldest),
        _ => (oldest, String::new()),
    };
    [
        ("queued", waiting, queued_remark),
        ("working", at_work, working_remark),
        (
            "waiting for you",
            waiting_for_you.saturating_add(asked),
            String::new(),
        ),
        ("done", answered, format!("{answered_24h} in the last 24 h")),
        (
            "failed",
            dead,
            "`codex-bridge failed` shows them and what to do".to_owned(),
        ),
        ("stopped", cancelled, String::new()),
    ]
}
