//! The history of one message as JSON: attempts, items, replies and operator actions.

use crate::view::{EventView, MessageView};
use bridge_core::value::{AuditEntry, EventKind, ItemEvent, Reply, ReplyKind, ReplyState, Turn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Answer to `GET /v1/messages/{id}`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StoryView {
    /// Where it is, and its answer.
    #[serde(flatten)]
    pub message: MessageView,
    /// Its turns, oldest first.
    pub attempts: Vec<AttemptView>,
    /// What Codex did, and what the bridge had to say about it.
    pub events: Vec<EventView>,
    /// What was sent back, in order.
    pub replies: Vec<ReplyView>,
    /// What people did to it, newest first.
    pub acts: Vec<ActEntryView>,
}

/// One attempt and its turn.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AttemptView {
    /// Its ordinal.
    pub attempt: u32,
    /// What Codex knows it by.
    pub client_id: String,
    /// Codex's thread.
    pub thread_id: String,
    /// Codex's turn, once it was named.
    pub turn_id: Option<String>,
    /// The life of Codex that it was given to.
    pub incarnation: String,
    /// `begun`, `attached`, `ended` or `lost`.
    pub state: String,
    /// What its commands could touch.
    pub sandbox: String,
    /// Whether it was seen to do something that may change the world.
    pub touched: bool,
    /// Milliseconds since the epoch.
    pub started_at: i64,
    /// Milliseconds since the epoch.
    pub ended_at: Option<i64>,
    /// Tokens the model read.
    pub input_tokens: i64,
    /// Tokens the model wrote.
    pub output_tokens: i64,
    /// What went wrong in it, oldest first.
    pub failures: Vec<String>,
}

/// One piece that is sent back.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReplyView {
    /// Its place among the pieces.
    pub ordinal: u32,
    /// `answer`, or `notice` for words of the bridge.
    pub kind: String,
    /// `queued`, `sending`, `sent` or `dead`.
    pub state: String,
    /// Sends begun.
    pub tries: u32,
    /// When it is sent again, in milliseconds since the epoch.
    pub not_before: Option<i64>,
    /// The platform's proof that it took it.
    pub receipt: Option<String>,
    /// Why it was given up.
    pub reason: Option<String>,
    /// What a notice says. Pieces of the answer are in `answer`.
    pub notice: Option<String>,
}

/// Something a person did to a message.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ActEntryView {
    /// Milliseconds since the epoch.
    pub at: i64,
    /// Who acted.
    pub by: String,
    /// `cancel`, `redrive` or `discard`.
    pub what: String,
    /// The rest.
    pub detail: String,
}

/// The ack that the source of a message is owed: none.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AckView {
    /// `none`.
    pub mode: String,
    /// `not_needed`.
    pub state: String,
}

/// The rows of a story beyond those of its [`MessageView`].
pub(crate) struct StoryRows {
    pub(crate) turns: Vec<Turn>,
    pub(crate) events: Vec<ItemEvent>,
    pub(crate) replies: Vec<Reply>,
    pub(crate) acts: Vec<AuditEntry>,
}

impl StoryRows {
    pub(crate) fn view(self, message: MessageView) -> StoryView {
        let failures = |attempt: u32| {
            self.events
                .iter()
                .filter(|event| event.attempt == attempt && event.kind == EventKind::Retrying)
                .map(|event| event.text.clone())
                .collect()
        };
        StoryView {
            message,
            attempts: self
                .turns
                .iter()
                .map(|turn| AttemptView::new(turn, failures(turn.attempt)))
                .collect(),
            events: self.events.iter().map(EventView::from).collect(),
            replies: self.replies.into_iter().map(ReplyView::from).collect(),
            acts: self.acts.into_iter().map(ActEntryView::from).collect(),
        }
    }
}

impl AttemptView {
    fn new(turn: &Turn, failures: Vec<String>) -> Self {
        Self {
            attempt: turn.attempt,
            client_id: turn.client_id.to_string(),
            thread_id: turn.thread.to_string(),
            turn_id: turn.turn_id.as_ref().map(ToString::to_string),
            incarnation: turn.incarnation.to_string(),
            state: turn.state.as_str().to_owned(),
            sandbox: turn.sandbox.as_str().to_owned(),
            touched: turn.touched,
            started_at: turn.started_at.0,
            ended_at: turn.ended_at.map(|at| at.0),
            input_tokens: turn.usage.input_tokens,
            output_tokens: turn.usage.output_tokens,
            failures,
        }
    }
}

impl From<Reply> for ReplyView {
    fn from(reply: Reply) -> Self {
        let state = reply.state.name().as_str().to_owned();
        let (not_before, receipt, reason) = match reply.state {
            ReplyState::Queued { not_before } => (not_before.map(|at| at.0), None, None),
            ReplyState::Sending => (None, None, None),
            ReplyState::Sent { receipt, at: _ } => (None, Some(receipt), None),
            ReplyState::Dead { reason } => (None, None, Some(reason)),
        };
        Self {
            ordinal: reply.ordinal,
            kind: reply.kind.as_str().to_owned(),
            state,
            tries: reply.tries,
            not_before,
            receipt,
            reason,
            notice: match reply.kind {
                ReplyKind::Notice => Some(reply.body),
                ReplyKind::Answer => None,
            },
        }
    }
}

impl From<AuditEntry> for ActEntryView {
    fn from(entry: AuditEntry) -> Self {
        Self {
            at: entry.at.0,
            by: entry.actor,
            what: entry.what,
            detail: entry.detail,
        }
    }
}

impl AckView {
    pub(crate) fn not_needed() -> Self {
        Self {
            mode: "none".to_owned(),
            state: "not_needed".to_owned(),
        }
    }
}
