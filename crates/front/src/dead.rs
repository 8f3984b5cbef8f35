//! Dead letters as JSON, and what acting on a message came to.

use bridge_core::limits::clip;
use bridge_core::value::{Conversation, Message, MessageState, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest beginning of a text in a list.
const LINE_MAX_CHARS: usize = 200;

/// Answer to `GET /v1/dead`: messages that only a person moves on, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DeadList {
    /// The messages.
    pub dead: Vec<DeadView>,
    /// What to give as `before` for the next page; absent on the last one.
    pub next: Option<String>,
}

/// A dead letter, or a message that waits for a person.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DeadView {
    /// Its id.
    pub message_id: String,
    /// `dead`, or `parked` while it waits for a person.
    pub state: String,
    /// Why.
    pub reason: String,
    /// The conversation's key.
    pub conversation: String,
    /// The channel.
    pub channel: String,
    /// Who sent it.
    pub sender: String,
    /// The first line of its text.
    pub line: String,
    /// Attempts so far.
    pub attempts: u32,
    /// Whether it has an answer that could not be delivered.
    pub answered: bool,
    /// Milliseconds since the epoch.
    pub received_at: i64,
    /// Since when it is where it is, in milliseconds since the epoch.
    pub since: i64,
    /// How long that is, in milliseconds.
    pub age_ms: i64,
    /// When a parked message is given up, in milliseconds since the epoch.
    pub until: Option<i64>,
}

/// What acting on a message came to.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ActView {
    /// Which.
    pub message_id: String,
    /// `queued`, `delivering` or `continuing` for a redrive; `dropped`; `cancelled` or `stopping`.
    pub outcome: String,
    /// The same, as a sentence.
    pub detail: String,
}

impl DeadView {
    /// `None` for a message that is neither.
    pub(crate) fn of(
        message: Message,
        conversation: Option<Conversation>,
        answered: bool,
        now: Timestamp,
    ) -> Option<Self> {
        let state = message.life.state.name().as_str().to_owned();
        let (reason, until) = match message.life.state {
            MessageState::Dead { reason } => (reason, None),
            MessageState::Parked { until, reason } => (reason, Some(until.0)),
            MessageState::Received { .. }
            | MessageState::Claimed
            | MessageState::Starting
            | MessageState::Running { .. }
            | MessageState::Unclear { .. }
            | MessageState::Steered { .. }
            | MessageState::Answered
            | MessageState::Sending
            | MessageState::Done
            | MessageState::Cancelled { .. } => return None,
        };
        let first = message.body.lines().find(|line| !line.trim().is_empty());
        Some(Self {
            message_id: message.message_id.to_string(),
            state,
            reason,
            conversation: conversation.map_or_else(String::new, |c| c.external_key),
            channel: message.channel.to_string(),
            sender: message.sender,
            line: clip(first.unwrap_or_default(), LINE_MAX_CHARS),
            attempts: message.life.attempt,
            answered,
            received_at: message.received_at.0,
            since: message.life.updated_at.0,
            age_ms: now.since_ms(message.life.updated_at).max(0),
            until,
        })
    }
}
