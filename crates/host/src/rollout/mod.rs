//! Codex's rollout files: the append-only file that is a thread, found, followed and brought to another CODEX_HOME.
//!
//! `path` knows their names, `home` finds them, `tail` reads what was appended, `restore` compares and writes, and
//! `newest` reads the id of the last message of ours. ADR 0072 has what was measured. What Codex remembers of a thread
//! beside its file is removed by Codex itself: [`crate::CodexAgent::restore_thread`].

mod error;
mod home;
mod newest;
mod path;
mod restore;
mod tail;
#[cfg(test)]
mod tests;

pub use error::RolloutError;
pub use home::{CodexHome, RolloutFile};
pub use path::RolloutPath;
pub(crate) use restore::RestorePlan;
pub use restore::{RestoreOutcome, RolloutRestore};
pub use tail::{RolloutChange, RolloutMark, RolloutSegment, RolloutTail};
