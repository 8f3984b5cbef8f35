//! Budgets of senders: how many turns and tokens one may use within a day. Pure; what was used is in the rows of turns,
//! and who waits for a budget is decided by `step::claim`.

use crate::limits;
use crate::value::{ChannelId, Message, Tier, Timestamp};

/// What one sender may use within a day; what is absent is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DayBudget {
    /// Turns that may begin.
    pub turns: Option<u64>,
    /// Tokens that may be used. A turn is never cut for it: it is looked at before the next one begins.
    pub tokens: Option<u64>,
    /// Bytes that may be stored: see [`crate::storage`]. They are looked at when a message comes, not before a turn.
    pub bytes: Option<u64>,
}

impl DayBudget {
    /// Whether anything is counted before a turn.
    #[must_use]
    pub fn counts(self) -> bool {
        self.turns.is_some() || self.tokens.is_some()
    }

    /// For people: what may be used.
    #[must_use]
    pub fn words(self) -> String {
        match (self.turns, self.tokens) {
            (Some(turns), Some(tokens)) => format!("{turns} turns and {tokens} tokens a day"),
            (Some(turns), None) => format!("{turns} turns a day"),
            (None, Some(tokens)) => format!("{tokens} tokens a day"),
            (None, None) => "no budget".to_owned(),
        }
    }
}

/// How an account's rate limit is shared out. By default it is not looked at before it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaRules {
    /// So much of each window is kept for people.
    pub reserve_percent: u32,
    /// From here on agents and programs take turns one at a time, spread up to the reset.
    pub slow_percent: u32,
    /// The account of the default CODEX_HOME; daemons that name the same one share its limit.
    pub account: Option<String>,
}

impl Default for QuotaRules {
    fn default() -> Self {
        Self {
            reserve_percent: 0,
            slow_percent: 100,
            account: None,
        }
    }
}

/// Who has which budget. A sender's own goes before that of the tier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budgets {
    /// Of each sender of a tier.
    pub tiers: Vec<(Tier, DayBudget)>,
    /// Of senders by name.
    pub senders: Vec<(ChannelId, String, DayBudget)>,
    /// What all of them share.
    pub quota: QuotaRules,
}

impl Budgets {
    /// What the sender of a message may use, if that is counted.
    #[must_use]
    pub fn of(&self, message: &Message) -> Option<DayBudget> {
        self.of_sender(&message.channel, &message.sender, message.tier)
            .filter(|budget| budget.counts())
    }

    /// What a sender may use.
    #[must_use]
    pub fn of_sender(&self, channel: &ChannelId, sender: &str, tier: Tier) -> Option<DayBudget> {
        let own = self
            .senders
            .iter()
            .find(|(on, name, _)| on == channel && name == sender);
        let of_tier = self.tiers.iter().find(|(of, _)| *of == tier);
        let own = own.map(|(_, _, budget)| *budget);
        own.or(of_tier.map(|(_, budget)| *budget))
    }
}

/// Counts what was used, newest first, until a budget is reached.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    budget: DayBudget,
    turns: u64,
    tokens: u64,
}

impl Meter {
    /// Nothing is counted yet.
    #[must_use]
    pub fn new(budget: DayBudget) -> Self {
        Self {
            budget,
            turns: 0,
            tokens: 0,
        }
    }

    /// Counts one turn. When the budget is reached with it, this is the turn that must be a day old before there is
    /// room again.
    pub fn add(&mut self, at: Timestamp, tokens: u64) -> Option<Timestamp> {
        self.turns = self.turns.saturating_add(1);
        self.tokens = self.tokens.saturating_add(tokens);
        let turns = self.budget.turns.is_some_and(|max| self.turns >= max);
        let tokens = self.budget.tokens.is_some_and(|max| self.tokens >= max);
        (turns || tokens).then_some(at)
    }
}

/// What is older than this is not counted any more.
#[must_use]
pub fn since(now: Timestamp) -> Timestamp {
    now.plus_ms(-limits::BUDGET_WINDOW_MS)
}

/// When a turn is not counted any more.
#[must_use]
pub fn forgotten(at: Timestamp) -> Timestamp {
    at.plus_ms(limits::BUDGET_WINDOW_MS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::MessageState;

    fn reached(turns: Option<u64>, tokens: Option<u64>, used: &[(i64, u64)]) -> Option<i64> {
        let mut meter = Meter::new(DayBudget {
            turns,
            tokens,
            bytes: None,
        });
        let mut used = used.iter();
        used.find_map(|(at, tokens)| meter.add(Timestamp(*at), *tokens))
            .map(|at| at.0)
    }

    #[test]
    fn budget_frees_when_blocking_turn_expires() {
        let used = [(90, 10), (70, 500), (50, 10), (30, 1000)];
        for (turns, tokens, at) in [
            (Some(5), None, None),
            (Some(4), None, Some(30)),
            (Some(2), None, Some(70)),
            (None, Some(10), Some(90)),
            (None, Some(511), Some(50)),
            (None, Some(1521), None),
            // Both must have room: the newer of the two is waited for.
            (Some(3), Some(500), Some(70)),
            (Some(1), Some(1000), Some(90)),
            (None, None, None),
        ] {
            assert_eq!(reached(turns, tokens, &used), at, "{turns:?} {tokens:?}");
        }
        assert_eq!(reached(None, Some(9), &[(3, u64::MAX), (2, 1)]), Some(3));
    }

    #[test]
    fn sender_budget_overrides_tier_budget() {
        let waits = MessageState::Received { hold: None };
        let mut message = crate::fixture::message(waits, |_| {});
        let turns = |turns| DayBudget {
            turns: Some(turns),
            ..DayBudget::default()
        };
        let mut budgets = Budgets::default();
        assert_eq!(budgets.of(&message), None);
        budgets.tiers.push((message.tier, turns(5)));
        assert_eq!(budgets.of(&message), Some(turns(5)));
        let own = |budget| (message.channel.clone(), message.sender.clone(), budget);
        budgets.senders.push(own(turns(9)));
        assert_eq!(budgets.of(&message), Some(turns(9)));
        budgets.senders = vec![own(DayBudget::default())];
        assert_eq!(budgets.of(&message), None, "it has none, whatever its tier");
        message.sender = "somebody else".to_owned();
        assert_eq!(budgets.of(&message), Some(turns(5)));
    }
}
