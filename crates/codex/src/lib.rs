//! Codex app-server as a typed peer, without IO.
//!
//! Texts go in and come out; sockets, processes, files, clocks and random sources live elsewhere,
//! and `now_ms` is always an argument. Every field name here was taken from the schema that the
//! real binary generates; [`schema`] compares them again, on every test run and with every Codex that is newer than the
//! tested ones.
//! [`exec`] reads the lines of `codex exec`. Start at [`link::Link`] for requests, [`turn::TurnFold`] for a running turn,
//! and [`oracle`] to find a message after a crash.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod answer;
pub mod exec;
pub mod frame;
pub mod link;
pub mod oracle;
pub mod rpc;
pub mod schema;
mod text;
pub mod turn;
pub mod version;
pub mod wire;
