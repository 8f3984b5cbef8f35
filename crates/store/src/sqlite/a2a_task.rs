//! The `task` and `input` tables: work of other agents, and what its owners said.
//!
//! `changed_at` is derived from the rows of a task's messages and written only by the store, so that the newest
//! ones are found without looking at all of them. How a task stands is the core's business.

use super::fields::Fields;
use super::{sql, sums};
use bridge_core::port::{RowsError, TaskQuery};
use bridge_core::value::{
    A2aTask, ChannelId, ConversationId, ExternalId, MessageId, RequestId, TaskId, TaskInput,
    TaskInputKind, Timestamp,
};
use rusqlite::{Connection, Row, params};

macro_rules! select {
    ($tail:literal) => {
        concat!(
            "SELECT task_id, channel, conversation_id, owner, sequence, created_at, changed_at FROM a2a_task ",
            $tail
        )
    };
}

const BY_ID: &str = select!("WHERE task_id = ?1");

/// Of all conversations of an owner; the second parameter is not used.
pub(super) const OF_OWNER: &str = select!(
    "WHERE owner = ?1 AND ?2 IS NULL AND changed_at >= ?3 AND (changed_at, task_id) < (?4, ?5) \
     ORDER BY changed_at DESC, task_id DESC LIMIT ?6"
);
/// Of one conversation of an owner.
pub(super) const OF_CONVERSATION: &str = select!(
    "WHERE owner = ?1 AND conversation_id = ?2 AND changed_at >= ?3 AND (changed_at, task_id) < (?4, ?5) \
     ORDER BY changed_at DESC, task_id DESC LIMIT ?6"
);
pub(super) const COUNT_OF_OWNER: &str =
    "SELECT count(*) FROM a2a_task WHERE owner = ?1 AND ?2 IS NULL AND changed_at >= ?3";
pub(super) const COUNT_OF_CONVERSATION: &str =
    "SELECT count(*) FROM a2a_task WHERE owner = ?1 AND conversation_id = ?2 AND changed_at >= ?3";

pub(super) const INPUTS: &str = "SELECT task_id, ordinal, client_message_id, idempotency_key, message_id, request_id, original, \
     original_sum, at FROM task_input WHERE task_id = ?1 ORDER BY ordinal";

const OF_MESSAGE: &str = "SELECT task_id FROM task_input WHERE message_id = ?1";

/// Runs with every step of every message, so it must cost next to nothing for those that are of no task.
pub(super) const TOUCH: &str = "UPDATE a2a_task SET changed_at = ?2 \
     WHERE task_id = (SELECT task_id FROM task_input WHERE message_id = ?1) AND changed_at < ?2";

/// The same, by a question of the message.
const TOUCH_BY_REQUEST: &str = "UPDATE a2a_task SET changed_at = ?2 \
     WHERE task_id = (SELECT task_id FROM request JOIN task_input USING (message_id) WHERE request.request_id = ?1) \
     AND changed_at < ?2";

fn read(row: &Row<'_>) -> Result<(A2aTask, Timestamp), RowsError> {
    let mut fields = Fields::of("a2a_task", row);
    let task = A2aTask {
        task_id: fields.id(TaskId::new)?,
        channel: fields.id(ChannelId::new)?,
        conversation_id: fields.id(ConversationId::new)?,
        owner: fields.next()?,
        sequence: fields.next::<i64>()?.cast_unsigned(),
        created_at: fields.time()?,
    };
    Ok((task, fields.time()?))
}

fn read_input(row: &Row<'_>) -> Result<TaskInput, RowsError> {
    let mut fields = Fields::of("task_input", row);
    Ok(TaskInput {
        task_id: fields.id(TaskId::new)?,
        ordinal: fields.next()?,
        client_message_id: fields.next()?,
        idempotency_key: fields.maybe_id(ExternalId::new)?,
        kind: {
            let message = fields.maybe_id(MessageId::new)?.map(TaskInputKind::Message);
            let request = fields.maybe_id(RequestId::new)?.map(TaskInputKind::Answer);
            message.or(request).unwrap_or(TaskInputKind::End)
        },
        original: fields.text()?,
        at: fields.time()?,
    })
}

pub(super) fn by_id(conn: &Connection, id: &TaskId) -> Result<Option<A2aTask>, RowsError> {
    Ok(with_change(conn, id)?.map(|(task, _)| task))
}

pub(super) fn changed(conn: &Connection, id: &TaskId) -> Result<Option<Timestamp>, RowsError> {
    Ok(with_change(conn, id)?.map(|(_, at)| at))
}

fn with_change(conn: &Connection, id: &TaskId) -> Result<Option<(A2aTask, Timestamp)>, RowsError> {
    sql::one(conn, BY_ID, [id.as_str()], read)
}

pub(super) fn inputs(conn: &Connection, id: &TaskId) -> Result<Vec<TaskInput>, RowsError> {
    sql::many(conn, INPUTS, [id.as_str()], read_input)
}

pub(super) fn of(conn: &Connection, id: &MessageId) -> Result<Option<TaskId>, RowsError> {
    sql::one(conn, OF_MESSAGE, [id.as_str()], |row| {
        Fields::of("task_input", row).id(TaskId::new)
    })
}

pub(super) fn list(
    conn: &Connection,
    query: &TaskQuery,
) -> Result<Vec<(A2aTask, Timestamp)>, RowsError> {
    let statement = match &query.conversation {
        Some(_) => OF_CONVERSATION,
        None => OF_OWNER,
    };
    let (at, id) = match &query.before {
        Some((at, id)) => (at.0, id.as_str()),
        None => (i64::MAX, ""),
    };
    let params = params![
        query.owner,
        query.conversation.as_ref().map(ConversationId::as_str),
        since(query),
        at,
        id,
        crate::page(query.limit),
    ];
    sql::many(conn, statement, params, read)
}

pub(super) fn count(conn: &Connection, query: &TaskQuery) -> Result<u64, RowsError> {
    let statement = match &query.conversation {
        Some(_) => COUNT_OF_CONVERSATION,
        None => COUNT_OF_OWNER,
    };
    let conversation = query.conversation.as_ref().map(ConversationId::as_str);
    let params = params![query.owner, conversation, since(query)];
    let count = sql::number(conn, statement, params)?.unwrap_or(0);
    Ok(u64::try_from(count).unwrap_or(0))
}

fn since(query: &TaskQuery) -> i64 {
    query.since.map_or(i64::MIN, |since| since.0)
}

pub(super) fn insert(conn: &Connection, task: &A2aTask) -> Result<(), RowsError> {
    sql::write(
        conn,
        "INSERT INTO a2a_task (task_id, channel, conversation_id, owner, sequence, created_at, changed_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)",
        params![
            task.task_id.as_str(),
            task.channel.as_str(),
            task.conversation_id.as_str(),
            task.owner,
            task.sequence.cast_signed(),
            task.created_at.0,
        ],
        || format!("new task {}", task.task_id),
    )
}

pub(super) fn insert_input(conn: &Connection, input: &TaskInput) -> Result<(), RowsError> {
    let (message, request) = match &input.kind {
        TaskInputKind::Message(id) => (Some(id.as_str()), None),
        TaskInputKind::Answer(id) => (None, Some(id.as_str())),
        TaskInputKind::End => (None, None),
    };
    sql::write(
        conn,
        "INSERT INTO task_input (task_id, ordinal, client_message_id, idempotency_key, message_id, request_id, original, \
         original_sum, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            input.task_id.as_str(),
            input.ordinal,
            input.client_message_id,
            input.idempotency_key.as_ref().map(ExternalId::as_str),
            message,
            request,
            input.original,
            sums::sum(&input.original),
            input.at.0,
        ],
        || format!("new input {}/{}", input.task_id, input.ordinal),
    )?;
    sql::run(
        conn,
        "UPDATE a2a_task SET changed_at = ?2 WHERE task_id = ?1 AND changed_at < ?2",
        params![input.task_id.as_str(), input.at.0],
    )
}

/// Numbers that were given are never given again.
pub(super) fn sequence(conn: &Connection, id: &TaskId, sequence: u64) -> Result<(), RowsError> {
    sql::write(
        conn,
        "UPDATE a2a_task SET sequence = ?2 WHERE task_id = ?1 AND sequence <= ?2",
        params![id.as_str(), sequence.cast_signed()],
        || format!("news of task {id}"),
    )
}

/// A message changed, and with it the task that it is of.
pub(super) fn touch(conn: &Connection, id: &MessageId, at: Timestamp) -> Result<(), RowsError> {
    sql::run(conn, TOUCH, params![id.as_str(), at.0])
}

/// A question was decided.
pub(super) fn touch_by_request(
    conn: &Connection,
    id: &RequestId,
    at: Timestamp,
) -> Result<(), RowsError> {
    sql::run(conn, TOUCH_BY_REQUEST, params![id.as_str(), at.0])
}

/// A input goes with its message, and the task with its last one.
pub(super) fn forget(conn: &Connection, id: &MessageId) -> Result<(), RowsError> {
    let Some(task_id) = of(conn, id)? else {
        return Ok(());
    };
    sql::run(
        conn,
        "DELETE FROM task_input WHERE message_id = ?1",
        [id.as_str()],
    )?;
    let left = "SELECT count(*) FROM task_input WHERE task_id = ?1 AND message_id IS NOT NULL";
    if sql::number(conn, left, [task_id.as_str()])?.unwrap_or(0) > 0 {
        return Ok(());
    }
    for statement in [
        "DELETE FROM push WHERE task_id = ?1",
        "DELETE FROM task_input WHERE task_id = ?1",
        "DELETE FROM a2a_task WHERE task_id = ?1",
    ] {
        sql::run(conn, statement, [task_id.as_str()])?;
    }
    Ok(())
}
