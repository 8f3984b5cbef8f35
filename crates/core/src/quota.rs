//! An account's rate limit as a resource: who may begin a turn, given what Codex reported of it. Pure; the reports are
//! rows (`step::NoteQuota`), and `step::Claim` asks here.
//!
//! A report that is missing, whose window has passed or whose reset is not believable limits nobody.

use crate::budget::QuotaRules;
use crate::channels::token_of;
use crate::limits::{QUOTA_RESET_JITTER_MS, QUOTA_WINDOW_MAX_MS};
use crate::port::{Flight, is_among};
use crate::value::{
    ChannelId, Class, Failure, Message, NodeId, Quota, QuotaReport, QuotaSource, QuotaWindow,
    SenderKind, SlowedSince, Tier, Timestamp,
};

/// A limit that is used up.
const FULL_PERCENT: u32 = 100;

/// Whether a person waits for the answer: not an agent, and not a program with a token.
#[must_use]
pub fn is_person(
    owners: &[(ChannelId, String)],
    kind: SenderKind,
    tier: Tier,
    channel: &ChannelId,
    sender: &str,
) -> bool {
    kind == SenderKind::Person
        && (tier == Tier::Owner
            || is_among(owners, channel, sender)
            || token_of(channel, sender).is_none())
}

/// Why somebody waits for an account's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaCause {
    /// It is used up: everybody waits.
    Reached,
    /// What is left is kept for people.
    Reserved,
    /// Agents take turns one at a time, spread up to the reset.
    Slowed,
}

/// A wait for an account's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaWait {
    pub cause: QuotaCause,
    /// The window that is waited for; absent when the provider refused a turn and named none.
    pub window: Option<QuotaWindow>,
    /// When it is over, or the next agent may begin.
    pub until: Timestamp,
}

impl QuotaWait {
    /// For people: what is waited for.
    #[must_use]
    pub fn words(&self) -> String {
        let name = self.window.map_or_else(String::new, |window| window.name());
        let used = self.window.map_or(FULL_PERCENT, |it| it.used_percent);
        let left = FULL_PERCENT.saturating_sub(used);
        match self.cause {
            QuotaCause::Reached => format!(
                "the account's usage limit is reached ({}it resets at {})",
                match name.as_str() {
                    "" => String::new(),
                    name => format!("all of the {name}limit is used; "),
                },
                self.until.utc()
            ),
            QuotaCause::Reserved => format!(
                "{left} % of the account's {name}limit are left and kept for people (`quota.reserve_percent`); it resets at {}",
                self.until.utc()
            ),
            QuotaCause::Slowed => format!(
                "{used} % of the account's {name}limit are used, so agents and programs take turns one at a time, spread up to the reset (`quota.slow_percent`)"
            ),
        }
    }

    /// The same as the reason of a hold.
    #[must_use]
    pub fn failure(&self) -> Failure {
        let class = Class::Capacity {
            until: Some(self.until),
        };
        Failure::new(class, self.words())
    }
}

/// Who waits for one account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaGate {
    /// Everybody waits.
    pub all: Option<QuotaWait>,
    /// Agents and programs wait; people do not.
    pub agents: Option<QuotaWait>,
    /// They take turns one at a time, the next at that time.
    pub slowed: Option<QuotaWait>,
}

impl QuotaGate {
    /// What one report says at `now`.
    #[must_use]
    pub fn of(quota: &Quota, rules: &QuotaRules, now: Timestamp) -> Self {
        let mut gate = Self::default();
        let kept_from = FULL_PERCENT.saturating_sub(rules.reserve_percent);
        for (window, slowed) in quota.windows() {
            let Some(resets_at) = reset_of(&window, quota.reported_at, now) else {
                continue;
            };
            let wait = |cause, until| {
                Some(QuotaWait {
                    cause,
                    window: Some(window),
                    until,
                })
            };
            let used = window.used_percent;
            if used >= FULL_PERCENT && !quota.report.has_credits {
                gate.all = later(gate.all, wait(QuotaCause::Reached, resets_at));
            } else if used >= kept_from && rules.reserve_percent > 0 {
                gate.agents = later(gate.agents, wait(QuotaCause::Reserved, resets_at));
            } else if used >= rules.slow_percent && used < kept_from {
                let since = slowed.unwrap_or(SlowedSince {
                    at: quota.reported_at,
                    used_percent: used,
                });
                let next = next_turn(since, used, kept_from, resets_at);
                gate.slowed = later(gate.slowed, wait(QuotaCause::Slowed, next));
            }
        }
        let refused = quota.report.refused_until.filter(|until| *until > now);
        if let Some(until) = refused {
            let wait = QuotaWait {
                cause: QuotaCause::Reached,
                window: None,
                until,
            };
            gate.all = later(gate.all, Some(wait));
        }
        gate
    }

    /// What keeps a sender from beginning, for as long as it says.
    #[must_use]
    pub fn holds(&self, is_person: bool) -> Option<QuotaWait> {
        match is_person {
            true => self.all,
            false => later(self.all, self.agents),
        }
    }

    /// Whether this one lets somebody begin whom `before` let wait.
    fn opens(&self, before: &Self) -> bool {
        [true, false]
            .into_iter()
            .any(|person| match (self.holds(person), before.holds(person)) {
                (now, Some(was)) => now.is_none_or(|now| now.until < was.until),
                (_, None) => false,
            })
    }
}

fn later(one: Option<QuotaWait>, other: Option<QuotaWait>) -> Option<QuotaWait> {
    match (one, other) {
        (Some(one), Some(other)) if other.until > one.until => Some(other),
        (Some(one), _) => Some(one),
        (None, other) => other,
    }
}

/// When a window resets, if that is still to come and can be believed.
fn reset_of(window: &QuotaWindow, reported_at: Timestamp, now: Timestamp) -> Option<Timestamp> {
    window
        .resets_at
        .filter(|at| *at > now && at.since_ms(reported_at) <= QUOTA_WINDOW_MAX_MS)
}

/// When the next agent may begin: each percent that was left when slowing began gets the same part of the time up to
/// the reset. What people use of it makes agents wait longer, and what nobody used is caught up.
fn next_turn(since: SlowedSince, used: u32, end: u32, resets_at: Timestamp) -> Timestamp {
    let steps = i64::from(end.saturating_sub(since.used_percent).max(1));
    let taken = i64::from(used.saturating_sub(since.used_percent));
    let time = resets_at.since_ms(since.at).max(0);
    let waited = time.saturating_mul(taken).checked_div(steps).unwrap_or(0);
    since.at.plus_ms(waited).min(resets_at)
}

/// Where agents begin to be slowed down in a window, which is the same one while its reset stays.
#[must_use]
pub fn slowed_since(
    new: Option<QuotaWindow>,
    old: Option<QuotaWindow>,
    slowed: Option<SlowedSince>,
    rules: &QuotaRules,
    now: Timestamp,
) -> Option<SlowedSince> {
    let new = new.filter(|window| window.used_percent >= rules.slow_percent)?;
    let kept = slowed.filter(|since| {
        since.used_percent <= new.used_percent
            && old.is_some_and(|old| same_reset(old.resets_at, new.resets_at))
    });
    Some(kept.unwrap_or(SlowedSince {
        at: now,
        used_percent: new.used_percent,
    }))
}

/// Providers count the reset from the call, so it moves by seconds from report to report.
fn same_reset(one: Option<Timestamp>, other: Option<Timestamp>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.since_ms(other).abs() <= QUOTA_RESET_JITTER_MS,
        (one, other) => one == other,
    }
}

/// Whether a report says nothing new that is worth a commit.
#[must_use]
pub fn is_known(new: &QuotaReport, old: &QuotaReport) -> bool {
    let same = |new: Option<QuotaWindow>, old: Option<QuotaWindow>| match (new, old) {
        (Some(new), Some(old)) => {
            (new.used_percent, new.minutes) == (old.used_percent, old.minutes)
                && same_reset(new.resets_at, old.resets_at)
        }
        (new, old) => new == old,
    };
    same(new.primary, old.primary)
        && same(new.secondary, old.secondary)
        && new.account == old.account
        && new.has_credits == old.has_credits
        && new.refused_until == old.refused_until
}

/// Whether somebody who waits for `old` may begin now that `new` is known.
#[must_use]
pub fn opens(new: &Quota, old: &Quota, rules: &QuotaRules, now: Timestamp) -> bool {
    QuotaGate::of(new, rules, now).opens(&QuotaGate::of(old, rules, now))
}

/// The report that counts for a source: the newest one of its account, on whichever node it was made.
#[must_use]
pub fn report_of<'q>(
    quotas: &'q [Quota],
    source: &QuotaSource,
    rules: &QuotaRules,
) -> Option<&'q Quota> {
    let own = quotas.iter().find(|quota| quota.source == *source);
    let named = rules
        .account
        .as_ref()
        .filter(|_| source.codex_home.is_none());
    let account = named.or(own.and_then(|own| own.report.account.as_ref()));
    quotas
        .iter()
        .filter(|quota| {
            quota.source == *source || account.is_some() && quota.report.account.as_ref() == account
        })
        .max_by_key(|quota| quota.reported_at)
}

/// The gates of all CODEX_HOMEs of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaGates(Vec<HomeGate>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct HomeGate {
    codex_home: Option<String>,
    gate: QuotaGate,
    /// Nodes whose turns use the same account.
    nodes: Vec<Option<NodeId>>,
}

impl QuotaGates {
    /// As they are at `now`. A home that nothing was reported of has none.
    #[must_use]
    pub fn of(quotas: &[Quota], node: Option<&NodeId>, rules: &QuotaRules, now: Timestamp) -> Self {
        if quotas.is_empty() {
            return Self::default();
        }
        let own = quotas.iter().map(|quota| &quota.source);
        let own = own.filter(|source| source.node_id.as_ref() == node);
        let mut homes: Vec<Option<String>> = own.map(|it| it.codex_home.clone()).collect();
        if !homes.contains(&None) {
            homes.push(None);
        }
        let gates = homes.into_iter().filter_map(|codex_home| {
            let source = QuotaSource {
                node_id: node.cloned(),
                codex_home,
            };
            let report = report_of(quotas, &source, rules)?;
            let account = report.report.account.as_ref();
            let sharing = quotas
                .iter()
                .filter(|quota| account.is_some() && quota.report.account.as_ref() == account);
            let mut nodes: Vec<_> = sharing.map(|quota| quota.source.node_id.clone()).collect();
            nodes.push(source.node_id);
            Some(HomeGate {
                codex_home: source.codex_home,
                gate: QuotaGate::of(report, rules, now),
                nodes,
            })
        });
        Self(gates.collect())
    }

    /// The gate of one home.
    #[must_use]
    pub fn home(&self, codex_home: Option<&str>) -> QuotaGate {
        let found = self
            .0
            .iter()
            .find(|it| it.codex_home.as_deref() == codex_home);
        found.map(|it| it.gate).unwrap_or_default()
    }

    /// What a message waits for, if it waits for its account.
    #[must_use]
    pub fn holds(
        &self,
        message: &Message,
        codex_home: Option<&str>,
        owners: &[(ChannelId, String)],
    ) -> Option<QuotaWait> {
        self.home(codex_home).holds(of_person(message, owners))
    }

    /// Homes in which no agent may begin just now: another one is at work, or the time of the next has not come. The
    /// default one is the empty text.
    #[must_use]
    pub fn busy_homes(
        &self,
        flight: &[Flight],
        owners: &[(ChannelId, String)],
        now: Timestamp,
    ) -> Vec<String> {
        let works = |nodes: &[Option<NodeId>]| {
            flight.iter().any(|it| {
                it.turns > it.waiting
                    && nodes.contains(&it.node)
                    && !is_person(owners, it.kind, it.tier, &it.channel, &it.sender)
            })
        };
        let slowed = self.0.iter().filter_map(|it| Some((it, it.gate.slowed?)));
        slowed
            .filter(|(it, wait)| wait.until > now || works(&it.nodes))
            .map(|(it, _)| it.codex_home.clone().unwrap_or_default())
            .collect()
    }

    /// When the next agent may begin where they are slowed down.
    #[must_use]
    pub fn next_due(&self, now: Timestamp) -> Option<Timestamp> {
        let slowed = self.0.iter().filter_map(|it| it.gate.slowed);
        slowed.map(|wait| wait.until).filter(|at| *at > now).min()
    }
}

/// Whether a person waits for the answer to a message.
#[must_use]
pub fn of_person(message: &Message, owners: &[(ChannelId, String)]) -> bool {
    let Message {
        kind,
        tier,
        channel,
        sender,
        ..
    } = message;
    is_person(owners, *kind, *tier, channel, sender)
}

#[cfg(test)]
mod tests;
