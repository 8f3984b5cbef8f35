//! Codex as an A2A agent: version 1.0 over JSON-RPC and HTTP+JSON, and 0.3 for older clients.
//!
//! A task of A2A is a task here, its context a conversation. Both bindings are thin over the same operations, and
//! responses are derived from rows.

mod call;
mod card;
mod decode;
mod error;
mod extension;
mod legacy;
mod ops;
mod parse;
mod push_payload;
mod questions;
pub(crate) mod rest;
pub(crate) mod rpc;
mod schema;
mod sse;
mod stream;
mod task;

pub(crate) use card::Ages;
pub(crate) use ops::Op;
pub use push_payload::push_payload;
pub(crate) use stream::Publishers;
