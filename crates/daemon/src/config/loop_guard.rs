//! The keys of `[loop_guard]`: how much agents may say.

use bridge_core::limits;
use bridge_core::step::LoopLimits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Each hop is a turn somewhere: more of them are a loop, not a conversation.
const HOPS_MAX: u32 = 100;
/// More messages of one agent within a day are a flood.
const PER_DAY_IN_ALL_MAX: u32 = 100_000;

/// How much agents may say before they are stopped or wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LoopGuardConfig {
    /// How many agents may answer each other in a row, where they count it.
    #[schemars(range(min = 1, max = HOPS_MAX))]
    pub hops: u32,
    /// How many messages one agent may send within ten minutes; over A2A in one context.
    #[schemars(range(min = 1, max = limits::PAGE_MAX))]
    pub messages_per_ten_minutes: u32,
    /// How many messages one agent may send within 24 hours; over A2A in one context.
    #[schemars(range(min = 1, max = limits::PAGE_MAX))]
    pub messages_per_day: u32,
    /// How many messages one agent may send over A2A within 24 hours in all its contexts together.
    #[schemars(range(min = 1, max = PER_DAY_IN_ALL_MAX))]
    pub messages_per_day_in_all: u32,
}

impl Default for LoopGuardConfig {
    fn default() -> Self {
        let limits = LoopLimits::default();
        Self {
            hops: limits.hops,
            messages_per_ten_minutes: limits.per_ten_minutes,
            messages_per_day: limits.per_day,
            messages_per_day_in_all: limits.per_day_in_all,
        }
    }
}

impl LoopGuardConfig {
    pub(crate) fn limits(&self) -> LoopLimits {
        LoopLimits {
            hops: self.hops,
            per_ten_minutes: self.messages_per_ten_minutes,
            per_day: self.messages_per_day,
            per_day_in_all: self.messages_per_day_in_all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::super::parse::read;
    use super::*;

    #[test]
    fn limits_are_what_the_file_says() {
        assert_eq!(Config::default().loop_guard.limits(), LoopLimits::default());
        let (config, _) = read("[loop_guard]\nhops = 2\nmessages_per_day = 50\n").unwrap();
        let limits = LoopLimits {
            hops: 2,
            per_day: 50,
            ..LoopLimits::default()
        };
        assert_eq!(config.loop_guard.limits(), limits);
        for wrong in ["hops = 0", "messages_per_day = 501"] {
            assert!(
                read(&format!("[loop_guard]\n{wrong}\n")).is_err(),
                "{wrong}"
            );
        }
    }
}
