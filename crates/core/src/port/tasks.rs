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
