//! The one error of this crate: what a test or a drill waited for and did not get.
//! Refusals that the scripted model plays to Codex are not errors of ours;
//! they are in `model`.

use std::path::PathBuf;
use std::time::Duration;

/// What went wrong in the stand-ins.
///
/// `Debug` prints the message, because tests unwrap these and their reader must see what to do.
#[derive(thiserror::Error)]
pub enum Error {
    /// Something a test waited for did not happen within the model's patience.
    #[error(
        "waited {waited:?} in vain for {what}; the model saw {requests} requests, the last one said {last:?}"
    )]
    NeverHappened {
        /// What was waited for.
        what: String,
        /// How long.
        waited: Duration,
        /// How many requests the model had seen by then.
        requests: u64,
        /// The last user message of the last request, shortened.
        last: String,
    },
    /// Something a test waited for did not happen on the platform within its patience.
    #[error("waited {waited:?} in vain for {what} on the platform, which saw {events} events")]
    NeverOnPlatform {
        /// What was waited for.
        what: String,
        /// How long.
        waited: Duration,
        /// How many events it had seen by then.
        events: usize,
    },
    /// Every canvas has its conversation.
    #[error("no canvas is left for another conversation; start the platform with more of them")]
    NoCanvas,
    /// A message that an actor wrote is not in the platform's table.
    #[error(
        "the platform stored nothing: it is full, the workspace is unknown, its messageId was known, or the text has a NUL"
    )]
    NotStored,
    /// A drill can't go on.
    #[error("{what}: {source}")]
    Drill {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
    /// No Codex to drive.
    #[error(
        "no Codex binary found (looked for {looked}); run `cargo xtask test`, which installs the pinned Codex"
    )]
    CodexMissing {
        /// Where it was looked for.
        looked: String,
    },
    /// The variable names a file that is not there.
    #[error("{var} names {path:?}, which is not a file; correct it or unset it")]
    CodexMisnamed {
        /// The variable.
        var: &'static str,
        /// What it says.
        path: PathBuf,
    },
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
