//! What a 401 means. The platform says the same of a wrong token, of a removed workspace and of its own database being
//! away, so others are asked before anybody is blamed: nothing is dropped in any case.

use super::Molecule;
use super::health::ChannelState;
use super::wire::{Heartbeat, Removed};
use crate::http::CallError;
use bridge_core::deadline::after;
use bridge_core::limits::clip;
use reqwest::StatusCode;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often a parked channel looks whether its token changed.
const TOKEN_LOOK: Duration = Duration::from_secs(2);
/// How much of the platform's own hint is shown.
const HINT_MAX_CHARS: usize = 200;

/// Why data is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// There is a new token already.
    NewToken,
    /// The platform's database is away.
    Outage,
    /// The token is wrong, or was replaced.
    Token(String),
    /// The workspace was removed.
    Removed(String),
}

impl Refusal {
    /// What `status` says.
    pub(super) fn health(&self) -> (ChannelState, String) {
        match self {
            Self::NewToken => (
                ChannelState::Retrying,
                "the token changed; trying the new one".to_owned(),
            ),
            Self::Outage => (
                ChannelState::Retrying,
                "the platform's database is away: it refuses the token, but not the heartbeat; everything is kept"
                    .to_owned(),
            ),
            Self::Token(why) => (ChannelState::Parked, format!("token refused: {why}")),
            Self::Removed(why) => (ChannelState::Parked, format!("workspace removed: {why}")),
        }
    }
}

impl Molecule {
    /// Asks why data is refused.
    pub(super) async fn why_refused(&self) -> Refusal {
        let client = &self.0.client;
        let unreadable = match client.look_for_token() {
            Ok(true) => return Refusal::NewToken,
            Ok(false) => None,
            Err(error) => Some(error.to_string()),
        };
        match client.workspace().await {
            Err(CallError::Status(refused)) if refused.status == StatusCode::GONE => {
                return Refusal::Removed(removal(&refused.said));
            }
            Ok(()) | Err(_) => {}
        }
        let beat = Heartbeat {
            workspace_id: client.workspace_id(),
            ..Heartbeat::default()
        };
        match client.heartbeat(&beat).await {
            Err(error) if error.status() == Some(StatusCode::UNAUTHORIZED) => {
                unreadable.map_or_else(|| self.wrong_token(), Refusal::Token)
            }
            Ok(()) | Err(_) => Refusal::Outage,
        }
    }

    /// The token itself is to blame.
    pub(super) fn wrong_token(&self) -> Refusal {
        let place = self.0.client.token_place();
        Refusal::Token(format!(
            "copy the new one from the canvas, Tokens tab, to {place}; it is read again by itself"
        ))
    }

    /// Waits, but not longer than it takes until there is a new token.
    pub(super) async fn wait_for_token(&self, pause: Duration) {
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
    let when = removed.removed_at.unwrap_or_default();
    let hint = removed.hint.unwrap_or_else(|| {
        "make a new workspace on the canvas and put its id and token here".to_owned()
    });
    clip(format!("{hint} {when}").trim(), HINT_MAX_CHARS)
}
