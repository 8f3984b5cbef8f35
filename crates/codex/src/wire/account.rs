//! Login state and login by API key.
//!
//! The key itself never shows in a debug print. Where a key comes from belongs to the caller.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A value that must not be printed. It is written to Codex and nowhere else.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
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
    pub email: Option<String>,
    pub plan_type: Option<String>,
}

/// The only login we do ourselves; the others need a browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum LoginStartParams {
    ApiKey { api_key: Secret },
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct LoginStartResponse {
    pub r#type: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_written_but_never_printed() {
        let params = LoginStartParams::ApiKey {
            api_key: Secret::new("sk-very-secret"),
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
}
