//! News of all messages as JSON: small, and enough to know what to look at.

use crate::request::RequestView;
use crate::view::EventView;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `ready` and `reset` on `/v1/events`: where the stream stands. After `reset` something was missed: look at the
/// lists.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MarkView {
    /// Milliseconds since the epoch.
    pub at: i64,
}

/// `state` on `/v1/events`: a message is somewhere else in its life.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StateNews {
    /// Which.
    pub message_id: String,
    /// The conversation's key.
    pub conversation: String,
    /// The channel.
    pub channel: String,
    /// Where it is.
    pub state: String,
    /// Ordinal of the newest attempt.
    pub attempt: u32,
    /// Milliseconds since the epoch.
    pub at: i64,
}

/// `item` on `/v1/events`: something happened in a turn.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ItemNews {
    /// Of which message.
    pub message_id: String,
    /// What.
    #[serde(flatten)]
    pub event: EventView,
}

/// `request` on `/v1/events`: Codex asked, or somebody decided.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RequestNews {
    /// Of which message.
    pub message_id: String,
    /// What.
    #[serde(flatten)]
    pub request: RequestView,
}
