//! Stopping everything of one sender, as JSON.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Body of `POST /v1/stop`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopSenderRequest {
    /// Whose messages: the name of a token or peer, or the channel's own name for a sender.
    pub sender: String,
    /// On which channel; on all of them when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
}

/// Answer to `POST /v1/stop`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StopSenderView {
    /// Whose messages.
    pub sender: String,
    /// Messages that had not begun and are cancelled.
    pub cancelled: u32,
    /// Messages whose turns are being interrupted; each ends as cancelled unless its answer comes first.
    pub interrupted: Vec<String>,
    /// Messages whose text was given to the turn of another sender: that turn goes on with it, and they end with it.
    pub joined: Vec<String>,
}
