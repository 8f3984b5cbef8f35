//! The `answer` table: at most one row per message, never rewritten.
//!
//! What an answer looks like on a platform is in `reply`.

use super::fields::Fields;
use super::{sql, sums};
use bridge_core::port::RowsError;
use bridge_core::value::{Answer, AnswerSource, MessageId};
use rusqlite::{Connection, Row, params};

fn read(row: &Row<'_>) -> Result<Answer, RowsError> {
    let mut fields = Fields::of("answer", row);
    Ok(Answer {
        message_id: fields.id(MessageId::new)?,
        attempt: fields.next()?,
        source: fields.word(AnswerSource::from_word)?,
        text: fields.text()?,
        created_at: fields.time()?,
    })
}

pub(super) fn of_message(
    conn: &Connection,
    message_id: &MessageId,
) -> Result<Option<Answer>, RowsError> {
    let query = "SELECT message_id, attempt, source, text, text_sum, created_at FROM answer WHERE message_id = ?1";
    sql::one(conn, query, [message_id.as_str()], read)
}

pub(super) fn insert(conn: &Connection, answer: &Answer) -> Result<(), RowsError> {
    sql::write(
        conn,
        "INSERT INTO answer (message_id, attempt, source, text, text_sum, created_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![
            answer.message_id.as_str(),
            answer.attempt,
            answer.source.as_str(),
            answer.text,
            sums::sum(&answer.text),
            answer.created_at.0,
        ],
        || format!("new answer to {}", answer.message_id),
    )
}
