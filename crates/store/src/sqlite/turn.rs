//! The `turn` table: one row per attempt, from the intent to what became of it.
//!
//! Column mapping only; a turn is always rewritten whole.

use super::fields::Fields;
use super::{sql, sums};
use bridge_core::port::RowsError;
use bridge_core::value::{
    BootId, ClientId, Epoch, IncarnationId, MessageId, Sandbox, ThreadId, Turn, TurnId, TurnState,
    Usage,
};
use rusqlite::{Connection, Row, ToSql};

const SELECT: &str = "SELECT message_id, attempt, client_id, epoch, boot_id, incarnation, thread, \
     after_turn, turn_id, sandbox, state, touched, started_at, ended_at, input_tokens, \
     output_tokens, row_sum FROM turn WHERE message_id = ?1 AND attempt = ?2";

const INSERT: &str = "INSERT INTO turn (message_id, attempt, client_id, epoch, boot_id, \
     incarnation, thread, after_turn, turn_id, sandbox, state, touched, started_at, ended_at, \
     input_tokens, output_tokens, row_sum, spender) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, \
     (SELECT channel || char(10) || sender FROM message WHERE message_id = ?1))";

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
        sandbox: fields.word(Sandbox::from_word)?,
        state: fields.word(TurnState::from_word)?,
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

/// What decides about a turn that was lost: whether it may have touched the world is one bit. The text is a stored
/// form, so it never changes for a column that is in it.
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
    sql::write(conn, statement, columns, || {
        format!("{what} {}.{}", turn.message_id, turn.attempt)
    })
}
