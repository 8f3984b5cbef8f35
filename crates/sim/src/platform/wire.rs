//! The JSON forms of the platform, written out apart from the channel that speaks them: two readings of one
//! description find mistakes that one shared type would hide.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What `GET /inbox` is asked.
#[derive(Debug, Deserialize)]
pub(super) struct InboxQuery {
    pub(super) limit: Option<usize>,
    /// Milliseconds.
    pub(super) wait: Option<u64>,
    /// Of an earlier answer; without it nothing is waited for.
    pub(super) mark: Option<u64>,
}

/// What `GET /inbox` answers.
#[derive(Debug, Serialize)]
pub(super) struct Inbox {
    pub(super) rows: Vec<Value>,
    pub(super) mark: u64,
}

/// The body of `POST /replies`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReplyBody {
    key: String,
    conversation: String,
    row: String,
    ordinal: u32,
    kind: ReplyKind,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ReplyKind {
    Answer,
    Notice,
}

impl ReplyBody {
    /// The row that it says it replies to.
    pub(super) fn about(&self) -> &str {
        &self.row
    }
}

/// A reply as the platform takes it.
#[derive(Debug)]
pub(super) struct NewReply {
    pub(super) key: String,
    pub(super) conversation: String,
    pub(super) row: String,
    pub(super) ordinal: u32,
    pub(super) is_answer: bool,
    pub(super) text: String,
}

impl From<ReplyBody> for NewReply {
    fn from(body: ReplyBody) -> Self {
        Self {
            key: body.key,
            conversation: body.conversation,
            row: body.row,
            ordinal: body.ordinal,
            is_answer: body.kind == ReplyKind::Answer,
            text: body.text,
        }
    }
}

/// What `GET /replies` is asked.
#[derive(Debug, Deserialize)]
pub(super) struct ProbeQuery {
    pub(super) key: String,
}

/// Proof that a reply arrived, or that it did not.
#[derive(Debug, Serialize)]
pub(super) struct Receipt {
    pub(super) receipt: Option<String>,
}

/// The body of `POST /acks`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AckBody {
    pub(super) row: String,
}
