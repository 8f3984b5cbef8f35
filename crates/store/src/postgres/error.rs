//! Why a ledger on PostgreSQL can't be opened, in words that say what to do.

use bridge_core::port::{LedgerError, RowsError};
use std::io;
use std::path::PathBuf;

/// Why the ledger could not be opened. A database that is refused is as it was.
#[derive(Debug, thiserror::Error)]
pub enum PostgresOpenError {
    /// It is no URL of PostgreSQL.
    #[error(
        "the database's URL must begin with postgres://, such as postgres://user@host/database?sslmode=verify-full"
    )]
    NoUrl,
    /// The driver does not understand it.
    #[error("the database's URL can't be read; check host, port and parameters")]
    Url {
        /// The driver's words, which do not repeat values.
        source: tokio_postgres::Error,
    },
    /// The word of `sslmode` is unknown.
    #[error(
        "the database's URL has an unknown `sslmode`; use verify-full, or leave it out for a server on this machine"
    )]
    SslMode,
    /// The server is elsewhere, and nothing says who it is.
    #[error(
        "the database's server {host} is not on this machine and must be verified; add `sslmode=verify-full` to the URL, and `sslrootcert=FILE` if its certificate is not from a public authority"
    )]
    Unverified {
        /// Which one.
        host: String,
    },
    /// This system knows no authorities.
    #[error(
        "there are no certificates to verify the database's server with; install `ca-certificates`, or name a file with `sslrootcert=FILE` in the URL"
    )]
    NoCertificates,
    /// The file can't be read.
    #[error("cannot read the certificates in {}", path.display())]
    Certificates {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        source: rustls::pki_types::pem::Error,
    },
    /// TLS can't be set up.
    #[error("cannot set up TLS for the database")]
    Tls {
        /// What is wrong.
        source: rustls::Error,
    },
    /// Nobody answers.
    #[error(
        "cannot reach the database {place}; check that its server runs and that host and port in the URL are right"
    )]
    Unreachable {
        /// Database and host.
        place: String,
        /// The driver's words.
        source: tokio_postgres::Error,
    },
    /// Nobody says that it is the server that is meant.
    #[error("the database {place} is not used, because its server is not verified: {why}")]
    Untrusted {
        /// Database and host.
        place: String,
        /// What is wrong, and what to do.
        why: String,
        /// The driver's words.
        source: tokio_postgres::Error,
    },
    /// The server does not let us in.
    #[error(
        "the database {place} refuses this user: {why}; check user, password and database in the URL, and the server's pg_hba.conf"
    )]
    Refused {
        /// Database and host.
        place: String,
        /// The server's words.
        why: String,
    },
    /// It takes no writes.
    #[error(
        "the database {place} takes no writes: it is a standby, or read-only; name the primary in the URL"
    )]
    ReadOnly {
        /// Database and host.
        place: String,
    },
    /// Texts would not come back.
    #[error(
        "the database {place} has the encoding {encoding}; create one with `CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0`"
    )]
    Encoding {
        /// Database and host.
        place: String,
        /// Its encoding.
        encoding: String,
    },
    /// It belongs to another program.
    #[error(
        "the database {place} holds tables of another program, and was left as it is; create an empty database for the bridge and name that"
    )]
    Foreign {
        /// Database and host.
        place: String,
    },
    /// It was to be empty.
    #[error(
        "the database {place} has a ledger already, and was left as it is; name an empty one. What a demo that was killed left there goes with `DROP SCHEMA codex_bridge CASCADE`"
    )]
    NotEmpty {
        /// Database and host.
        place: String,
    },
    /// A newer codex-bridge made it.
    #[error(
        "the database {place} has schema version {found}, and this codex-bridge knows versions up to {known}; run the newer codex-bridge"
    )]
    Newer {
        /// Database and host.
        place: String,
        /// Its version.
        found: i64,
        /// The newest version of this program.
        known: i64,
    },
    /// Its tables must change, and nodes run that could not use them then.
    #[error(
        "the database {place} must be changed to schema version {version}, which the programs of these nodes can't use: {nodes}; nothing was changed. Stop them first (`codex-bridge node drain NODE`; of one that was killed, wait until its lease has ended), then start this codex-bridge, then theirs in its version"
    )]
    OlderNodes {
        /// Database and host.
        place: String,
        /// The version of this program.
        version: i64,
        /// Their names.
        nodes: String,
    },
    /// A change of its tables failed and was undone.
    #[error(
        "cannot change the database {place} to schema version {version}; nothing was changed. If a statement or a lock took too long, stop the other nodes and start this one first: it may take its time then"
    )]
    Migrate {
        /// Database and host.
        place: String,
        /// To which version.
        version: i64,
        /// What happened.
        source: LedgerError,
    },
    /// Something went wrong while it was opened.
    #[error("cannot open the database {place}")]
    Failed {
        /// Database and host.
        place: String,
        /// What happened.
        source: LedgerError,
    },
    /// The system gives no threads.
    #[error("cannot start the database's threads; check the limits of this user")]
    Threads {
        /// The system's words.
        source: io::Error,
    },
}

pub(super) use PostgresOpenError as OpenError;

impl OpenError {
    pub(super) fn failed(place: &str, source: impl Into<LedgerError>) -> Self {
        Self::Failed {
            place: place.to_owned(),
            source: source.into(),
        }
    }

    pub(super) fn rows(place: &str) -> impl Fn(RowsError) -> Self {
        move |error| Self::failed(place, error)
    }
}
