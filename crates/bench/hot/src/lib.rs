//! The hot paths of the bridge without its processes: a message's whole life through the ledger on disk, a history
//! behind it, and a turn's deltas through the fold.
//!
//! `bridge-bench` takes their times; the binary of this crate counts their instructions. What a figure must hold is
//! not said here, but in the bench's bars and in `budgets.json`.

pub mod fill;
pub mod fold;
pub mod life;
