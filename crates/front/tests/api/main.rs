//! The API over a ledger in memory, under a clock that tests move: slow readers and who may do what.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't go on must fail where it stands"
)]

mod a2a;
mod audit;
mod control;
mod dead;
mod files;
mod finding;
mod lists;
mod nodes;
mod requests;
mod service;
mod sessions;
mod slow_readers;
mod tokens;
