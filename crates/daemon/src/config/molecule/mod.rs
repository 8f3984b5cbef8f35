//! The keys of the Molecule channel: what holds for all workspaces, and what one workspace has for itself.
//!
//! A token is never a key: the file may be readable by others and ends up in repositories. What the keys and the
//! variables of the environment amount to is [`resolve`]'s business.

mod peers;
mod resolve;
#[cfg(test)]
mod tests;
mod variables;

pub(crate) use peers::MoleculePeerConfig;
pub use resolve::Workspace;
pub(super) use resolve::WorkspaceReport;
pub(super) use resolve::resolve;
pub(super) use variables::Variables;

use bridge_channel::molecule::{self, Origin, Origins};
use bridge_core::port::{OnUnknown, TurnTransport};
use bridge_core::value::Tier;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The longest pause between two looks at the feed.
const POLL_MAX_SECS: u64 = 300;
/// The platform keeps rows for a month at most.
const FIRST_START_MAX_MINUTES: u32 = 30 * 24 * 60;
/// A shorter bubble would cut an ordinary answer into dozens.
const REPLY_MIN_CHARS: u32 = 500;
/// A longer one is nothing that a canvas shows well.
const REPLY_MAX_CHARS: u32 = 1_000_000;

/// Workspaces of a Molecule platform. WORKSPACE_ID, PLATFORM_URL and MOLECULE_WORKSPACE_TOKEN in the environment turn
/// one on without any of these keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MoleculeConfig {
    /// Where the platform is, for workspaces that name none. PLATFORM_URL goes before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub platform_url: Option<String>,
    /// The organisation, on platforms with several. MOLECULE_ORG_ID goes before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub org_id: Option<String>,
    /// Whether tokens may travel over plain http to another machine. Anyone on the way can read them, and anyone can
    /// write as a user of the canvas. CODEX_BRIDGE_ALLOW_HTTP and `run --allow-http` go before it.
    pub allow_http: bool,
    /// What those may do who write and are no workspaces.
    pub origins: OriginsConfig,
    /// What runs the turns.
    pub transport: TurnTransport,
    /// The name on the agent card. Without it the platform keeps the one it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub name: Option<String>,
    /// How far back a first start looks, in minutes; 0 takes only what arrives from then on.
    #[schemars(range(min = 0, max = FIRST_START_MAX_MINUTES))]
    pub first_start_minutes: u32,
    /// How often the feed is read, in seconds.
    #[schemars(range(min = 1, max = POLL_MAX_SECS))]
    pub poll_secs: u64,
    /// Whether the platform's events wake the daemon between two looks, so that a message is taken in at once.
    pub wake: bool,
    /// The longest text of one bubble; a longer answer comes in several.
    #[schemars(range(min = REPLY_MIN_CHARS, max = REPLY_MAX_CHARS))]
    pub max_reply_chars: u32,
    /// What is done on an older platform when it is not known whether a reply reached a peer.
    pub unknown_outcome: OnUnknown,
    /// Other agents that are no ordinary peers, one table each.
    pub peers: Vec<MoleculePeerConfig>,
    /// How messages reach the daemon.
    pub delivery: DeliveryKey,
    /// The address under which the platform reaches this daemon, for `delivery = "push"`: that of `http.listen`, or of
    /// the proxy in front of it. Calls are served at its root.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub push_url: Option<String>,
    /// The workspaces, one table each. What a table leaves out is taken from above.
    pub workspace: Vec<WorkspaceConfig>,
}

/// One workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WorkspaceConfig {
    /// The workspace's id, from External Connect on the canvas.
    #[schemars(length(min = 1))]
    pub id: String,
    /// Where its platform is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub platform_url: Option<String>,
    /// A file that holds its token, readable by this user alone. It is read again when the platform refuses the
    /// token, so a new one needs no restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PathBuf", length(min = 1))]
    pub token_file: Option<PathBuf>,
    /// Its organisation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub org_id: Option<String>,
    /// Whether its token may travel over plain http to another machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub allow_http: Option<bool>,
    /// What those may do who write to it and are no workspaces.
    pub origins: OriginsConfig,
    /// What runs its turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TurnTransport")]
    pub transport: Option<TurnTransport>,
    /// The name on its agent card.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub name: Option<String>,
    /// How its messages reach the daemon.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DeliveryKey")]
    pub delivery: Option<DeliveryKey>,
    /// The address under which its platform reaches this daemon.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub push_url: Option<String>,
}

/// How messages reach the daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeliveryKey {
    /// The daemon reads the workspace's feed.
    #[default]
    Poll,
    /// The platform calls the daemon too, and waits for answers there.
    Push,
}

impl Default for MoleculeConfig {
    fn default() -> Self {
        Self {
            platform_url: None,
            org_id: None,
            allow_http: false,
            origins: OriginsConfig::default(),
            transport: TurnTransport::AppServer,
            name: None,
            first_start_minutes: molecule::FIRST_START.minutes,
            poll_secs: molecule::POLL.as_secs(),
            wake: true,
            max_reply_chars: u32::try_from(molecule::MAX_REPLY_CHARS).unwrap_or(REPLY_MAX_CHARS),
            unknown_outcome: OnUnknown::Hold,
            peers: Vec::new(),
            delivery: DeliveryKey::Poll,
            push_url: None,
            workspace: Vec::new(),
        }
    }
}

impl MoleculeConfig {
    /// Whether any workspace asks for `codex exec`.
    pub(super) fn uses_exec(&self) -> bool {
        let own = self.workspace.iter().filter_map(|one| one.transport);
        own.chain([self.transport])
            .any(|transport| transport == TurnTransport::Exec)
    }
}

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
