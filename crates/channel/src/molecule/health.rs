//! How the channel is, for `status`, and what a 401 means for it.
//!
//! The platform says the same of a wrong token, of a removed workspace and of its own database being away, so other calls
//! are tried before the token is blamed. Nothing is dropped in any case.
//!
//! | the workspace | a heartbeat | the feed, asked again | means |
//! | --- | --- | --- | --- |
//! | 410 | | | the workspace is removed |
//! | any | 401 | | another token is the right one |
//! | 200 | 200 | 401 | no token is: the platform takes heartbeats of a workspace without any |
//! | else | else | | the database is away |

use crate::http::HttpError;
use crate::locked;
use crate::molecule::Molecule;
use crate::molecule::client::FeedQuery;
use crate::molecule::wire::{Heartbeat, Removed};
use crate::poll::now;
use bridge_core::deadline::after;
use bridge_core::limits::clip;
use bridge_core::value::{ChannelId, Timestamp};
use reqwest::StatusCode;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// What a channel does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelState {
    /// No call to the platform has succeeded yet.
    Starting,
    /// The platform shows its messages.
    Receiving,
    /// It does not now; the channel tries again by itself.
    Retrying,
    /// It will not until a person does something; the channel looks again all the same.
    Parked,
}

impl ChannelState {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Receiving => "receiving",
            Self::Retrying => "retrying",
            Self::Parked => "parked",
        }
    }
}

/// How a channel is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelHealth {
    pub channel: ChannelId,
    /// What it does now.
    pub state: ChannelState,
    /// Why, as a sentence for people.
    pub detail: String,
    /// Since when.
    pub since: Timestamp,
}

/// The place where a channel's loops say how it is.
#[derive(Debug)]
pub(crate) struct Health(Mutex<ChannelHealth>);

impl Health {
    pub(crate) fn new(channel: ChannelId) -> Self {
        Self(Mutex::new(ChannelHealth {
            channel,
            state: ChannelState::Starting,
            detail: "the platform was not reached yet".to_owned(),
            since: now(),
        }))
    }

    pub(crate) fn get(&self) -> ChannelHealth {
        locked(&self.0).clone()
    }

    /// Says what is true now; a change of state is logged once.
    pub(crate) fn set(&self, state: ChannelState, detail: &str) {
        let mut health = locked(&self.0);
        let moved = health.state != state;
        if !moved && health.detail == detail {
            return;
        }
        if moved {
            health.since = now();
        }
        health.state = state;
        detail.clone_into(&mut health.detail);
        let channel = health.channel.clone();
        drop(health);
        let state = state.as_str();
        tracing::info!(%channel, state, detail, "the channel's state");
    }
}

/// How often a parked channel looks whether its token changed.
const TOKEN_LOOK: Duration = Duration::from_secs(2);
/// How much of the platform's own hint is shown.
const HINT_MAX_CHARS: usize = 200;
/// How much of the platform's time of a removal is shown; RFC 3339 with nanoseconds has 35 characters.
const TIME_MAX_CHARS: usize = 40;

/// Why data is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenRefusal {
    /// There is a new token already.
    NewToken,
    /// The platform's database is away.
    Outage,
    /// The token is wrong, or was replaced.
    Token(String),
    /// The workspace was removed.
    Removed(String),
}

impl TokenRefusal {
    /// What `status` says.
    pub(crate) fn health(&self) -> (ChannelState, String) {
        match self {
            Self::NewToken => (
                ChannelState::Retrying,
                "the token changed; trying the new one".to_owned(),
            ),
            Self::Outage => (
                ChannelState::Retrying,
                "the platform's database is away: it refuses every token; everything is kept"
                    .to_owned(),
            ),
            Self::Token(why) => (ChannelState::Parked, format!("token refused: {why}")),
            Self::Removed(why) => (ChannelState::Parked, format!("workspace removed: {why}")),
        }
    }
}

impl Molecule {
    /// Asks why data is refused.
    pub(crate) async fn why_refused(&self) -> TokenRefusal {
        let client = &self.0.client;
        let unreadable = match client.look_for_token() {
            Ok(true) => return TokenRefusal::NewToken,
            Ok(false) => None,
            Err(error) => Some(error.to_string()),
        };
        let described = match client.workspace().await {
            Err(HttpError::Status(refused)) if refused.status == StatusCode::GONE => {
                return TokenRefusal::Removed(removal(&refused.said));
            }
            workspace => workspace.is_ok(),
        };
        let beat = Heartbeat {
            workspace_id: client.workspace_id(),
            ..Heartbeat::default()
        };
        match client.heartbeat(&beat).await {
            Err(error) if error.status() == Some(StatusCode::UNAUTHORIZED) => {
                unreadable.map_or_else(|| self.wrong_token(), TokenRefusal::Token)
            }
            // The database may have come back since the feed was refused.
            Ok(_) if described && self.feed_is_refused().await => {
                unreadable.map_or_else(|| self.revoked_token(), TokenRefusal::Token)
            }
            Ok(_) | Err(_) => TokenRefusal::Outage,
        }
    }

    async fn feed_is_refused(&self) -> bool {
        let asked = self.newest_row().await;
        asked.is_err_and(|error| error.status() == Some(StatusCode::UNAUTHORIZED))
    }

    async fn newest_row(&self) -> Result<(), HttpError> {
        let feed = FeedQuery {
            since_secs: Some(1),
            ..FeedQuery::default()
        };
        self.0.client.feed(&feed, 1).await.map(drop)
    }

    /// For how long the platform has not shown this machine its messages; nothing while it does.
    #[must_use]
    pub fn fails_for(&self) -> Option<Duration> {
        locked(&self.0.failing).map(|since| since.elapsed())
    }

    /// Looks whether it shows them again, while another node reads them.
    pub async fn works_again(&self) -> bool {
        // Where there is none, the old one is tried.
        let _new = self.0.client.look_for_token();
        let works = self.newest_row().await.is_ok();
        if works {
            self.works(ChannelState::Receiving, "the feed can be read again");
        } else {
            locked(&self.0.failing).get_or_insert_with(Instant::now);
        }
        works
    }

    /// The platform shows its messages.
    pub(crate) fn works(&self, state: ChannelState, detail: &str) {
        *locked(&self.0.failing) = None;
        self.0.health.set(state, detail);
    }

    /// It does not.
    pub(crate) fn fails(&self, state: ChannelState, detail: &str) {
        locked(&self.0.failing).get_or_insert_with(Instant::now);
        self.0.health.set(state, detail);
    }

    /// The workspace has no token that counts.
    fn revoked_token(&self) -> TokenRefusal {
        let place = self.0.client.token_place();
        TokenRefusal::Token(format!(
            "it was revoked; take a new one from the canvas, Tokens tab, and put it into {place}; it is read again by itself"
        ))
    }

    /// The token itself is to blame.
    pub(crate) fn wrong_token(&self) -> TokenRefusal {
        let place = self.0.client.token_place();
        TokenRefusal::Token(format!(
            "copy the new one from the canvas, Tokens tab, to {place}; it is read again by itself"
        ))
    }

    /// Waits, but not longer than it takes until there is a new token.
    pub(crate) async fn wait_for_token(&self, pause: Duration) {
        let until = after(Instant::now(), pause);
        while Instant::now() < until {
            sleep(TOKEN_LOOK.min(until.saturating_duration_since(Instant::now()))).await;
            if matches!(self.0.client.look_for_token(), Ok(true)) {
                return;
            }
        }
    }
}

fn removal(said: &str) -> String {
    let removed: Removed = serde_json::from_str(said).unwrap_or_default();
    let when = removed.removed_at.map(|when| clip(&when, TIME_MAX_CHARS));
    let when = when.unwrap_or_default();
    let hint = removed.hint.unwrap_or_else(|| {
        "make a new workspace on the canvas and put its id and token here".to_owned()
    });
    format!("{} {when}", clip(hint.trim(), HINT_MAX_CHARS))
        .trim()
        .to_owned()
}
