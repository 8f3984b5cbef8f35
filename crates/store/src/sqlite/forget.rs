//! Deletes finished messages with their dependent rows, and old records. The core decides about what may go; the
//! guards here only refuse unfinished messages.

use super::{audit, budget, sql, task};
use crate::key::LedgerKey;
use bridge_core::port::{OldRecords, RowsError};
use bridge_core::value::{MessageId, StateName};
use rusqlite::Connection;

/// Deletes the dependent rows of a message, children before parents.
const OF_MESSAGE: [&str; 7] = [
    "DELETE FROM reply_text WHERE row IN (SELECT row FROM reply WHERE message_id = ?1)",
    "DELETE FROM reply WHERE message_id = ?1",
    "DELETE FROM event WHERE message_id = ?1",
    "DELETE FROM request WHERE message_id = ?1",
    "DELETE FROM answer WHERE message_id = ?1",
    "DELETE FROM turn WHERE message_id = ?1",
    "DELETE FROM message_text WHERE row = (SELECT row FROM message WHERE message_id = ?1)",
];

pub(super) fn message(conn: &Connection, id: &MessageId, from: StateName) -> Result<(), RowsError> {
    task::forget(conn, id)?;
    for statement in OF_MESSAGE {
        sql::run(conn, statement, [id.as_str()])?;
    }
    sql::write(
        conn,
        "DELETE FROM message WHERE message_id = ?1 AND state = ?2 AND queue IS NULL",
        [id.as_str(), from.as_str()],
        || format!("forgetting message {id}"),
    )
}

pub(super) fn records(
    conn: &Connection,
    key: &LedgerKey,
    old: OldRecords,
) -> Result<(), RowsError> {
    sql::run(
        conn,
        "DELETE FROM incarnation WHERE ended_at IS NOT NULL AND ended_at < ?1",
        [old.incarnations.0],
    )?;
    budget::forget_stored(conn, old.stored)?;
    audit::forget(conn, key, old.audit)
}
