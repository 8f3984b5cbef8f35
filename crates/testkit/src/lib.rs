//! Ledgers for tests. Nothing that ships depends on this crate.
//!
//! [`MemoryLedger`] is the reference implementation of the ledger port: small and deterministic, with cheap copies of all
//! rows for the model and the simulation. [`fault::FaultLedger`] wraps any ledger and fails at a planned call.

pub mod fault;
pub mod memory;

pub use memory::{MemoryLedger, MemoryRows};
