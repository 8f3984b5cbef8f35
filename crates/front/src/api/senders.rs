//! Channels and senders: how each channel is, who wrote lately with which rights, and what they used of their budgets.

use super::{Context, ProblemResponse};
use crate::{BridgeService, ChannelView, Time};
use axum::Json;
use axum::extract::State;
use bridge_core::budget::{self, Budgets, DayBudget};
use bridge_core::port::{Read, RecentSender, RowsError};
use bridge_core::value::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Most senders that are shown: each costs a look at its turns of a day.
const SENDERS_MAX: usize = 200;
const SENDERS_CHUNK: usize = 20;

/// Answer to `GET /v1/channels`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ChannelList {
    /// By name.
    pub channels: Vec<ChannelEntry>,
}

/// A channel, how it is and what came over it in the last 24 hours.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ChannelEntry {
    pub channel: String,
    /// `starting`, `receiving`, `retrying` (the platform is away) or `parked` (a person must do something, such as a new
    /// token); absent for those that the daemon serves itself.
    pub state: Option<String>,
    /// Why, as a sentence for people.
    pub detail: Option<String>,
    /// Since when.
    pub since: Option<Time>,
    /// Messages of the last 24 hours, among the newest 10,000 of all channels.
    pub messages: u64,
    /// When the newest of them came.
    pub newest_at: Option<Time>,
}

/// Answer to `GET /v1/senders`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SenderList {
    /// Since when it is counted: 24 hours.
    pub since: Time,
    /// Who wrote since then, newest first, at most 200.
    pub senders: Vec<SenderView>,
    /// How many more there are.
    pub left: u32,
}

/// Somebody who wrote.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SenderView {
    pub channel: String,
    /// By the channel's authenticated name.
    pub sender: String,
    /// What their turns may do: `owner`, `peer` or `tool`.
    pub tier: String,
    /// Messages that came.
    pub messages: u64,
    /// When the newest of them came.
    pub newest_at: Time,
    /// What they may use within a day; absent where nothing is counted.
    pub budget: Option<BudgetView>,
    /// What they used. Bytes are counted where they have a budget.
    pub used: BudgetView,
    /// Until when they wait for their budget; absent while they do not.
    pub waits_until: Option<Time>,
}

/// Turns, tokens and stored bytes of a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BudgetView {
    pub turns: Option<u64>,
    pub tokens: Option<u64>,
    pub bytes: Option<u64>,
}

impl From<DayBudget> for BudgetView {
    fn from(budget: DayBudget) -> Self {
        Self {
            turns: budget.turns,
            tokens: budget.tokens,
            bytes: budget.bytes,
        }
    }
}

pub(super) async fn channels<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
) -> Result<Json<ChannelList>, ProblemResponse> {
    let since = budget::since(service.now());
    let recent = service.read(move |rows| rows.recent_senders(since)).await?;
    let health = service.health().await.channels;
    Ok(Json(ChannelList {
        channels: of_channels(health, recent),
    }))
}

fn of_channels(health: Vec<ChannelView>, recent: Vec<RecentSender>) -> Vec<ChannelEntry> {
    let mut channels: BTreeMap<String, ChannelEntry> = BTreeMap::new();
    let empty = |channel: &str| ChannelEntry {
        channel: channel.to_owned(),
        state: None,
        detail: None,
        since: None,
        messages: 0,
        newest_at: None,
    };
    for view in health {
        let entry = ChannelEntry {
            state: Some(view.state),
            detail: Some(view.detail),
            since: Some(view.since),
            ..empty(&view.channel)
        };
        channels.insert(view.channel, entry);
    }
    for one in recent {
        let name = one.channel.to_string();
        let known = channels.entry(name.clone()).or_insert_with(|| empty(&name));
        known.messages = known.messages.saturating_add(one.messages);
        known.newest_at = known.newest_at.max(Some(one.newest_at.into()));
    }
    channels.into_values().collect()
}

pub(super) async fn senders<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
) -> Result<Json<SenderList>, ProblemResponse> {
    let since = budget::since(service.now());
    let budgets = service.claim().budgets;
    let mut recent = service.read(move |rows| rows.recent_senders(since)).await?;
    recent.sort_by_key(|one| Reverse(one.newest_at));
    let left = recent.len().saturating_sub(SENDERS_MAX);
    recent.truncate(SENDERS_MAX);
    let mut senders = Vec::with_capacity(recent.len());
    // A few at a time: each may have had many turns, and others read meanwhile.
    for some in recent.chunks(SENDERS_CHUNK) {
        let (some, budgets) = (some.to_vec(), budgets.clone());
        let views = service.read(move |rows| -> Result<Vec<_>, RowsError> {
            let views = some.into_iter();
            views.map(|one| view(rows, &budgets, one, since)).collect()
        });
        senders.extend(views.await?);
    }
    Ok(Json(SenderList {
        since: since.into(),
        senders,
        left: u32::try_from(left).unwrap_or(u32::MAX),
    }))
}

fn view(
    rows: &dyn Read,
    budgets: &Budgets,
    one: RecentSender,
    since: Timestamp,
) -> Result<SenderView, RowsError> {
    let (channel, sender) = (&one.channel, one.sender.as_str());
    let budget = budgets.of_sender(channel, sender, one.tier);
    let used = rows.turns_used(channel, sender, since)?;
    let stored = rows.stored(channel, sender)?;
    let stored = stored.iter().filter(|hour| hour.hour > since);
    let bytes = stored.fold(0_u64, |sum, hour| sum.saturating_add(hour.bytes));
    let reached = match budget.filter(|budget| budget.counts()) {
        Some(budget) => rows.budget_reached(channel, sender, since, budget)?,
        None => None,
    };
    Ok(SenderView {
        channel: channel.to_string(),
        tier: one.tier.as_str().to_owned(),
        messages: one.messages,
        newest_at: one.newest_at.into(),
        budget: budget.map(BudgetView::from),
        used: BudgetView {
            turns: Some(used.turns),
            tokens: Some(used.tokens),
            bytes: budget.and_then(|budget| budget.bytes).map(|_| bytes),
        },
        waits_until: reached.map(|at| budget::forgotten(at).into()),
        sender: one.sender,
    })
}
