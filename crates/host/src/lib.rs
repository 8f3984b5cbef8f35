//! Owns Codex processes and the links to them.
//!
//! Everything that spawns, connects, supervises or ends a Codex process is here; what the texts mean is in
//! `bridge-codex`, what happens to a message is in `bridge-core`. Start at [`CodexAgent`], which implements
//! the core's `Agent` port over one app-server for many threads.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod account;
mod agent;
mod approvals;
mod backlog;
pub mod binary;
mod connection;
pub mod env;
mod error;
mod exec;
pub mod form;
mod history;
mod homes;
mod host;
pub mod install;
pub mod isolation_probe;
pub mod keeper;
mod launch;
pub mod launcher;
mod mailbox;
mod mailboxes;
mod notify_command;
mod oneshot;
mod operator;
pub mod own;
pub mod peer;
mod permissions;
pub mod process;
pub mod process_tree;
mod read_isolation;
pub mod reexec;
mod reply;
pub mod sandbox;
pub mod socket_dir;
mod stream;
mod supervise;
mod thread;
mod thread_registry;
mod transcript;
mod transport;
mod unconfirmed;

pub use agent::CodexAgent;
pub use bridge_codex::version;
pub use bridge_codex::wire::account::Secret;
pub use homes::HOMES_MAX;
pub use host::{CodexHealth, HostOptions, NewThreads, TransportChoice};
pub use launch::LaunchOptions;
pub use notify_command::{NotifyProgram, NotifyProgramError};
pub use reply::answer_error;
pub use stream::CodexStream;
