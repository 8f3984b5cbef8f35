//! The `task` and `task_input` tables. Nothing about the state of a task is stored.
//!
//! `changed_at` is derived from the rows of a task's messages and written only by the store, so that the newest
//! ones are found without looking at all of them.

use super::fields::Fields;
use super::sums;
use crate::sql::{self, Conn, Row, params};
use bridge_core::port::{RowsError, TaskQuery};
use bridge_core::value::{
    AskedDigest, ChannelId, ConversationId, ExternalId, MessageId, RequestId, Task, TaskId,
    TaskInput, TaskInputKind, TaskStart, TaskTerms, Timestamp,
};

macro_rules! select {
    ($tail:literal) => {
        concat!(
            "SELECT task_id, channel, conversation_id, owner, sequence, created_at, changed_at, cwd, prompt_summary, \
             asked, model, sandbox, approval_policy, codex_home, reads FROM task ",
            $tail
        )
    };
}

const BY_ID: &str = select!("WHERE task_id = ?1");

/// The one that has a conversation to itself.
pub(crate) const STARTED: &str = select!("WHERE conversation_id = ?1 AND cwd IS NOT NULL");
pub(crate) const NEWEST_STARTED: &str = select!(
    "WHERE cwd IS NOT NULL AND (CAST(?1 AS TEXT) IS NULL OR row < (SELECT row FROM task WHERE task_id = ?1)) \
     ORDER BY row DESC LIMIT ?2"
);
pub(crate) const STARTED_BY_PREFIX: &str =
    select!("WHERE task_id >= ?1 AND task_id < ?2 AND cwd IS NOT NULL ORDER BY task_id LIMIT ?3");
/// Of all conversations of an agent; the second parameter is not used.
pub(crate) const OF_OWNER: &str = select!(
    "WHERE cwd IS NULL AND owner = ?1 AND changed_at >= ?3 AND (changed_at, task_id) < (?4, ?5) \
     ORDER BY changed_at DESC, task_id DESC LIMIT ?6"
);
/// Of one conversation of an agent.
pub(crate) const OF_CONVERSATION: &str = select!(
    "WHERE cwd IS NULL AND owner = ?1 AND conversation_id = ?2 AND changed_at >= ?3 AND (changed_at, task_id) < (?4, ?5) \
     ORDER BY changed_at DESC, task_id DESC LIMIT ?6"
);
pub(crate) const COUNT_OF_OWNER: &str =
    "SELECT count(*) FROM task WHERE cwd IS NULL AND owner = ?1 AND changed_at >= ?3";
pub(crate) const COUNT_OF_CONVERSATION: &str = "SELECT count(*) FROM task WHERE cwd IS NULL AND owner = ?1 AND conversation_id = ?2 AND changed_at >= ?3";

pub(crate) const INPUTS: &str = "SELECT task_id, ordinal, client_message_id, idempotency_key, message_id, request_id, original, \
     original_sum, at FROM task_input WHERE task_id = ?1 ORDER BY ordinal";

const OF_MESSAGE: &str = "SELECT task_id FROM task_input WHERE message_id = ?1";

/// Runs with every step of every message, so it must cost next to nothing for those that are of no task.
pub(crate) const TOUCH: &str = "UPDATE task SET changed_at = ?2 \
     WHERE task_id = (SELECT task_id FROM task_input WHERE message_id = ?1) AND changed_at < ?2";

/// The same, by a question of the message.
const TOUCH_BY_REQUEST: &str = "UPDATE task SET changed_at = ?2 \
     WHERE task_id = (SELECT task_id FROM request JOIN task_input USING (message_id) WHERE request.request_id = ?1) \
     AND changed_at < ?2";

pub(crate) fn read(row: &Row<'_>) -> Result<(Task, Timestamp), RowsError> {
    let mut fields = Fields::of("task", row);
    let mut task = Task {
        task_id: fields.id(TaskId::new)?,
        channel: fields.id(ChannelId::new)?,
        conversation_id: fields.id(ConversationId::new)?,
        owner: fields.next()?,
        sequence: fields.next::<i64>()?.cast_unsigned(),
        created_at: fields.time()?,
        start: None,
    };
    let changed_at = fields.time()?;
    if let Some(cwd) = fields.next()? {
        task.start = Some(TaskStart {
            prompt_summary: fields.next()?,
            asked: fields.id(AskedDigest::stored)?,
            terms: TaskTerms {
                cwd,
                model: fields.next()?,
                sandbox: fields.word()?,
                approval_policy: fields.word()?,
                codex_home: fields.next()?,
                reads: fields.word()?,
            },
        });
    }
    Ok((task, changed_at))
}

fn read_task(row: &Row<'_>) -> Result<Task, RowsError> {
    read(row).map(|(task, _)| task)
}

pub(crate) fn read_input(row: &Row<'_>) -> Result<TaskInput, RowsError> {
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

pub(crate) fn started(conn: Conn<'_>, id: &ConversationId) -> Result<Option<Task>, RowsError> {
    sql::one(conn, STARTED, [id.as_str()], read_task)
}

pub(crate) fn newest_started(
    conn: Conn<'_>,
    before: Option<&TaskId>,
    limit: u32,
) -> Result<Vec<Task>, RowsError> {
    let before = before.map(TaskId::as_str);
    let params = params![before, sql::reach(limit)];
    sql::many_readable(conn, NEWEST_STARTED, params, limit, read_task)
}

pub(crate) fn started_by_prefix(
    conn: Conn<'_>,
    prefix: &str,
    limit: u32,
) -> Result<Vec<Task>, RowsError> {
    let end = format!("{prefix}{}", char::MAX);
    let params = params![prefix, end, sql::reach(limit)];
    sql::many_readable(conn, STARTED_BY_PREFIX, params, limit, read_task)
}

pub(crate) fn with_change(
    conn: Conn<'_>,
    id: &TaskId,
) -> Result<Option<(Task, Timestamp)>, RowsError> {
    sql::one(conn, BY_ID, [id.as_str()], read)
}

pub(crate) fn of(conn: Conn<'_>, id: &MessageId) -> Result<Option<TaskId>, RowsError> {
    sql::one(conn, OF_MESSAGE, [id.as_str()], |row| {
        Fields::of("task_input", row).id(TaskId::new)
    })
}

pub(crate) fn list(conn: Conn<'_>, query: &TaskQuery) -> Result<Vec<(Task, Timestamp)>, RowsError> {
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
        sql::reach(query.limit),
    ];
    sql::many_readable(conn, statement, params, query.limit, read)
}

pub(crate) fn count(conn: Conn<'_>, query: &TaskQuery) -> Result<u64, RowsError> {
    let statement = match &query.conversation {
        Some(_) => COUNT_OF_CONVERSATION,
        None => COUNT_OF_OWNER,
    };
    let conversation = query.conversation.as_ref().map(ConversationId::as_str);
    let params = params![query.owner, conversation, since(query)];
    sql::count(conn, statement, params)
}

fn since(query: &TaskQuery) -> i64 {
    query.since.map_or(i64::MIN, |since| since.0)
}

pub(crate) fn insert(conn: Conn<'_>, task: &Task) -> Result<(), RowsError> {
    let start = task.start.as_ref();
    let terms = task.terms();
    sql::write(
        conn,
        "INSERT INTO task (task_id, channel, conversation_id, owner, sequence, created_at, changed_at, cwd, \
         prompt_summary, asked, model, sandbox, approval_policy, codex_home, reads) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        params![
            task.task_id.as_str(),
            task.channel.as_str(),
            task.conversation_id.as_str(),
            task.owner,
            task.sequence.cast_signed(),
            task.created_at.0,
            terms.map(|terms| &terms.cwd),
            start.map(|start| &start.prompt_summary),
            start.map(|start| start.asked.as_str()),
            terms.and_then(|terms| terms.model.as_ref()),
            terms.map(|terms| terms.sandbox.as_str()),
            terms.map(|terms| terms.approval_policy.as_str()),
            terms.and_then(|terms| terms.codex_home.as_ref()),
            terms.map(|terms| terms.reads.as_str()),
        ],
        || format!("new task {}", task.task_id),
    )
}

pub(crate) fn insert_input(conn: Conn<'_>, input: &TaskInput) -> Result<(), RowsError> {
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
        "UPDATE task SET changed_at = ?2 WHERE task_id = ?1 AND changed_at < ?2",
        params![input.task_id.as_str(), input.at.0],
    )
}

/// Numbers that were given are never given again.
pub(crate) fn sequence(conn: Conn<'_>, id: &TaskId, sequence: u64) -> Result<(), RowsError> {
    sql::write(
        conn,
        "UPDATE task SET sequence = ?2 WHERE task_id = ?1 AND sequence <= ?2",
        params![id.as_str(), sequence.cast_signed()],
        || format!("news of task {id}"),
    )
}

/// A message changed, and with it the task that it is of.
pub(crate) fn touch(conn: Conn<'_>, id: &MessageId, at: Timestamp) -> Result<(), RowsError> {
    sql::run(conn, TOUCH, params![id.as_str(), at.0])
}

/// A question was decided.
pub(crate) fn touch_by_request(
    conn: Conn<'_>,
    id: &RequestId,
    at: Timestamp,
) -> Result<(), RowsError> {
    sql::run(conn, TOUCH_BY_REQUEST, params![id.as_str(), at.0])
}

/// An input goes with its message, and the task with its last one.
pub(crate) fn forget(conn: Conn<'_>, id: &MessageId) -> Result<(), RowsError> {
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
        "DELETE FROM subscription WHERE task_id = ?1",
        "DELETE FROM task_input WHERE task_id = ?1",
        "DELETE FROM task WHERE task_id = ?1",
    ] {
        sql::run(conn, statement, [task_id.as_str()])?;
    }
    Ok(())
}
