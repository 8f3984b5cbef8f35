//! The keys that say who counts as owner among those who are no workspaces.

use bridge_channel::molecule::{Origin, Origins};
use bridge_core::value::Tier;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What those may do who write and are no workspaces. Everybody who is not named here is a peer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OriginsConfig {
    /// People whom the platform marks as writing at the canvas. Who holds the workspace's inbound secret can write that
    /// mark too.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OriginTierKey")]
    pub canvas: Option<OriginTierKey>,
    /// Everybody of whom the platform does not say where they write: the canvas too, on platforms older than July 2026.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OriginTierKey")]
    pub unmarked: Option<OriginTierKey>,
    /// People on Telegram.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OriginTierKey")]
    pub telegram: Option<OriginTierKey>,
    /// People on Slack.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OriginTierKey")]
    pub slack: Option<OriginTierKey>,
    /// People on Discord.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OriginTierKey")]
    pub discord: Option<OriginTierKey>,
    /// People on Lark.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OriginTierKey")]
    pub lark: Option<OriginTierKey>,
    /// Whoever makes GitHub call the platform's webhook.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OriginTierKey")]
    pub github: Option<OriginTierKey>,
    /// People who are owners wherever their origin stands, by the platform's id: `telegram:777`. For `canvas:USER_ID` the
    /// same holds as for `canvas`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<String>,
}

/// What an origin may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OriginTierKey {
    /// What the owner of this machine may do.
    Owner,
    /// What strangers may do.
    Peer,
}

impl OriginTierKey {
    fn tier(self) -> Tier {
        match self {
            Self::Owner => Tier::Owner,
            Self::Peer => Tier::Peer,
        }
    }
}

impl OriginsConfig {
    /// What is in force for a workspace: its own table, and the common one for what that leaves out.
    pub(super) fn resolve(&self, common: &Self) -> Origins {
        let keys = |config: &Self| {
            [
                (Origin::Canvas, config.canvas),
                (Origin::Unmarked, config.unmarked),
                (Origin::Telegram, config.telegram),
                (Origin::Slack, config.slack),
                (Origin::Discord, config.discord),
                (Origin::Lark, config.lark),
                (Origin::Github, config.github),
            ]
        };
        let owners = match self.owners.as_slice() {
            [] => &common.owners,
            _ => &self.owners,
        };
        let both = keys(common).into_iter().chain(keys(self));
        Origins {
            tiers: both
                .filter_map(|(origin, key)| Some((origin, key?.tier())))
                .collect(),
            owners: owners.iter().cloned().collect(),
            // Agents have tables of their own.
            ..Origins::default()
        }
    }
}
