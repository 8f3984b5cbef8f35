//! The account: login state, login by API key, rate limits and token counts.
//!
//! The key itself never shows in a debug print. Where a key comes from belongs to the caller.

use serde::{Deserialize, Serialize};
use std::fmt;

/// An API key. It is written to Codex and never printed.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ApiKey(String);

impl ApiKey {
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(***)")
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountReadParams {
    /// Ask the provider for a fresh token; a local look is enough for us.
    pub refresh_token: bool,
}

/// `account` absent and `requires_openai_auth` true: every turn would fail for want of a login.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountReadResponse {
    pub account: Option<Account>,
    pub requires_openai_auth: bool,
}

impl AccountReadResponse {
    pub fn is_login_missing(&self) -> bool {
        self.account.is_none() && self.requires_openai_auth
    }
}

/// Who is logged in.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Account {
    /// `apiKey`, `chatgpt`, …
    pub r#type: String,
    pub plan_type: Option<String>,
    /// Of a ChatGPT login, where the provider says it.
    pub email: Option<String>,
}

/// The type of an account that is an API key: it has no windows.
pub const API_KEY_ACCOUNT: &str = "apiKey";

/// The only login we do ourselves; the others need a browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum LoginStartParams {
    ApiKey { api_key: ApiKey },
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct LoginStartResponse {
    pub r#type: String,
}

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

/// The account's limits as of the last model call. An update is sparse: what it does not name stays as it was.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RateLimits {
    /// Which of the account's limits: some models have one of their own.
    pub limit_id: Option<String>,
    pub credits: Option<Credits>,
    pub primary: Option<RateLimitWindow>,
    pub secondary: Option<RateLimitWindow>,
}

/// What pays for turns beyond the windows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Credits {
    pub has_credits: bool,
    pub unlimited: bool,
}

/// The name of the limit that all models share but those with one of their own.
const SHARED_LIMIT: &str = "codex";

impl RateLimits {
    /// Whether it is the limit that all models share.
    pub fn is_shared(&self) -> bool {
        self.limit_id.as_deref().is_none_or(|id| id == SHARED_LIMIT)
    }

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
    pub window_duration_mins: Option<i64>,
    /// Unix seconds.
    pub resets_at: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_key_is_written_but_never_printed() {
        let params = LoginStartParams::ApiKey {
            api_key: ApiKey::new("sk-very-secret"),
        };
        assert!(!format!("{params:?}").contains("sk-"));
        assert_eq!(
            serde_json::to_string(&params).unwrap(),
            r#"{"type":"apiKey","apiKey":"sk-very-secret"}"#
        );
    }

    #[test]
    fn a_custom_provider_needs_no_login() {
        let read = |text| serde_json::from_str::<AccountReadResponse>(text).unwrap();
        assert!(read(r#"{"account":null,"requiresOpenaiAuth":true}"#).is_login_missing());
        assert!(!read(r#"{"account":null,"requiresOpenaiAuth":false}"#).is_login_missing());
        assert!(
            !read(r#"{"account":{"type":"apiKey"},"requiresOpenaiAuth":true}"#).is_login_missing()
        );
    }

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
