//! The ledger: the durable record of every message, behind the core's `Ledger` port.
//!
//! [`memory`] is the reference: small, deterministic, obviously right. [`sqlite`] is what the daemon runs on.
//! One contract suite (`tests/ledger`) holds for both. Nothing here decides about a message's life; that is
//! the core's `step`. Only this crate opens a database. [`key`] encrypts the credentials in it and signs its audit record.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod fault;
pub mod key;
pub mod memory;
pub mod sqlite;

pub use key::{AuditPublicKey, KeyAge, LedgerKey};
pub use memory::{MemoryLedger, MemoryRows};
pub use sqlite::{OpenError, Options, SqliteLedger};

use bridge_core::limits::PAGE_MAX;

/// What a caller may ask for at once, cut to the hard bound on one read.
pub(crate) fn page(limit: u32) -> u32 {
    limit.min(PAGE_MAX)
}
