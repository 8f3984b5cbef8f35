//! The JSON forms that the loopback platform speaks. Tolerant in reading, exact in writing.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the inbox shows. Each row is read by itself, so that one bad row harms no other.
#[derive(Debug, Deserialize)]
pub(super) struct Inbox {
    pub(super) rows: Vec<Value>,
    /// Given back with the next call: only news after it ends a wait early.
    #[serde(default)]
    pub(super) mark: Option<u64>,
}

/// One row.
#[derive(Debug, Deserialize)]
pub(super) struct Row {
    pub(super) row: String,
    pub(super) conversation: String,
    pub(super) sender: String,
    pub(super) text: String,
}

/// A reply on its way out.
#[derive(Debug, Serialize)]
pub(super) struct NewReply<'a> {
    pub(super) key: &'a str,
    pub(super) conversation: &'a str,
    pub(super) row: &'a str,
    pub(super) ordinal: u32,
    pub(super) kind: &'static str,
    pub(super) text: &'a str,
}

/// The platform's proof, or that there is none.
#[derive(Debug, Deserialize)]
pub(super) struct Receipt {
    pub(super) receipt: Option<String>,
}

/// An ack on its way out.
#[derive(Debug, Serialize)]
pub(super) struct NewAck<'a> {
    pub(super) row: &'a str,
}
