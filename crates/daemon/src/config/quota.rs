//! `[quota]`: how an account's rate limit is shared out between people and agents.

use bridge_core::budget::QuotaRules;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Most that can be kept for people: agents must get on too.
const RESERVE_MAX_PERCENT: u32 = 90;
/// Slowing earlier would slow agents always.
const SLOW_MIN_PERCENT: u32 = 10;

/// How the account's rate limits, as Codex reports them, are shared out. People are the owner, members of the group and
/// people of a platform; agents and programs with a token are not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct QuotaConfig {
    /// So much of each window is kept for people: agents and programs wait for the reset when no more is left. 0 keeps
    /// nothing.
    #[schemars(range(min = 0, max = RESERVE_MAX_PERCENT))]
    pub reserve_percent: u32,
    /// From this use of a window on agents and programs take turns one at a time, spread up to the reset. 100 slows nobody.
    #[schemars(range(min = SLOW_MIN_PERCENT, max = 100))]
    pub slow_percent: u32,
    /// A name for the account of the default CODEX_HOME. Daemons of a fleet that give the same name share its limit.
    /// Without it Codex's own login tells accounts apart, where it says whose it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 64))]
    pub account: Option<String>,
    /// One of `codex.homes`, which has a login of its own: a task that names no home and would have to wait for the
    /// default account's limit is begun there, unless that one has no room either. A thread stays where it began, so
    /// conversations and tasks that run wait all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PathBuf", length(min = 1))]
    pub fallback_home: Option<PathBuf>,
}

impl Default for QuotaConfig {
    fn default() -> Self {
        Self {
            reserve_percent: 10,
            slow_percent: 70,
            account: None,
            fallback_home: None,
        }
    }
}

impl QuotaConfig {
    pub(super) fn rules(&self) -> QuotaRules {
        QuotaRules {
            reserve_percent: self.reserve_percent,
            slow_percent: self.slow_percent,
            account: self.account.clone(),
        }
    }
}
