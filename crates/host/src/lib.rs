//! Owns Codex processes and the links to them.
//!
//! Everything that spawns, connects, supervises or ends a Codex process is here; what the texts mean is in
//! `bridge-codex`, what happens to a message is in `bridge-core`. Start at [`CodexAgent`], which implements
//! the core's `Agent` port over one app-server for many threads.
//!
//! Rooms: `binary` finds and installs Codex, `process` starts and inspects processes, `keeper` wraps one Codex process,
//! `app_server` owns the connection to it, `thread` sets a thread up, `rollout` brings its file to another CODEX_HOME, `turn` follows a turn and its approvals, `exec`
//! runs `codex exec`, `sandbox` probes the sandbox and read isolation, `self_check` tries a Codex that nobody tested, `rehearsal`
//! replays conversations on it beside the present one.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod agent;
pub mod app_server;
pub mod binary;
mod detached;
mod error;
mod exec;
pub mod form;
pub mod keeper;
pub mod process;
pub mod rehearsal;
pub mod rollout;
pub mod sandbox;
pub mod self_check;
mod terminal;
mod thread;
mod turn;
pub mod upgrade;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use agent::CodexAgent;
pub use app_server::homes::HOMES_MAX;
pub use app_server::{CodexHealth, HostOptions, NewThreads, TransportChoice};
pub use bridge_codex::version;
pub use bridge_codex::wire::account::ApiKey;
pub use detached::start_detached;
pub use keeper::launch::LaunchOptions;
pub use process::notify_command::{NotifyProgram, NotifyProgramError};
pub use terminal::TerminalCommand;
pub use thread::arrive::ThreadArrivalError;
pub use thread::memory::CodexMemory;
pub use turn::CodexStream;
pub use turn::answer::answer_error;

/// Locks a mutex, also after another holder panicked: the data stays usable, and a panic must not spread.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
