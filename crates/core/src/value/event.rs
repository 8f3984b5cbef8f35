//! Item-level events: what a turn did, kept per message so that people can read it later.
//!
//! Deltas are not events: they are lossy, shown live and never stored.

use super::{MessageId, Timestamp};

/// One thing that happened while a message was worked on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemEvent {
    /// Whose turn it happened in.
    pub message_id: MessageId,
    /// Its place among the events of the message, without gaps, from 1.
    pub ordinal: u32,
    /// Which attempt.
    pub attempt: u32,
    /// What kind of thing.
    pub kind: EventKind,
    /// One line for people; raw text, escaped where it is shown.
    pub text: String,
    pub at: Timestamp,
}

/// What kind of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Codex began something.
    Started,
    /// Codex finished something.
    Completed,
    /// Codex or the bridge tries something again.
    Retrying,
    /// Codex asked, or was answered.
    Asked,
    /// Said by the bridge.
    Bridge,
}

words!(EventKind {
    Started => "item/started",
    Completed => "item/completed",
    Retrying => "turn/retrying",
    Asked => "request",
    Bridge => "bridge",
});
