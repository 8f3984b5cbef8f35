//! Owns Codex processes and the links to them.
//!
//! Everything that spawns, connects, supervises or ends a Codex process is here; what the texts mean is in
//! `bridge-codex`, what happens to a message is in `bridge-core`. Start at [`CodexAgent`], which implements
//! the core's `Agent` port over one app-server for many threads.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod account;
pub mod adopted;
pub mod again;
mod agent;
mod backlog;
pub mod binary;
mod book;
mod connection;
pub mod descent;
pub mod env;
mod exec;
mod fault;
mod history;
mod homes;
mod host;
pub mod install;
pub mod keeper;
mod launch;
pub mod launcher;
mod mailbox;
mod mailboxes;
mod oneshot;
mod operator;
pub mod own;
pub mod peer;
mod power;
pub mod process;
pub mod proof;
mod proven;
mod questions;
mod reply;
pub mod sandbox;
mod shield;
pub mod socket_dir;
mod stream;
mod supervise;
mod thread;
mod told;
mod transcript;
mod transport;
mod unconfirmed;

pub use agent::CodexAgent;
pub use bridge_codex::version;
pub use bridge_codex::wire::account::Secret;
pub use homes::HOMES_MAX;
pub use host::{Health, HostOptions, NewThreads, TransportChoice};
pub use launch::LaunchOptions;
pub use reply::misfit;
pub use stream::CodexStream;
pub use told::{TellCommand, TellError};
