//! Health and counts of the daemon. Field names are stable: programs read them. Contains no message content.

use super::loans::{LentConversation, lent};
use super::nodes::present;
use super::quota::{QuotasView, quotas};
use super::{Context, ProblemResponse};
use crate::Time;
use crate::{BridgeService, LedgerView, NodeView, ReloadView};
use axum::Json;
use axum::extract::State;
use bridge_core::port::{Figures, LedgerError, StateCount};
use bridge_core::value::{StateName, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Answer to `GET /v1/status`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StatusView {
    /// How the daemon is.
    pub health: HealthView,
    /// Messages by state.
    pub counts: BTreeMap<String, u64>,
    /// The same in the words of people.
    pub summary: SummaryView,
    /// When the oldest message without an answer came.
    pub oldest_unanswered_at: Option<Time>,
    /// How long ago that is, in milliseconds.
    pub oldest_unanswered_ms: Option<i64>,
    /// Unanswered messages under which Codex died before; they are tried one at a time.
    pub suspects: u64,
    /// Always 0: no channel is owed an ack for a single message.
    pub acks_owed: u64,
    /// Replies that a platform did not take yet.
    pub replies_retried: u64,
    /// Questions of Codex that wait for somebody.
    #[serde(default)]
    pub requests_waiting: u64,
    /// What the database takes on disk.
    pub ledger_bytes: Option<u64>,
    /// Daemons that share the database and have not left; absent where one has it for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<NodeView>>,
    /// Conversations that are lent to a Codex terminal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lent: Vec<LentConversation>,
    /// Limits of the accounts that Codex is logged in with; absent while Codex has reported none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quotas: Option<QuotasView>,
}

/// How many messages are where, in the words of people.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct SummaryView {
    /// For a turn, behind another one, or for capacity.
    pub waiting: u64,
    /// Codex works on them, or is about to.
    pub working: u64,
    /// Their turns were lost from sight and are looked for.
    pub unclear: u64,
    /// For a person: something is to be mended or decided.
    pub waiting_for_you: u64,
    /// Answered, and their replies are on their way.
    pub sending: u64,
    /// Finished with an answer.
    pub answered: u64,
    /// Those of the last 24 hours.
    pub answered_24h: u64,
    /// Failed messages.
    pub dead: u64,
    /// Stopped or given up by a person.
    pub cancelled: u64,
}

/// How the daemon is.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HealthView {
    /// Whether it can answer messages now.
    pub ready: bool,
    /// Why not, or a remark.
    pub detail: String,
    /// The daemon's pid.
    pub pid: u32,
    /// The daemon's version.
    pub version: String,
    /// What is known about Codex.
    pub codex: String,
    /// The memory of Codex; absent if unknown.
    #[serde(default)]
    pub codex_memory: Option<CodexMemoryView>,
    /// Health of the database; absent if unknown.
    #[serde(default)]
    pub ledger: Option<LedgerView>,
    /// How the channels are that can be away.
    #[serde(default)]
    pub channels: Vec<ChannelView>,
    /// How the last reading of the configuration went; absent when it was read at the start alone.
    #[serde(default)]
    pub reload: Option<ReloadView>,
}

/// The memory of Codex and its threads. With several CODEX_HOMEs, the sum of those that have a Codex now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CodexMemoryView {
    /// What Codex and what it started have, in bytes; absent where none runs.
    pub resident_bytes: Option<u64>,
    /// What they may have (`codex.memory_mib`); absent without a budget.
    pub budget_bytes: Option<u64>,
    /// Conversations whose threads are loaded.
    pub threads_loaded: u64,
    /// Threads that were loaded again for a message, since the start of the daemon.
    pub threads_resumed: u64,
    /// Threads that were unloaded.
    pub threads_released: u64,
}

/// How a channel is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChannelView {
    /// Name of the channel.
    pub channel: String,
    /// `starting`, `receiving`, `retrying` or `parked`.
    pub state: String,
    /// Why, as a sentence for people.
    pub detail: String,
    /// Since when.
    pub since: Time,
}

impl SummaryView {
    fn new(counts: &[StateCount], figures: &Figures) -> Self {
        let mut summary = Self {
            answered_24h: figures.answered,
            waiting_for_you: figures.operator,
            ..Self::default()
        };
        for StateCount { state, count } in counts {
            let place = match state {
                StateName::Received => &mut summary.waiting,
                StateName::Claimed
                | StateName::Starting
                | StateName::Running
                | StateName::Steered => &mut summary.working,
                StateName::Unclear => &mut summary.unclear,
                StateName::Parked => &mut summary.waiting_for_you,
                StateName::Answered | StateName::Sending => &mut summary.sending,
                StateName::Done => &mut summary.answered,
                StateName::Dead => &mut summary.dead,
                StateName::Cancelled => &mut summary.cancelled,
            };
            *place += count;
        }
        summary.waiting = summary.waiting.saturating_sub(figures.operator);
        summary
    }
}

impl StatusView {
    pub(crate) fn new(
        health: HealthView,
        counts: &[StateCount],
        figures: Figures,
        ledger_bytes: Option<u64>,
        now: Timestamp,
    ) -> Self {
        let oldest = figures.oldest_unanswered;
        Self {
            health,
            summary: SummaryView::new(counts, &figures),
            counts: counts
                .iter()
                .map(|entry| (entry.state.as_str().to_owned(), entry.count))
                .collect(),
            oldest_unanswered_at: oldest.map(Time::from),
            oldest_unanswered_ms: oldest.map(|at| now.since_ms(at).max(0)),
            suspects: figures.suspects,
            acks_owed: 0,
            replies_retried: figures.replies_retried,
            requests_waiting: figures.requests_waiting,
            ledger_bytes,
            nodes: None,
            lent: Vec::new(),
            quotas: None,
        }
    }
}

/// A day in milliseconds.
const DAY_MS: i64 = 24 * 3_600_000;

/// Messages by state, and the figures of the last day.
pub(super) async fn counts<D: BridgeService>(
    service: &D,
    now: Timestamp,
) -> Result<(Vec<StateCount>, Figures), LedgerError> {
    let since = now.plus_ms(-DAY_MS);
    let read = service.read(move |rows| Ok((rows.counts()?, rows.figures(since)?)));
    read.await
}

pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Public, so it says nothing more than whether.
pub(super) async fn readyz<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
) -> Result<&'static str, ProblemResponse> {
    if service.health().await.ready {
        Ok("ready\n")
    } else {
        Err(ProblemResponse::unavailable(
            "not ready: `codex-bridge status` says why",
        ))
    }
}

pub(super) async fn status<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
) -> Result<Json<StatusView>, ProblemResponse> {
    let now = service.now();
    let read = counts(&service, now).await;
    let health = service.health().await;
    // A damaged ledger may have no counts; the status must still report the damage.
    let (counts, figures) = match read {
        Err(_) if !health.ready => Default::default(),
        read => read?,
    };
    let nodes = match present(&service, now).await {
        Err(_) if !health.ready => None,
        read => read?,
    };
    let lent = match service.read(move |rows| lent(rows, now)).await {
        Err(_) if !health.ready => Vec::new(),
        read => read?,
    };
    let quotas = match quotas(&service).await {
        Err(_) if !health.ready => None,
        read => read?,
    };
    let bytes = service.ledger_bytes();
    let status = StatusView::new(health, &counts, figures, bytes, now);
    Ok(Json(StatusView {
        nodes,
        lent,
        quotas,
        ..status
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_counts_every_message_once() {
        let counts: Vec<StateCount> = StateName::ALL
            .into_iter()
            .map(|state| StateCount { state, count: 10 })
            .collect();
        let figures = Figures {
            operator: 3,
            answered: 4,
            ..Figures::default()
        };
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
        } = SummaryView::new(&counts, &figures);
        let all =
            waiting + working + unclear + waiting_for_you + sending + answered + dead + cancelled;
        let states = u64::try_from(StateName::ALL.len()).unwrap();
        assert_eq!(all, 10 * states);
        assert_eq!((waiting, waiting_for_you, answered_24h), (7, 13, 4));
    }
}
