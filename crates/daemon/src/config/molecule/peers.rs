//! The keys that give single agents of other workspaces another tier than that of peers.
//!
//! An agent is named by the id of its workspace, which the platform takes from the agent's token; nothing that it writes
//! names it. No key makes one an owner.

use super::super::error::ConfigProblem;
use super::super::load::ValueOrigins;
use bridge_channel::molecule::AgentTier;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use uuid::Uuid;

/// What is different for one agent of another workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MoleculePeerConfig {
    /// The id of its workspace.
    #[schemars(length(min = 1))]
    pub id: String,
    /// What its turns may do.
    pub tier: AgentTierKey,
    /// The workspace of ours that it writes to. Without it all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub workspace: Option<String>,
}

/// What an agent of another workspace may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AgentTierKey {
    /// What `[tiers.peer]` says.
    #[default]
    Peer,
    /// What `[tiers.tool]` says.
    Tool,
}

impl AgentTierKey {
    fn tier(self) -> AgentTier {
        match self {
            Self::Peer => AgentTier::Peer,
            Self::Tool => AgentTier::Tool,
        }
    }
}

/// The agents that write to one of our workspaces, as far as they are named. A table for that workspace goes before one
/// for all.
pub(super) fn of_workspace(
    peers: &[MoleculePeerConfig],
    workspace: &str,
) -> BTreeMap<String, AgentTier> {
    let mut found = BTreeMap::new();
    for whose in [None, Some(workspace)] {
        let named = |peer: &&MoleculePeerConfig| {
            peer.workspace.as_deref().and_then(read).as_deref() == whose
                && peer.workspace.is_some() == whose.is_some()
        };
        let pairs = peers.iter().filter(named);
        found.extend(pairs.filter_map(|peer| Some((read(&peer.id)?, peer.tier.tier()))));
    }
    found
}

/// What is wrong with the tables.
pub(super) fn problems(peers: &[MoleculePeerConfig], origins: &ValueOrigins) -> Vec<ConfigProblem> {
    let mut found = Vec::new();
    let mut seen = Vec::new();
    for (at, peer) in peers.iter().enumerate() {
        let mut say = |key: &str, what: String| {
            found.extend(origins.problem(&format!("molecule.peers.{at}.{key}"), what));
        };
        let id = read(&peer.id);
        if id.is_none() {
            say("id", no_uuid(&peer.id));
        }
        let workspace = peer.workspace.as_deref().map(read);
        if workspace == Some(None) {
            say(
                "workspace",
                no_uuid(peer.workspace.as_deref().unwrap_or_default()),
            );
        }
        let whose = (id, workspace.flatten());
        if seen.contains(&whose) {
            let what = format!(
                "is {:?}, as in another table before it; name it once",
                peer.id
            );
            say("id", what);
        }
        seen.push(whose);
    }
    found
}

fn no_uuid(id: &str) -> String {
    format!("is {id:?}, and no UUID; copy the workspace's id from the canvas")
}

/// The id as rows have it.
fn read(id: &str) -> Option<String> {
    let id = Uuid::parse_str(id.trim()).ok()?;
    Some(id.hyphenated().to_string())
}
