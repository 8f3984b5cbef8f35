//! Is the file sound? SQLite's own quick check, bounded in what it tells.
//!
//! The daemon asks once it is ready, and a migration before it begins; repairing is not done here.

use super::open::for_check;
use super::{sql, sums};
use bridge_core::port::{LedgerError, RowsError};
use rusqlite::Connection;
use std::path::PathBuf;
use std::thread;
use tokio::sync::oneshot;

/// Findings that are told; one is enough to stop, a few help whoever repairs.
const FINDINGS_MAX: u32 = 10;

/// What rows say twice must agree; a finding per row that does not.
const CONSISTENT: [&str; 3] = [
    "SELECT 'message ' || message_id || ' has no text' FROM message \
     WHERE row NOT IN (SELECT row FROM message_text)",
    "SELECT 'a reply to ' || message_id || ' has no text' FROM reply \
     WHERE row NOT IN (SELECT row FROM reply_text)",
    "SELECT 'a reply to ' || message_id || ' is in the lane of another conversation' \
     FROM reply JOIN message USING (message_id) \
     WHERE reply.conversation_id <> message.conversation_id OR reply.seq <> message.seq",
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

/// Checks the file on a thread and a connection of its own: it may take seconds and must hold up nobody.
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
        Soundness::Sound => texts(conn),
        damaged @ Soundness::Damaged { .. } => Ok(damaged),
    }
}

/// Whether every text is what was stored.
fn texts(conn: &Connection) -> Result<Soundness, RowsError> {
    let findings = match sums::check(conn, FINDINGS_MAX as usize) {
        Ok(findings) => findings,
        Err(RowsError::Damaged { why, .. }) => vec![why],
        Err(error @ (RowsError::Backend { .. } | RowsError::Conflict { .. })) => return Err(error),
    };
    Ok(if findings.is_empty() {
        Soundness::Sound
    } else {
        Soundness::Damaged { findings }
    })
}

/// Everything that can be checked: indexes, references and what is said twice too.
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
    texts(conn)
}

/// Damage that keeps SQLite from even looking is damage too.
fn judge(conn: &Connection, query: &str) -> Result<Soundness, RowsError> {
    let found = sql::many(conn, query, [], |row| row.get(0).map_err(sql::failed));
    let findings: Vec<String> = match found {
        Ok(findings) => findings,
        Err(RowsError::Damaged { why, .. }) => vec![why],
        Err(error @ (RowsError::Backend { .. } | RowsError::Conflict { .. })) => return Err(error),
    };
    if findings.iter().all(|finding| finding == "ok") {
        Ok(Soundness::Sound)
    } else {
        Ok(Soundness::Damaged { findings })
    }
}
