//! Queries about tasks and about budgets: values of [`super::Read`].

use crate::value::{ConversationId, TaskId, Timestamp};

/// Which tasks of an agent are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskQuery {
    pub owner: String,
    /// Of this conversation only.
    pub conversation: Option<ConversationId>,
    /// Changed at this time or later.
    pub since: Option<Timestamp>,
    /// Behind this one in the list.
    pub before: Option<(Timestamp, TaskId)>,
    /// At most so many.
    pub limit: u32,
}

/// What a sender's turns cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Turns that were begun.
    pub turns: u64,
    /// Tokens that they used.
    pub tokens: u64,
    /// When the oldest of these turns began.
    pub first: Option<Timestamp>,
}

impl Spent {
    /// Counts one turn more.
    pub fn add(&mut self, at: Timestamp, tokens: u64) {
        self.turns = self.turns.saturating_add(1);
        self.tokens = self.tokens.saturating_add(tokens);
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
    }
}
