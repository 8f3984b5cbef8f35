//! Checks of a ledger file: whether it is there, is ours and is sound. Nothing is written or repaired here.
//!
//! The daemon checks once it is ready, and a migration before it begins; [`inspect`] also works beside a daemon that uses
//! the ledger.

use super::files::log_of;
use super::log::{self, Log};
use super::migrate::{self, MIGRATIONS};
use super::open::{OpenError, expect_no_link, for_check, recovered_place};
use super::texts;
use crate::sql;
use bridge_core::port::{LedgerError, RowsError};
use rusqlite::Connection;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use tokio::sync::oneshot;

/// Findings that are reported: one is enough to stop, a few help to repair.
const FINDINGS_MAX: u32 = 10;

/// One finding per row whose redundant columns disagree. A redriven message has a later place than its earlier replies,
/// which keep theirs.
const CONSISTENT: [&str; 4] = [
    "SELECT 'task ' || task_id || ' is on another channel than its conversation' \
     FROM task JOIN conversation USING (conversation_id) WHERE task.channel <> conversation.channel",
    "SELECT 'message ' || message_id || ' has no text' FROM message \
     WHERE row NOT IN (SELECT row FROM message_text)",
    "SELECT 'a reply to ' || message_id || ' has no text' FROM reply \
     WHERE row NOT IN (SELECT row FROM reply_text)",
    "SELECT 'a reply to ' || message_id || ' is in the lane of another conversation' \
     FROM reply JOIN message USING (message_id) \
     WHERE reply.conversation_id <> message.conversation_id OR reply.seq > message.seq",
];

/// What a check of the file found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Soundness {
    /// Nothing is wrong.
    Sound,
    /// Something is; restore a backup before anything else is written.
    Damaged {
        /// SQLite's own words, the first few.
        findings: Vec<String>,
    },
}

/// Checks the file on a thread and a connection of its own: it may take seconds and must not block the writer or a reader.
pub(super) async fn quick_check(path: PathBuf) -> Result<Soundness, LedgerError> {
    let (caller, answer) = oneshot::channel();
    thread::Builder::new()
        .name("ledger-check".to_owned())
        .spawn(move || {
            let checked = for_check(&path)
                .map_err(sql::failed)
                .and_then(|conn| soundness(&conn));
            // The caller may have gone away; then nobody needs the answer.
            let _ = caller.send(checked);
        })
        .map_err(|error| LedgerError::Unavailable {
            what: format!("the check could not start: {error}"),
        })?;
    let checked = answer.await.map_err(|_| LedgerError::Unavailable {
        what: "the check ended without a result".to_owned(),
    })?;
    Ok(checked?)
}

/// SQLite's quick check: every page, row and constraint, without comparing indexes with their tables; then the texts.
pub(super) fn soundness(conn: &Connection) -> Result<Soundness, RowsError> {
    match judge(conn, &format!("PRAGMA quick_check({FINDINGS_MAX})"))? {
        Soundness::Sound => texts_hold(conn),
        damaged @ Soundness::Damaged { .. } => Ok(damaged),
    }
}

/// Compares every text with its checksum.
fn texts_hold(conn: &Connection) -> Result<Soundness, RowsError> {
    let findings = match texts::check(conn, FINDINGS_MAX as usize) {
        Ok(findings) => findings,
        Err(RowsError::Damaged { why, .. } | RowsError::Unreadable { why, .. }) => vec![why],
        Err(error @ (RowsError::Backend { .. } | RowsError::Conflict { .. })) => return Err(error),
    };
    Ok(if findings.is_empty() {
        Soundness::Sound
    } else {
        Soundness::Damaged { findings }
    })
}

/// Everything that can be checked: indexes, references and redundant columns too.
pub(super) fn thoroughly(conn: &Connection) -> Result<Soundness, RowsError> {
    let whole = judge(conn, &format!("PRAGMA integrity_check({FINDINGS_MAX})"))?;
    if whole != Soundness::Sound {
        return Ok(whole);
    }
    let query = format!(
        "SELECT 'a row of ' || \"table\" || ' belongs to a row of ' || parent || ' that is missing' \
         FROM pragma_foreign_key_check LIMIT {FINDINGS_MAX}"
    );
    let referenced = judge(conn, &query)?;
    if referenced != Soundness::Sound {
        return Ok(referenced);
    }
    for query in CONSISTENT {
        let found = judge(conn, &format!("{query} LIMIT {FINDINGS_MAX}"))?;
        if found != Soundness::Sound {
            return Ok(found);
        }
    }
    texts_hold(conn)
}

/// Damage that keeps SQLite from even looking is damage too.
fn judge(conn: &Connection, query: &str) -> Result<Soundness, RowsError> {
    let found = sql::many(conn.into(), query, [], |row| {
        row.get(0).map_err(sql::failed)
    });
    let findings: Vec<String> = match found {
        Ok(findings) => findings,
        Err(RowsError::Damaged { why, .. } | RowsError::Unreadable { why, .. }) => vec![why],
        Err(error @ (RowsError::Backend { .. } | RowsError::Conflict { .. })) => return Err(error),
    };
    if findings.iter().all(|finding| finding == "ok") {
        Ok(Soundness::Sound)
    } else {
        Ok(Soundness::Damaged { findings })
    }
}

/// How much [`inspect`] checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Every page and row.
    Quick,
    /// Indexes and references too, which takes several times as long.
    Thorough,
}

/// State of the ledger file.
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
        Depth::Quick => soundness(&conn),
        Depth::Thorough => thoroughly(&conn),
    };
    match found {
        Ok(Soundness::Sound) => {}
        Ok(Soundness::Damaged { findings }) => return Ok(Inspection::Damaged { findings }),
        Err(
            error @ (RowsError::Backend { .. }
            | RowsError::Conflict { .. }
            | RowsError::Unreadable { .. }
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
