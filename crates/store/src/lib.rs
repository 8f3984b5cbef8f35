//! The ledger: the durable record of every message, behind the core's `Ledger` port.
//!
//! [`sqlite`] or [`postgres`] stores it; [`key`] encrypts the credentials in it and signs its audit record. Only this crate
//! opens a database. Transitions are the core's: nothing here decides about a message. The contract suite (`tests/ledger`)
//! holds for both and for the memory ledger of `testkit`.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod any;
pub mod copy;
pub mod key;
mod old_tasks;
pub mod postgres;
mod sql;
pub mod sqlite;

pub use any::AnyLedger;
pub use copy::{CopyError, LedgerCopy, LedgerPlace};
pub use key::{AuditPublicKey, KeyAge, LedgerKey};
pub use old_tasks::{OldTasksError, read_old_tasks};
pub use postgres::{
    LentDatabase, LiveNote, PostgresLedger, PostgresOpenError, PostgresOptions, PostgresUrl,
    SaidPart, Wakeup, Wakeups, piece,
};
#[cfg(debug_assertions)]
pub use sql::schema::add_migration;
pub use sqlite::{OpenError, Options, SqliteLedger};

use bridge_core::limits::PAGE_MAX;

/// What a caller may ask for at once, cut to the hard bound on one read.
pub(crate) fn page(limit: u32) -> u32 {
    limit.min(PAGE_MAX)
}
