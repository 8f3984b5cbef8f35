//! The keys of `codex exec`: which channels and conversations run over it, and for how long a run may take.

use super::keys::{Config, DAY_SECS};
use super::molecule::ViaKey;
use crate::daemon::ExecSettings;
use bridge_channel::loopback;
use bridge_core::value::ChannelId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Turns over `codex exec`: a process for every turn. It can't be steered, asks nobody and is stopped by its end; what
/// leaves the sandbox fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ExecConfig {
    /// Conversations that run over `codex exec`, by their key, on any channel. A `*` at the end stands for whatever
    /// follows. A channel as a whole has a key `transport`.
    pub(crate) conversations: Vec<String>,
    /// How long one run may take, in seconds, before it is ended with everything it started.
    #[schemars(range(min = 1, max = DAY_SECS))]
    pub(crate) timeout_secs: u64,
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
    /// What runs over `codex exec`, but for the workspaces of a platform: those are known later.
    pub(crate) fn exec_settings(&self) -> ExecSettings {
        let loopback = match self.loopback.transport {
            ViaKey::AppServer => None,
            ViaKey::Exec => Some(ChannelId::new(loopback::CHANNEL)),
        };
        ExecSettings {
            timeout: Duration::from_secs(self.exec.timeout_secs),
            channels: loopback.into_iter().collect(),
            conversations: self.exec.conversations.clone(),
        }
    }

    /// Whether anything runs over `codex exec`.
    pub(super) fn uses_exec(&self) -> bool {
        let molecule = &self.molecule;
        let workspaces = molecule.workspace.iter().filter_map(|keys| keys.transport);
        let channels = [self.loopback.transport, molecule.transport];
        let exec = |via: ViaKey| via == ViaKey::Exec;
        !self.exec.conversations.is_empty() || channels.into_iter().chain(workspaces).any(exec)
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
