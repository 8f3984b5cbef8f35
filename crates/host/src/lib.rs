//! Owns Codex processes and the links to them.
//!
//! Everything that spawns, connects, supervises or ends a Codex process is here; what the texts mean is in
//! `bridge-codex`, what happens to a message is in `bridge-core`. Start at [`CodexAgent`], which implements
//! the core's `Agent` port over one app-server for many threads.

mod account;
mod agent;
mod backlog;
pub mod binary;
mod book;
mod connection;
pub mod env;
mod exec;
mod fault;
mod history;
mod host;
pub mod install;
pub mod keeper;
mod launch;
mod mailbox;
mod oneshot;
mod operator;
pub mod own;
pub mod process;
pub mod proof;
mod proven;
pub mod sandbox;
mod shield;
mod supervise;
mod thread;
mod told;
mod transcript;
mod transport;

pub use agent::{CodexAgent, CodexStream};
pub use host::{Health, HostOptions, TransportChoice};
pub use launch::LaunchOptions;
pub use told::{TellCommand, TellError};
