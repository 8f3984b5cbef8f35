//! The keys of `codex exec`: which channels and conversations run over it, and for how long a run may take.

use super::keys::{Config, DAY_SECS};
use bridge_core::port::TurnTransport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Turns over `codex exec`: a process for every turn. It can't be steered, asks nobody and is stopped by its end; what
/// leaves the sandbox fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExecConfig {
    /// Conversations that run over `codex exec`, by their key, on any channel. A `*` at the end stands for whatever
    /// follows. A channel as a whole has a key `transport`.
    pub conversations: Vec<String>,
    /// How long one run may take, in seconds, before it is ended with everything it started.
    #[schemars(range(min = 1, max = DAY_SECS))]
    pub timeout_secs: u64,
}

impl Default for ExecConfig {
    fn default() -> Self {
        Self {
            conversations: Vec::new(),
            timeout_secs: 600,
        }
    }
}

impl Config {
    /// Channels that run over `codex exec` as a whole; Molecule's workspaces are resolved one by one.
    pub(crate) fn exec_channels(&self) -> Vec<String> {
        let loopback = self.loopback.transport == TurnTransport::Exec;
        loopback
            .then(|| "loopback".to_owned())
            .into_iter()
            .collect()
    }

    /// Whether anything runs over `codex exec`.
    pub(super) fn uses_exec(&self) -> bool {
        !self.exec_channels().is_empty()
            || !self.exec.conversations.is_empty()
            || self.molecule.uses_exec()
    }
}

impl ExecConfig {
    /// What is wrong with the values.
    pub(super) fn problem(&self) -> Option<String> {
        let empty = self.conversations.iter().any(|key| key.is_empty());
        empty.then(|| {
            "holds an empty key; write the key of a conversation, or `*` for all".to_owned()
        })
    }
}
