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
    /// When.
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

impl EventKind {
    /// The stored word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Started => "item/started",
            Self::Completed => "item/completed",
            Self::Retrying => "turn/retrying",
            Self::Asked => "request",
            Self::Bridge => "bridge",
        }
    }

    /// Reads the stored word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [
            Self::Started,
            Self::Completed,
            Self::Retrying,
            Self::Asked,
            Self::Bridge,
        ]
        .into_iter()
        .find(|kind| kind.as_str() == word)
    }
}
