//! The `audit` table: what people did by hand, append-only. Each row is summed with the one before, and the ends of the
//! chain are kept in `instance`.

use super::fields::Fields;
use super::migrate::{self, MIGRATIONS};
use super::open::{OpenError, for_check};
use super::sql;
use crate::page;
use bridge_core::port::RowsError;
use bridge_core::value::{
    AuditCheck, AuditEnds, AuditEntry, AuditFound, AuditLink, MessageId, Timestamp,
};
use rusqlite::{Connection, Row, params};
use std::path::Path;

const LINKS: &str = "SELECT row, sum, subject, at, actor, what, detail FROM audit ORDER BY row";

pub(super) fn insert(conn: &Connection, entry: &AuditEntry) -> Result<(), RowsError> {
    let row = sql::number(conn, "SELECT max(row) FROM audit", [])?.unwrap_or(0) + 1;
    let ends = ends(conn)?;
    let before = ends.newest.or(ends.removed).unwrap_or_default();
    let sum = entry.sum(&before, row);
    sql::write(
        conn,
        "INSERT INTO audit (row, at, actor, what, subject, detail, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            row,
            entry.at.0,
            entry.actor,
            entry.what,
            entry.subject,
            entry.detail,
            sum
        ],
        || "new audit entry".to_owned(),
    )?;
    sql::run(conn, "UPDATE instance SET audit_head = ?1", [sum])
}

/// Removes what is older, from the front only: a hole would look like a deed.
pub(super) fn forget(conn: &Connection, before: Timestamp) -> Result<(), RowsError> {
    let kept = "SELECT min(row) FROM audit WHERE at >= ?1";
    let kept = sql::number(conn, kept, [before.0])?.unwrap_or(i64::MAX);
    let newest = "SELECT sum FROM audit WHERE row < ?1 ORDER BY row DESC LIMIT 1";
    let removed = sql::one(conn, newest, [kept], |row| row.get(0).map_err(sql::failed))?;
    if let Some(sum) = removed.flatten() {
        let sum: String = sum;
        sql::run(conn, "UPDATE instance SET audit_sum = ?1", [sum])?;
    }
    sql::run(conn, "DELETE FROM audit WHERE row < ?1", [kept])
}

/// Begins the chain anew behind rows that were saved from a damaged ledger: there may be holes between them.
pub(super) fn unchain(conn: &Connection) -> Result<(), RowsError> {
    sql::run(conn, "UPDATE audit SET sum = NULL", [])?;
    sql::run(
        conn,
        "UPDATE instance SET audit_sum = NULL, audit_head = NULL",
        [],
    )
}

fn ends(conn: &Connection) -> Result<AuditEnds, RowsError> {
    let query = "SELECT audit_sum, audit_head FROM instance";
    let found = sql::one(conn, query, [], |row| {
        Ok(AuditEnds {
            removed: row.get(0).map_err(sql::failed)?,
            newest: row.get(1).map_err(sql::failed)?,
        })
    })?;
    Ok(found.unwrap_or_default())
}

pub(super) fn newest(conn: &Connection, limit: u32) -> Result<Vec<AuditEntry>, RowsError> {
    let query = "SELECT subject, at, actor, what, detail FROM audit ORDER BY row DESC LIMIT ?1";
    sql::many(conn, query, [page(limit)], read)
}

/// People do little by hand, so that all of it may be walked through.
pub(super) fn of_message(
    conn: &Connection,
    message_id: &MessageId,
    limit: u32,
) -> Result<Vec<AuditEntry>, RowsError> {
    let query = "SELECT subject, at, actor, what, detail FROM audit WHERE subject = ?1 \
                 ORDER BY row DESC LIMIT ?2";
    sql::many(conn, query, (message_id.as_str(), page(limit)), read)
}

fn read(row: &Row<'_>) -> Result<AuditEntry, RowsError> {
    entry(&mut Fields::of("audit entry of", row))
}

fn entry(fields: &mut Fields<'_, '_>) -> Result<AuditEntry, RowsError> {
    Ok(AuditEntry {
        subject: fields.next()?,
        at: fields.time()?,
        actor: fields.next()?,
        what: fields.next()?,
        detail: fields.next()?,
    })
}

fn link(row: &Row<'_>) -> Result<AuditLink, RowsError> {
    let mut fields = Fields::of("audit row", row);
    let number: i64 = fields.next()?;
    Ok(AuditLink {
        row: number,
        sum: fields.next()?,
        entry: entry(&mut fields)?,
    })
}

/// The record as a person looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// The newest entries with their numbers, newest first.
    pub newest: Vec<(i64, AuditEntry)>,
    /// What the chain amounts to, or what was done to it.
    pub chain: Result<AuditFound, String>,
}

/// Reads the record of the ledger at `path` and goes along its chain, beside a daemon if one runs. `None` where there is
/// no ledger yet, or one from before the chain.
pub fn audit(path: &Path, limit: u32) -> Result<Option<AuditRecord>, OpenError> {
    if !path.exists() {
        return Ok(None);
    }
    let sqlite = |error| OpenError::sqlite(path, error);
    let mut conn = for_check(path).map_err(sqlite)?;
    migrate::check_ours(&conn, path, MIGRATIONS)?;
    let is_chained = "SELECT count(*) FROM pragma_table_info('instance') WHERE name = 'audit_head'";
    let known: i64 = conn
        .query_row(is_chained, [], |row| row.get(0))
        .map_err(sqlite)?;
    if known == 0 {
        return Ok(None);
    }
    // One view of both tables: a daemon may write meanwhile.
    let transaction = conn.transaction().map_err(sqlite)?;
    let read = walk(&transaction, limit);
    read.map(Some).map_err(|error| OpenError::Damaged {
        path: path.to_owned(),
        findings: vec![error.to_string()],
    })
}

fn walk(conn: &Connection, limit: u32) -> Result<AuditRecord, RowsError> {
    let mut check = AuditCheck::new(ends(conn)?);
    let mut newest = std::collections::VecDeque::new();
    let keep = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut broken = None;
    let mut statement = conn.prepare(LINKS).map_err(sql::failed)?;
    let mut rows = statement.query([]).map_err(sql::failed)?;
    while let Some(row) = rows.next().map_err(sql::failed)? {
        let link = link(row)?;
        if broken.is_none() {
            broken = check.next(&link).err();
        }
        newest.push_front((link.row, link.entry));
        newest.truncate(keep);
    }
    Ok(AuditRecord {
        newest: newest.into(),
        chain: match broken {
            Some(why) => Err(why),
            None => check.end(),
        },
    })
}
