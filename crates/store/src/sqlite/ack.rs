//! The `ack` table: what is owed to the source of a message.
//!
//! One row per message, written with it; giving the ack is the channel's work.

use super::fields::Fields;
use super::sql;
use crate::page;
use bridge_core::port::RowsError;
use bridge_core::value::{Ack, AckMode, AckState, MessageId};
use rusqlite::{Connection, Row};

fn read(row: &Row<'_>) -> Result<Ack, RowsError> {
    let mut fields = Fields::of("ack of", row);
    let _message_id: String = fields.next()?;
    Ok(Ack {
        mode: fields.word(AckMode::from_word)?,
        state: fields.word(AckState::from_word)?,
    })
}

pub(super) fn of_message(
    conn: &Connection,
    message_id: &MessageId,
) -> Result<Option<Ack>, RowsError> {
    let query = "SELECT message_id, mode, state FROM ack WHERE message_id = ?1";
    sql::one(conn, query, [message_id.as_str()], read)
}

pub(super) fn insert(conn: &Connection, message_id: &MessageId, ack: Ack) -> Result<(), RowsError> {
    sql::write(
        conn,
        "INSERT INTO ack (message_id, mode, state) VALUES (?1, ?2, ?3)",
        [message_id.as_str(), ack.mode.as_str(), ack.state.as_str()],
        || format!("new ack of {message_id}"),
    )
}

pub(super) fn update(
    conn: &Connection,
    message_id: &MessageId,
    state: AckState,
) -> Result<(), RowsError> {
    sql::write(
        conn,
        "UPDATE ack SET state = ?2 WHERE message_id = ?1",
        [message_id.as_str(), state.as_str()],
        || format!("ack of {message_id}"),
    )
}

pub(super) const DUE: &str = "SELECT ack.message_id FROM ack INDEXED BY ack_due JOIN message USING (message_id) \
     WHERE ack.state = 'due' AND ack.message_id > ?1 \
     AND (mode = 'on_custody' OR (mode = 'after_reply' AND (queue IS NULL OR message.state = 'replied') \
         AND NOT EXISTS (SELECT 1 FROM reply WHERE reply.message_id = ack.message_id \
             AND reply.state IN ('queued', 'sending')))) \
     ORDER BY ack.message_id LIMIT ?2";

pub(super) fn due(
    conn: &Connection,
    after: Option<&MessageId>,
    limit: u32,
) -> Result<Vec<MessageId>, RowsError> {
    let after = after.map_or("", MessageId::as_str);
    sql::many(conn, DUE, (after, page(limit)), |row| {
        Fields::of("ack of", row).id(MessageId::new)
    })
}
