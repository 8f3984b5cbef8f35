//! An answer: what a turn produced, journaled before anything is sent.

use super::{MessageId, Timestamp};

/// The answer to one message; there is at most one, ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What it answers.
    pub message_id: MessageId,
    /// The attempt that produced it.
    pub attempt: u32,
    /// Where it came from.
    pub source: AnswerSource,
    /// The text, whole.
    pub text: String,
    /// When it was journaled.
    pub created_at: Timestamp,
}

/// Where an answer came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerSource {
    /// We saw the turn complete.
    Live,
    /// Read from Codex's history after we lost sight of the turn.
    Harvested,
    /// The answer to an earlier message, whose running turn this one was given to.
    Shared,
}

words!(AnswerSource {
    Live => "live",
    Harvested => "harvested",
    Shared => "shared",
});
