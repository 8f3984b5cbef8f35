//! The `turn` table: one row per attempt, from the intent to what became of it.
//!
//! Column mapping only; a turn is always rewritten whole.

use super::fields::Fields;
use super::sql;
use bridge_core::port::RowsError;
use bridge_core::value::{
    BootId, ClientId, Epoch, IncarnationId, MessageId, Sandbox, ThreadId, Turn, TurnId, TurnState,
    Usage,
};
use rusqlite::{Connection, Row, ToSql};

const SELECT: &str = "SELECT message_id, attempt, client_id, epoch, boot_id, incarnation, thread, \
     after_turn, turn_id, sandbox, state, touched, started_at, ended_at, input_tokens, \
     output_tokens FROM turn WHERE message_id = ?1 AND attempt = ?2";

const INSERT: &str = "INSERT INTO turn (message_id, attempt, client_id, epoch, boot_id, \
     incarnation, thread, after_turn, turn_id, sandbox, state, touched, started_at, ended_at, \
     input_tokens, output_tokens) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";

const UPDATE: &str = "UPDATE turn SET client_id = ?3, epoch = ?4, boot_id = ?5, \
     incarnation = ?6, thread = ?7, after_turn = ?8, turn_id = ?9, sandbox = ?10, state = ?11, \
     touched = ?12, started_at = ?13, ended_at = ?14, input_tokens = ?15, output_tokens = ?16 \
     WHERE message_id = ?1 AND attempt = ?2";

fn read(row: &Row<'_>) -> Result<Turn, RowsError> {
    let mut fields = Fields::of("turn", row);
    Ok(Turn {
        message_id: fields.id(MessageId::new)?,
        attempt: fields.next()?,
        client_id: fields.id(ClientId::new)?,
        epoch: fields.next().map(Epoch)?,
        boot_id: fields.id(BootId::new)?,
        incarnation: fields.id(IncarnationId::new)?,
        thread: fields.id(ThreadId::new)?,
        after_turn: fields.maybe_id(TurnId::new)?,
        turn_id: fields.maybe_id(TurnId::new)?,
        sandbox: fields.word(Sandbox::from_word)?,
        state: fields.word(TurnState::from_word)?,
        touched: fields.next()?,
        started_at: fields.time()?,
        ended_at: fields.maybe_time()?,
        usage: Usage {
            input_tokens: fields.next()?,
            output_tokens: fields.next()?,
        },
    })
}

pub(super) fn of_attempt(
    conn: &Connection,
    message_id: &MessageId,
    attempt: u32,
) -> Result<Option<Turn>, RowsError> {
    sql::one(conn, SELECT, (message_id.as_str(), attempt), read)
}

pub(super) fn insert(conn: &Connection, turn: &Turn) -> Result<(), RowsError> {
    write(conn, INSERT, turn, "new turn")
}

pub(super) fn update(conn: &Connection, turn: &Turn) -> Result<(), RowsError> {
    write(conn, UPDATE, turn, "turn")
}

fn write(conn: &Connection, statement: &str, turn: &Turn, what: &str) -> Result<(), RowsError> {
    let columns: [&dyn ToSql; 16] = [
        &turn.message_id.as_str(),
        &turn.attempt,
        &turn.client_id.as_str(),
        &turn.epoch.0,
        &turn.boot_id.as_str(),
        &turn.incarnation.as_str(),
        &turn.thread.as_str(),
        &turn.after_turn.as_ref().map(TurnId::as_str),
        &turn.turn_id.as_ref().map(TurnId::as_str),
        &turn.sandbox.word(),
        &turn.state.word(),
        &turn.touched,
        &turn.started_at.0,
        &turn.ended_at.map(|at| at.0),
        &turn.usage.input_tokens,
        &turn.usage.output_tokens,
    ];
    sql::write(conn, statement, columns, || {
        format!("{what} {}.{}", turn.message_id, turn.attempt)
    })
}
