//! The ledger: the durable port, named after transitions.
//!
//! `ledger.transact(Claim { .. }, now)` runs one transition in one transaction and returns only when it is on
//! disk; what comes back as actions may be done then, and not earlier. Tables are the store's own business.

use crate::port::{Change, Read, RowsError};
use crate::step::{Action, Refused, Transition};
use crate::value::{Class, Epoch, Timestamp};
use std::future::Future;
use std::time::Duration;

/// The durable record of everything.
pub trait Ledger: Clone + Send + Sync + 'static {
    /// Runs one transition in one transaction; the result is on disk when the future resolves.
    fn transact<T: Transition>(
        &self,
        transition: T,
        now: Timestamp,
    ) -> impl Future<Output = Result<Committed<T::Outcome>, LedgerError>> + Send;

    /// Reads a consistent snapshot.
    fn read<V, F>(&self, query: F) -> impl Future<Output = Result<V, LedgerError>> + Send
    where
        V: Send + 'static,
        F: FnOnce(&dyn Read) -> Result<V, RowsError> + Send + 'static;

    /// The boot number of this opening of the ledger.
    fn epoch(&self) -> Epoch;

    /// Makes the lease of this node longer; absent where one daemon has the ledger for itself.
    fn renew(&self) -> impl Future<Output = Result<Option<Lease>, LedgerError>> + Send {
        core::future::ready(Ok(None))
    }
}

/// What a committed transition leaves to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed<O> {
    /// What the caller wanted to know.
    pub outcome: O,
    /// What may be done now that the rows are on disk.
    pub actions: Vec<Action>,
    /// What was written, in its order.
    pub changes: Vec<Change>,
}

/// Why a transition did not happen. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// The rows say no: the message is elsewhere in its life. An event, not a fault.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The rows could not be read or written.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// A newer daemon opened this ledger, or the lease of this one has ended (then both epochs are the same); it must stop.
    #[error("write to the database: {}", fenced(*found, *ours))]
    Fenced {
        /// The epoch on disk.
        found: i64,
        /// The epoch of this opening.
        ours: i64,
    },
    /// The writer is gone or has too much waiting.
    #[error("reach the database: {what}")]
    Unavailable { what: String },
}

fn fenced(found: i64, ours: i64) -> String {
    if found == ours {
        return format!("the lease of this daemon has ended (epoch {ours})");
    }
    format!("another daemon has taken over (epoch {found}, ours is {ours})")
}

impl LedgerError {
    /// One row can't be read; the others are not concerned.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        matches!(self, Self::Rows(RowsError::Unreadable { .. }))
    }

    /// What it means for the work at hand.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Refused(_) => Class::Permanent,
            Self::Rows(
                RowsError::Conflict { .. }
                | RowsError::Unreadable { .. }
                | RowsError::Damaged { .. },
            ) => Class::Bug,
            Self::Rows(RowsError::Backend { .. }) | Self::Unavailable { .. } => Class::Transient,
            Self::Fenced { .. } => Class::Config,
        }
    }
}

/// How long a node may write without another word, from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// How long.
    pub length: Duration,
    /// What the ledger's own clock shows: all nodes go by it.
    pub now: Timestamp,
}
