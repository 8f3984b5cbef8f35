//! What is read of accounts' limits and of who waits for them.

use super::rows::{Head, RowsError};
use crate::value::{Message, Quota, Timestamp};

/// Where a waiting message is in the order of service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueuePosition {
    /// Messages that are served before it.
    pub ahead: u64,
    /// All that wait, itself included; of a conversation only the first.
    pub waiting: u64,
}

/// Messages that are held for capacity: for an account, or for a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapacityWaiters {
    /// Of kind person, programs included.
    pub people: u64,
    pub agents: u64,
}

/// Limits of the accounts that Codex is logged in with.
pub trait QuotaRead {
    /// What Codex reported of the accounts' limits, by node and CODEX_HOME: none beyond
    /// [`limits::QUOTAS_MAX`](crate::limits::QUOTAS_MAX).
    fn quotas(&self) -> Result<Vec<Quota>, RowsError>;
    /// Messages that are held for capacity after `now`, in the order of service, at most `limit`.
    fn held_for_capacity(&self, now: Timestamp, limit: u32) -> Result<Vec<Head>, RowsError>;
    /// How many these are.
    fn capacity_waiters(&self, now: Timestamp) -> Result<CapacityWaiters, RowsError>;
    /// Where a message stands among the first ones of all conversations, those that are held included.
    fn queue_position(&self, message: &Message) -> Result<QueuePosition, RowsError>;
}
