//! The Molecule channel: one workspace of a Molecule platform, from its activity feed to its canvas and its peers.
//!
//! In: `feed` reads the activity feed and stores how far it was read, `row` makes a message of a row and says who wrote
//! it, `files` fetches the files that it names. Out: `reply` answers on the canvas, to peers and to social channels.
//! Both: `client` (the calls), `wire` (their forms), `failure` (what a failed one means), `token`. Beside: `presence` shows
//! that we are there, `push` answers the platform's calls, `health` says how the channel is, `examine` looks for `doctor`.
//! What the platform really does: ADR 0022, 0023, 0056, 0057, 0065.

mod client;
mod examine;
mod failure;
mod feed;
mod files;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod health;
mod presence;
mod push;
mod reply;
mod row;
mod token;
mod wire;

pub use client::{Reach, UrlError, check_url};
pub use examine::{Examined, ExaminedWorkspace, Marks};
pub use health::{ChannelHealth, ChannelState};
pub use push::{Delivery, PushAnswer, receipt};
pub use row::origin::{AgentTier, Origin, Origins};
pub use token::{TokenError, TokenSource};

use crate::files::FileStore;
use crate::locked;
use crate::secret::Secret;
use bridge_core::port::OnUnknown;
use bridge_core::value::{ChannelId, Tier};
use client::Client;
use feed::cursor::Edition;
use health::Health;
use push::Pushes;
use reply::Contexts;
use reply::bubble::{Bubbles, Clocks};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

/// What every channel id of this kind begins with.
pub const PREFIX: &str = "molecule:";
/// The longest bubble, if the operator names no other limit: what a person can still scroll through.
pub const MAX_REPLY_CHARS: usize = 16_000;
/// How often the feed is read, if the operator names no other time.
pub const POLL: Duration = Duration::from_secs(5);
/// How far a first start looks back, if the operator names no other time.
pub const FIRST_START: FirstStart = FirstStart { minutes: 10 };

/// What the operator decided about one workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The workspace's id, a UUID.
    pub workspace: String,
    /// Where the platform is; see [`check_url`].
    pub platform_url: String,
    /// Where the workspace's token is.
    pub token: TokenSource,
    /// The organisation, on platforms with several.
    pub org_id: Option<String>,
    /// Whether the token may travel in the clear over a network.
    pub allow_http: bool,
    /// What those may do who are no workspaces.
    pub origins: Origins,
    /// What is taken in when this workspace was never read before.
    pub first_start: FirstStart,
    /// How often the feed is read.
    pub poll: Duration,
    /// Whether the platform's events wake us between two polls.
    pub wake: bool,
    /// The longest text of one reply.
    pub max_reply_chars: usize,
    /// The name on the agent card.
    pub name: Option<String>,
    /// How messages reach us.
    pub delivery: Delivery,
    /// What follows a reply to a peer whose outcome is not known, on a platform that shows a repeated one twice.
    pub on_unknown: OnUnknown,
}

/// How far back a first start looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstStart {
    /// None: only what arrives from now on.
    pub minutes: u32,
}

/// Why the channel can't be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The workspace's id is not one.
    #[error("the workspace id {0:?} is no UUID: copy it from the canvas, External Connect")]
    Workspace(String),
    /// Its address is not one.
    #[error("the platform's address {0}")]
    Url(UrlError),
    /// The token would travel in the clear.
    #[error(
        "the platform's address is plain http to another machine, where anyone on the way can read the token: use https; if that network is yours alone, start with --allow-http or CODEX_BRIDGE_ALLOW_HTTP=1, or set allow_http = true for this workspace"
    )]
    NotSecret,
    /// There is no token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// Something can't be sent in a header.
    #[error("{what} can't be sent in a header: remove the characters that are not plain ASCII")]
    Header { what: &'static str },
    /// No client can be made.
    #[error("open the Molecule channel: {0}")]
    Client(String),
}

/// The channel of one workspace. A clone is another handle of the same channel.
#[derive(Clone, Debug)]
pub struct Molecule(Arc<ChannelInner>);

#[derive(Debug)]
struct ChannelInner {
    client: Client,
    settings: Settings,
    channel: ChannelId,
    health: Health,
    /// Since when the platform does not show this machine its messages.
    failing: Mutex<Option<Instant>>,
    /// Rung when the feed is worth a look.
    bell: Notify,
    edition: Mutex<Edition>,
    clocks: Clocks,
    bubbles: Bubbles,
    contexts: Contexts,
    pushes: Pushes,
    /// Where files are kept; without it none are fetched.
    file_store: OnceLock<FileStore>,
}

impl Molecule {
    /// Opens the channel; nothing is said to the platform yet.
    pub fn open(settings: Settings) -> Result<Self, OpenError> {
        let workspace = Uuid::parse_str(settings.workspace.trim())
            .map_err(|_| OpenError::Workspace(settings.workspace.clone()))?
            .hyphenated()
            .to_string();
        let client = Client::new(&settings, &workspace)?;
        let channel = ChannelId::new(format!("{PREFIX}{workspace}"));
        Ok(Self(Arc::new(ChannelInner {
            client,
            settings,
            health: Health::new(channel.clone()),
            failing: Mutex::default(),
            channel,
            bell: Notify::new(),
            edition: Mutex::new(Edition::Unknown),
            clocks: Clocks::default(),
            bubbles: Bubbles::default(),
            contexts: Contexts::default(),
            pushes: Pushes::default(),
            file_store: OnceLock::new(),
        })))
    }

    /// Says where files of messages are kept, before the first one is fetched.
    pub fn keep_files_in(&self, file_store: FileStore) {
        // A second word does not change the place of what is there.
        let _known = self.0.file_store.set(file_store);
    }

    /// The channel's id in the ledger.
    #[must_use]
    pub fn channel(&self) -> &ChannelId {
        &self.0.channel
    }

    /// The id of its workspace.
    #[must_use]
    pub fn workspace(&self) -> &str {
        &self.0.settings.workspace
    }

    /// What a sender's turns may do, by the name that the ledger has for it.
    #[must_use]
    pub fn tier_of_sender(&self, sender: &str) -> Tier {
        self.0.settings.origins.tier_of_sender(sender)
    }

    /// Notes that another node of the fleet reads the feed. What keeps this one from it stays what is said of it.
    pub fn is_read_by(&self, node: Option<&str>) {
        let detail = match node {
            _ if self.fails_for().is_some() => return,
            Some(node) => format!("node {node} reads the feed"),
            None => "no node reads the feed yet".to_owned(),
        };
        self.0.health.set(ChannelState::Receiving, &detail);
    }

    /// How the channel is.
    #[must_use]
    pub fn health(&self) -> ChannelHealth {
        self.0.health.get()
    }

    /// Values that must not be in a reply.
    #[must_use]
    pub fn secrets(&self) -> Vec<Secret> {
        let mut secrets = self.0.client.secrets();
        secrets.extend(self.0.pushes.secrets());
        secrets
    }

    fn edition(&self) -> Edition {
        *locked(&self.0.edition)
    }

    /// Notes what kind of platform this is.
    fn learn(&self, edition: Edition) {
        *locked(&self.0.edition) = edition;
    }
}
