//! Limits of the accounts that Codex is logged in with, as `status` and the metrics show them.

use crate::{BridgeService, Time};
use bridge_core::port::{CapacityWaiters, LedgerError, Read, RowsError};
use bridge_core::quota::{QuotaGate, report_of};
use bridge_core::step::Claim;
use bridge_core::value::{Quota, QuotaWindow, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Limits of accounts, and who waits for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuotasView {
    /// By node and CODEX_HOME; those that Codex reported a limit of.
    pub accounts: Vec<QuotaView>,
    /// People's messages that wait until an account has room, or a budget.
    pub people_waiting: u64,
    /// The same of agents and programs.
    pub agents_waiting: u64,
}

/// The limit of one account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuotaView {
    /// The node whose Codex reported it, where several daemons share one database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// CODEX_HOME; absent for the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codex_home: Option<String>,
    /// The account's name, from the configuration or made from Codex's login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// `free`, `slowed` (agents take turns one at a time), `reserved` (people alone) or `reached` (everybody waits).
    pub state: String,
    /// Why, as a sentence for people; absent while it is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Until when that is so, or when the next agent may begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// Its windows that have not passed.
    pub windows: Vec<QuotaWindowView>,
    pub reported_at: Time,
}

/// One window of a limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuotaWindowView {
    /// `primary` or `secondary`, as Codex calls them.
    pub name: String,
    pub used_percent: u32,
    /// Its length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minutes: Option<u32>,
    pub resets_at: Time,
}

impl QuotaView {
    fn new(quota: &Quota, counts: &Quota, claim: &Claim) -> Self {
        let gate = QuotaGate::of(counts, &claim.budgets.quota, claim.now);
        let waits = [
            ("reached", gate.all),
            ("reserved", gate.agents),
            ("slowed", gate.slowed),
        ];
        let found = waits
            .into_iter()
            .find_map(|(state, wait)| Some((state, wait?)));
        let windows = [
            ("primary", counts.report.primary),
            ("secondary", counts.report.secondary),
        ];
        let windows = windows.into_iter().filter_map(|(name, window)| {
            let QuotaWindow {
                used_percent,
                minutes,
                resets_at,
            } = window?;
            let resets_at = resets_at.filter(|at| *at > claim.now)?;
            Some(QuotaWindowView {
                name: name.to_owned(),
                used_percent,
                minutes,
                resets_at: resets_at.into(),
            })
        });
        Self {
            node: quota.source.node_id.as_ref().map(ToString::to_string),
            codex_home: quota.source.codex_home.clone(),
            account: quota.report.account.clone(),
            state: found.map_or("free", |(state, _)| state).to_owned(),
            detail: found.map(|(_, wait)| wait.words()),
            until: found.map(|(_, wait)| wait.until.into()),
            windows: windows.collect(),
            reported_at: counts.reported_at.into(),
        }
    }
}

/// What there is to show; nothing where Codex reported no limit.
pub(super) async fn quotas<D: BridgeService>(
    service: &D,
) -> Result<Option<QuotasView>, LedgerError> {
    let claim = service.claim();
    service.read(move |rows| load(rows, &claim)).await
}

fn load(rows: &dyn Read, claim: &Claim) -> Result<Option<QuotasView>, RowsError> {
    let quotas = rows.quotas()?;
    if quotas.is_empty() {
        return Ok(None);
    }
    let rules = &claim.budgets.quota;
    let this = rows.this_node();
    let accounts = quotas.iter().map(|quota| {
        // What this daemon's configuration names holds for this node alone.
        let counts = match quota.source.node_id == this {
            true => report_of(&quotas, &quota.source, rules).unwrap_or(quota),
            false => quota,
        };
        QuotaView::new(quota, counts, claim)
    });
    let accounts = accounts.collect();
    let CapacityWaiters { people, agents } = rows.capacity_waiters(claim.now)?;
    Ok(Some(QuotasView {
        accounts,
        people_waiting: people,
        agents_waiting: agents,
    }))
}

/// Of the account of this daemon's default CODEX_HOME: its windows with what is used in percent and the seconds to the
/// reset.
pub(super) fn own_windows(
    shown: &QuotasView,
    node: Option<&str>,
    now: Timestamp,
) -> Vec<(String, u64, u64)> {
    let own = shown
        .accounts
        .iter()
        .find(|it| it.codex_home.is_none() && it.node.as_deref() == node);
    let windows = own.map(|own| own.windows.as_slice()).unwrap_or_default();
    windows
        .iter()
        .map(|window| {
            let left = window.resets_at.since_ms(now.into()).max(0) / 1000;
            let left = u64::try_from(left).unwrap_or_default();
            (window.name.clone(), u64::from(window.used_percent), left)
        })
        .collect()
}
