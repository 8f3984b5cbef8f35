//! Looks at a ledger without taking it over: is it there, is it ours, is it sound?
//!
//! Nothing is written, and a daemon may use the ledger meanwhile.

use super::check::{self, Soundness};
use super::files::log_of;
use super::log::{self, Log};
use super::migrate::{self, MIGRATIONS};
use super::open::{OpenError, expect_no_link, for_check, recovered_place};
use bridge_core::port::RowsError;
use std::io;
use std::path::Path;

/// How much is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Every page and row.
    Quick,
    /// Indexes and references too, which takes several times as long.
    Thorough,
}

/// What was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inspection {
    /// There is none yet.
    Missing,
    /// A recovery was cut while it put a new ledger in place.
    RecoveryCut,
    /// Nothing is wrong with it.
    Sound {
        /// How many messages it holds.
        messages: u64,
    },
    /// It can't be trusted.
    Damaged {
        /// What was found.
        findings: Vec<String>,
    },
}

/// Looks at the ledger at `path`. One of another program or a newer version is an error.
pub fn inspect(path: &Path, depth: Depth) -> Result<Inspection, OpenError> {
    let log = log_of(path);
    expect_no_link(path)?;
    if recovered_place(path).exists() {
        return Ok(Inspection::RecoveryCut);
    }
    match (path.exists(), log.exists()) {
        (false, false) => return Ok(Inspection::Missing),
        (false, true) => return damaged("it is gone, and its log is there"),
        (true, _) => {}
    }
    let failed = |source| file(path, source);
    if std::fs::metadata(path).map_err(failed)?.len() == 0 {
        return damaged("it is empty");
    }
    if let Log::Broken { what } = log::examine(&log).map_err(failed)? {
        return damaged(&what);
    }
    let conn = match for_check(path) {
        Ok(conn) => conn,
        Err(error) => return refused(OpenError::sqlite(path, error)),
    };
    if let Err(error) = migrate::check_ours(&conn, path, MIGRATIONS) {
        return refused(error);
    }
    let found = match depth {
        Depth::Quick => check::soundness(&conn),
        Depth::Thorough => check::thoroughly(&conn),
    };
    match found {
        Ok(Soundness::Sound) => {}
        Ok(Soundness::Damaged { findings }) => return Ok(Inspection::Damaged { findings }),
        Err(
            error @ (RowsError::Backend { .. }
            | RowsError::Conflict { .. }
            | RowsError::Damaged { .. }),
        ) => return damaged(&error.to_string()),
    }
    let count = "SELECT count(*) FROM message";
    let messages = conn.query_row(count, [], |row| row.get::<_, i64>(0));
    match messages {
        Ok(messages) => Ok(Inspection::Sound {
            messages: u64::try_from(messages).unwrap_or(0),
        }),
        Err(error) => damaged(&error.to_string()),
    }
}

fn damaged(finding: &str) -> Result<Inspection, OpenError> {
    Ok(Inspection::Damaged {
        findings: vec![finding.to_owned()],
    })
}

/// Damage is a finding; everything else is an error.
fn refused(error: OpenError) -> Result<Inspection, OpenError> {
    match error {
        OpenError::Damaged { findings, .. } => Ok(Inspection::Damaged { findings }),
        OpenError::NotADatabase { .. } => damaged("it does not begin as a database does"),
        error @ (OpenError::File { .. }
        | OpenError::Link { .. }
        | OpenError::Foreign { .. }
        | OpenError::Unreleased { .. }
        | OpenError::Newer { .. }
        | OpenError::RecoveryCut { .. }
        | OpenError::Backup(_)
        | OpenError::Migrate { .. }
        | OpenError::NoLog { .. }
        | OpenError::Sqlite { .. }
        | OpenError::Threads { .. }) => Err(error),
    }
}

fn file(path: &Path, source: io::Error) -> OpenError {
    OpenError::File {
        doing: "read",
        path: path.to_owned(),
        source,
    }
}
