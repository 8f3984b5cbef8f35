//! What can be wrong with rollout files.

use std::io;
use std::path::{Path, PathBuf};

/// Why a rollout file can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RolloutError {
    #[error("{what} {}: {source}", path.display())]
    Io {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("{0:?} is no thread id of Codex, so no file is looked for")]
    NoThreadId(String),
    #[error("{0:?} is no path of a rollout file, so it is neither read nor written")]
    NoRolloutPath(String),
    #[error(
        "{} is a link or no ordinary file, so it is not used: a thread's file is a file in CODEX_HOME itself; put the file there, or move CODEX_HOME as a whole", .0.display()
    )]
    NotOrdinary(PathBuf),
    #[error("{} holds more entries than are looked through; remove old threads there", .0.display())]
    TooMany(PathBuf),
    #[error(
        "the history of thread {thread} goes on in {missing}, which is not in this CODEX_HOME: it was forked from a thread whose file is gone"
    )]
    NoBase { thread: String, missing: String },
    #[error("the history of thread {0} goes round in a circle or through too many files")]
    EndlessLineage(String),
    #[error("{} is compressed: only Codex reads it", .0.display())]
    Compressed(PathBuf),
    #[error("{} has a line that is too long to be read", .0.display())]
    LongLine(PathBuf),
    #[error(
        "the stored bytes of {path} have a gap: {expected} were there and the next part begins at {found}"
    )]
    Gap {
        path: String,
        expected: u64,
        found: u64,
    },
    #[error("no file was begun")]
    NothingBegun,
}

impl RolloutError {
    pub(super) fn io<'a>(
        what: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| Self::Io {
            what,
            path: path.to_owned(),
            source,
        }
    }

    /// A file that was read before is not there any more.
    pub(crate) fn gone(path: &str) -> Self {
        Self::io("find", Path::new(path))(io::ErrorKind::NotFound.into())
    }

    /// Whether it says that a file is not there.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}
