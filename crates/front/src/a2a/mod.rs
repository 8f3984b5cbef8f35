//! Codex as an agent among agents: A2A 1.0 over JSON-RPC and HTTP+JSON, and 0.3 where clients still speak it.
//!
//! A task of A2A is a task here, its context a conversation. Both bindings are thin over the same operations, and
//! what a client is told is derived from rows.

mod call;
mod card;
mod extension;
mod fault;
mod hear;
mod legacy;
mod ops;
mod pushed;
mod questions;
mod read;
pub(crate) mod rest;
pub(crate) mod rpc;
mod shape;
mod speak;
mod sse;
mod stream;
mod task;

pub(crate) use card::Ages;
pub use pushed::pushed;
pub(crate) use stream::Tellers;
