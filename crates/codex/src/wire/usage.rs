//! Token counts and rate limits, as Codex reports them.
//!
//! Budgets, and when a used-up account is tried again, are decided elsewhere.

use serde::Deserialize;

/// Token counts of one model call or of a whole thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TokenUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
}

impl TokenUsage {
    /// The difference between two readings of one counter.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_sub(earlier.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(earlier.output_tokens),
        }
    }
}

/// `total` counts the whole thread, `last` only the latest model call of the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadTokenUsage {
    pub total: TokenUsage,
    pub last: TokenUsage,
}

/// The account's limits as of the last model call.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RateLimits {
    pub limit_id: Option<String>,
    pub primary: Option<RateLimitWindow>,
    pub secondary: Option<RateLimitWindow>,
    /// Set when a limit is the reason why calls fail; Codex's word for which one.
    pub rate_limit_reached_type: Option<String>,
}

impl RateLimits {
    /// The latest reset (unix seconds) among the windows that are used up: when to try again.
    pub fn exhausted_until(&self) -> Option<i64> {
        [&self.primary, &self.secondary]
            .into_iter()
            .flatten()
            .filter(|window| window.used_percent >= 100)
            .filter_map(|window| window.resets_at)
            .max()
    }
}

/// One sliding window of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitWindow {
    pub used_percent: i64,
    /// Unix seconds.
    pub resets_at: Option<i64>,
    pub window_duration_mins: Option<i64>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn latest_exhausted_window_reset_counts() {
        let limits: RateLimits = serde_json::from_value(json!({
            "primary": {"usedPercent": 100, "resetsAt": 50, "windowDurationMins": 300},
            "secondary": {"usedPercent": 100, "resetsAt": 90, "windowDurationMins": null},
        }))
        .unwrap();
        assert_eq!(limits.exhausted_until(), Some(90));
        let limits: RateLimits = serde_json::from_value(json!({
            "primary": {"usedPercent": 99, "resetsAt": 50}, "secondary": null,
        }))
        .unwrap();
        assert_eq!(limits.exhausted_until(), None);
    }
}
