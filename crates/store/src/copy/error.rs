//! Why a ledger was not copied, in words that say what to do.

use crate::postgres::PostgresOpenError;
use crate::sqlite::OpenError;
use bridge_core::port::RowsError;
use std::io;
use std::path::PathBuf;

/// Why there is no copy. The source is as it was; the destination too, unless a variant says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// A file to a file.
    #[error(
        "both are files, and a file is copied by `codex-bridge backup FILE`, also while the daemon runs; `ledger copy` copies from a file to PostgreSQL, from PostgreSQL to a file, or between two PostgreSQL databases"
    )]
    TwoFiles,
    /// The source is not there.
    #[error(
        "there is no database to copy at {place}; name the state directory with --state-dir, or the database with `[ledger] url`"
    )]
    Missing {
        /// File, or database and host.
        place: String,
    },
    /// Its schema is not this program's.
    #[error(
        "{place} has schema version {found}, and only version {known} is copied; start and stop this version's daemon on it once, which brings it up to date"
    )]
    Older {
        /// File, or database and host.
        place: String,
        /// Its version.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// Daemons use it.
    #[error(
        "{} the database {place}, and nothing was copied; stop {} first: `codex-bridge node list` shows them, `codex-bridge node drain NODE` and SIGTERM end one gently. After a daemon was killed, wait until its lease has ended, which is seconds",
        subject(nodes, "uses", "use"),
        object(nodes)
    )]
    LiveNodes {
        /// Database and host.
        place: String,
        /// Names of the nodes.
        nodes: Vec<String>,
    },
    /// Somebody else opens, copies or writes it.
    #[error(
        "another program writes to the database {place} now: a daemon that starts, or another `ledger copy`; nothing was copied. Wait for it, or end it, and try again"
    )]
    Locked {
        /// Database and host.
        place: String,
    },
    /// A Codex goes on without its daemon.
    #[error(
        "a Codex that an earlier daemon left behind still runs (process {pid}) and may be in the middle of a turn; nothing was copied. Start the daemon and stop it again without --handover, or wait ten minutes: then it ends by itself"
    )]
    CodexRuns {
        /// Its keeper.
        pid: i32,
    },
    /// Something is there already.
    #[error("{place} {found}, and was left as it is; {then}")]
    NotEmpty {
        /// File, or database and host.
        place: String,
        /// What was found.
        found: String,
        /// What to do.
        then: &'static str,
    },
    /// The SQLite file can't be used.
    #[error(transparent)]
    File(#[from] OpenError),
    /// The PostgreSQL database can't be used.
    #[error(transparent)]
    Database(#[from] PostgresOpenError),
    /// The file system refused.
    #[error("cannot {doing} {}; nothing was copied. Check its owner, its permissions and free space", path.display())]
    Disk {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// A row or statement failed.
    #[error("cannot {doing}: {source}. Nothing was copied, and `ledger copy` can be run again")]
    Rows {
        /// What was tried, and with what.
        doing: String,
        /// What happened.
        source: RowsError,
    },
    /// Whether the copy was committed is not known.
    #[error(
        "the connection to {place} broke while the copy was being committed ({source}): it is there as a whole or not at all. Run `ledger copy` again; it refuses if the copy is there"
    )]
    Commit {
        /// Database and host.
        place: String,
        /// What happened.
        source: RowsError,
    },
    /// What was written is not what was read.
    #[error(
        "the copy of table {table} is not what was read ({read} rows, {written} in the copy, and the digests {}), and was not kept; run `codex-bridge doctor`, and report this as a bug if it happens again", if read == written { "differ" } else { "with them" }
    )]
    Differs {
        /// Which one.
        table: String,
        /// Rows of the source.
        read: u64,
        /// Rows of the destination.
        written: u64,
    },
    /// The record of acts is not what it was.
    #[error(
        "the audit record of the copy is not the one of the source, and the copy was not kept; report this as a bug"
    )]
    Audit,
    /// The new file is not sound.
    #[error("the new file is not sound ({}) and was not kept; check the disk of {place}, and run `codex-bridge doctor` on the source", findings.join("; "))]
    Unsound {
        /// Where it was to be.
        place: String,
        /// What is wrong.
        findings: Vec<String>,
    },
    /// A bug.
    #[error("the copy ended by a bug (its thread panicked); the destination is as it was")]
    Panicked,
}

fn subject(nodes: &[String], one: &str, many: &str) -> String {
    match nodes {
        [node] => format!("the node {node} {one}"),
        nodes => format!("the nodes {} {many}", nodes.join(", ")),
    }
}

fn object(nodes: &[String]) -> &'static str {
    if nodes.len() == 1 {
        "its daemon"
    } else {
        "their daemons"
    }
}

impl CopyError {
    pub(crate) fn rows(doing: impl Into<String>) -> impl FnOnce(RowsError) -> Self {
        let doing = doing.into();
        move |source| Self::Rows { doing, source }
    }

    pub(crate) fn disk(
        doing: &'static str,
        path: &std::path::Path,
    ) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Disk {
            doing,
            path,
            source,
        }
    }
}
