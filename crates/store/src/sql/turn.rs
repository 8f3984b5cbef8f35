//! What Codex did for a message: the tables `turn` (one row per attempt), `answer` (at most one row, never rewritten)
//! and `event` (what happened in a turn, in order).
//!
//! Column mapping only; a turn is always rewritten whole. How many events are kept is the core's limit.

use super::fields::Fields;
use super::sums;
use crate::page;
use crate::sql::{self, Conn, Row, params};
use bridge_core::port::RowsError;
use bridge_core::value::{
    Answer, BootId, ClientId, Epoch, IncarnationId, ItemEvent, MessageId, ThreadId, Turn, TurnId,
    Usage,
};
use rusqlite::ToSql;

const SELECT: &str = "SELECT message_id, attempt, client_id, epoch, boot_id, incarnation, thread, \
     after_turn, turn_id, sandbox, state, touched, started_at, ended_at, input_tokens, \
     output_tokens, row_sum FROM turn WHERE message_id = ?1 AND attempt = ?2";

const INSERT: &str = "INSERT INTO turn (message_id, attempt, client_id, epoch, boot_id, \
     incarnation, thread, after_turn, turn_id, sandbox, state, touched, started_at, ended_at, \
     input_tokens, output_tokens, row_sum, spender) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, \
     (SELECT channel || '\n' || sender FROM message WHERE message_id = ?1))";

const UPDATE: &str = "UPDATE turn SET client_id = ?3, epoch = ?4, boot_id = ?5, \
     incarnation = ?6, thread = ?7, after_turn = ?8, turn_id = ?9, sandbox = ?10, state = ?11, \
     touched = ?12, ended_at = ?14, input_tokens = ?15, output_tokens = ?16, row_sum = ?17 \
     WHERE message_id = ?1 AND attempt = ?2";

fn read(row: &Row<'_>) -> Result<Turn, RowsError> {
    let mut fields = Fields::of("turn", row);
    let turn = Turn {
        message_id: fields.id(MessageId::new)?,
        attempt: fields.next()?,
        client_id: fields.id(ClientId::new)?,
        epoch: fields.next().map(Epoch)?,
        boot_id: fields.id(BootId::new)?,
        incarnation: fields.id(IncarnationId::new)?,
        thread: fields.id(ThreadId::new)?,
        after_turn: fields.maybe_id(TurnId::new)?,
        turn_id: fields.maybe_id(TurnId::new)?,
        sandbox: fields.word()?,
        state: fields.word()?,
        touched: fields.next()?,
        started_at: fields.time()?,
        ended_at: fields.maybe_time()?,
        usage: Usage {
            input_tokens: fields.next()?,
            output_tokens: fields.next()?,
        },
    };
    match fields.next::<Option<i64>>()? {
        Some(stored) if stored != sum(&turn) => Err(fields.damaged("it is not what was stored")),
        Some(_) | None => Ok(turn),
    }
}

/// Checksum over the columns that decide about a lost turn: whether it may have had effects is one bit. The text is a
/// stored form, so it never changes for an existing column.
fn sum(turn: &Turn) -> i64 {
    let maybe = |id: &Option<TurnId>| id.as_ref().map_or_else(String::new, ToString::to_string);
    sums::sum(&format!(
        "{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}",
        turn.message_id,
        turn.attempt,
        turn.client_id,
        turn.thread,
        maybe(&turn.after_turn),
        maybe(&turn.turn_id),
        turn.sandbox.as_str(),
        turn.state.as_str(),
        u8::from(turn.touched),
    ))
}

pub(crate) fn of_attempt(
    conn: Conn<'_>,
    message_id: &MessageId,
    attempt: u32,
) -> Result<Option<Turn>, RowsError> {
    sql::one(conn, SELECT, (message_id.as_str(), attempt), read)
}

pub(crate) fn insert(conn: Conn<'_>, turn: &Turn) -> Result<(), RowsError> {
    write(conn, INSERT, turn, "new turn")
}

pub(crate) fn update(conn: Conn<'_>, turn: &Turn) -> Result<(), RowsError> {
    write(conn, UPDATE, turn, "turn")
}

fn write(conn: Conn<'_>, statement: &str, turn: &Turn, what: &str) -> Result<(), RowsError> {
    let columns: [&dyn ToSql; 17] = [
        &turn.message_id.as_str(),
        &turn.attempt,
        &turn.client_id.as_str(),
        &turn.epoch.0,
        &turn.boot_id.as_str(),
        &turn.incarnation.as_str(),
        &turn.thread.as_str(),
        &turn.after_turn.as_ref().map(TurnId::as_str),
        &turn.turn_id.as_ref().map(TurnId::as_str),
        &turn.sandbox.as_str(),
        &turn.state.as_str(),
        &turn.touched,
        &turn.started_at.0,
        &turn.ended_at.map(|at| at.0),
        &turn.usage.input_tokens,
        &turn.usage.output_tokens,
        &sum(turn),
    ];
    sql::write(conn, statement, columns.as_slice(), || {
        format!("{what} {}.{}", turn.message_id, turn.attempt)
    })
}

fn read_answer(row: &Row<'_>) -> Result<Answer, RowsError> {
    let mut fields = Fields::of("answer", row);
    Ok(Answer {
        message_id: fields.id(MessageId::new)?,
        attempt: fields.next()?,
        source: fields.word()?,
        text: fields.text()?,
        created_at: fields.time()?,
    })
}

pub(crate) fn answer(conn: Conn<'_>, message_id: &MessageId) -> Result<Option<Answer>, RowsError> {
    let query = "SELECT message_id, attempt, source, text, text_sum, created_at FROM answer WHERE message_id = ?1";
    sql::one(conn, query, [message_id.as_str()], read_answer)
}

pub(crate) fn insert_answer(conn: Conn<'_>, answer: &Answer) -> Result<(), RowsError> {
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

fn read_event(row: &Row<'_>) -> Result<ItemEvent, RowsError> {
    let mut fields = Fields::of("event of", row);
    Ok(ItemEvent {
        message_id: fields.id(MessageId::new)?,
        ordinal: fields.next()?,
        attempt: fields.next()?,
        kind: fields.word()?,
        text: fields.next()?,
        at: fields.time()?,
    })
}

pub(crate) fn events(
    conn: Conn<'_>,
    message_id: &MessageId,
    after: u32,
    limit: u32,
) -> Result<Vec<ItemEvent>, RowsError> {
    let query = "SELECT message_id, ordinal, attempt, kind, text, at FROM event \
         WHERE message_id = ?1 AND ordinal > ?2 ORDER BY ordinal LIMIT ?3";
    sql::many(
        conn,
        query,
        (message_id.as_str(), after, page(limit)),
        read_event,
    )
}

pub(crate) fn last_event(conn: Conn<'_>, message_id: &MessageId) -> Result<u32, RowsError> {
    let query = "SELECT max(ordinal) FROM event WHERE message_id = ?1";
    let last = sql::number(conn, query, [message_id.as_str()])?;
    u32::try_from(last.unwrap_or(0)).map_err(|error| RowsError::Unreadable {
        what: format!("event of {message_id}"),
        why: error.to_string(),
    })
}

pub(crate) fn insert_event(conn: Conn<'_>, event: &ItemEvent) -> Result<(), RowsError> {
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
