//! The `event` table: item-level events of a message, in the order they happened.
//!
//! How many are kept is the core's limit; deltas of a running text never come here.

use super::fields::Fields;
use super::sql;
use crate::page;
use bridge_core::port::RowsError;
use bridge_core::value::{EventKind, ItemEvent, MessageId};
use rusqlite::{Connection, Row, params};

fn read(row: &Row<'_>) -> Result<ItemEvent, RowsError> {
    let mut fields = Fields::of("event of", row);
    Ok(ItemEvent {
        message_id: fields.id(MessageId::new)?,
        ordinal: fields.next()?,
        attempt: fields.next()?,
        kind: fields.word(EventKind::from_word)?,
        text: fields.next()?,
        at: fields.time()?,
    })
}

pub(super) fn after(
    conn: &Connection,
    message_id: &MessageId,
    after: u32,
    limit: u32,
) -> Result<Vec<ItemEvent>, RowsError> {
    let query = "SELECT message_id, ordinal, attempt, kind, text, at FROM event \
         WHERE message_id = ?1 AND ordinal > ?2 ORDER BY ordinal LIMIT ?3";
    sql::many(conn, query, (message_id.as_str(), after, page(limit)), read)
}

pub(super) fn last(conn: &Connection, message_id: &MessageId) -> Result<u32, RowsError> {
    let query = "SELECT max(ordinal) FROM event WHERE message_id = ?1";
    let last = sql::number(conn, query, [message_id.as_str()])?;
    u32::try_from(last.unwrap_or(0)).map_err(|error| RowsError::Damaged {
        what: format!("event of {message_id}"),
        why: error.to_string(),
    })
}

pub(super) fn insert(conn: &Connection, event: &ItemEvent) -> Result<(), RowsError> {
    sql::write(
        conn,
        "INSERT INTO event (message_id, ordinal, attempt, kind, text, at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![
            event.message_id.as_str(),
            event.ordinal,
            event.attempt,
            event.kind.as_str(),
            event.text,
            event.at.0,
        ],
        || format!("new event {}/{}", event.message_id, event.ordinal),
    )
}
