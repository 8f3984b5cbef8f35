//! The `audit` table: what people did by hand, append-only.

use super::fields::Fields;
use super::sql;
use crate::page;
use bridge_core::port::RowsError;
use bridge_core::value::{AuditEntry, MessageId};
use rusqlite::{Connection, Row, params};

pub(super) fn insert(conn: &Connection, entry: &AuditEntry) -> Result<(), RowsError> {
    sql::write(
        conn,
        "INSERT INTO audit (at, actor, what, subject, detail) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![
            entry.at.0,
            entry.actor,
            entry.what,
            entry.subject,
            entry.detail
        ],
        || "new audit entry".to_owned(),
    )
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
    let mut fields = Fields::of("audit entry of", row);
    Ok(AuditEntry {
        subject: fields.next()?,
        at: fields.time()?,
        actor: fields.next()?,
        what: fields.next()?,
        detail: fields.next()?,
    })
}
