//! The `task` table: what a task was asked for, and its one notification. What it does is in the tables of its messages.

use super::fields::Fields;
use super::sql;
use bridge_core::port::RowsError;
use bridge_core::value::{
    ApprovalPolicy, AskedDigest, ConversationId, MessageId, Notification, NotifyState, ReadAccess,
    Sandbox, Task, TaskId, TaskTerms,
};
use rusqlite::{Connection, Row, params};

macro_rules! select {
    ($tail:literal) => {
        concat!(
            "SELECT task_id, conversation_id, message_id, starter, prompt_summary, asked, cwd, model, sandbox, \
             approval_policy, codex_home, reads, notify_target, notify_state, notify_not_before, notified_at, \
             notify_tries, notify_first, notify_error, created_at FROM task ",
            $tail
        )
    };
}

fn read(row: &Row<'_>) -> Result<Task, RowsError> {
    let mut fields = Fields::of("task", row);
    Ok(Task {
        task_id: fields.id(TaskId::new)?,
        conversation_id: fields.id(ConversationId::new)?,
        message_id: fields.id(MessageId::new)?,
        starter: fields.next()?,
        prompt_summary: fields.next()?,
        asked: fields.id(AskedDigest::stored)?,
        terms: TaskTerms {
            cwd: fields.next()?,
            model: fields.next()?,
            sandbox: fields.word(Sandbox::from_word)?,
            approval_policy: fields.word(ApprovalPolicy::from_word)?,
            codex_home: fields.next()?,
            reads: fields.word(ReadAccess::from_word)?,
        },
        notification: Notification {
            target: fields.next()?,
            state: read_state(&mut fields)?,
            tries: fields.next()?,
            first_try_at: fields.maybe_time()?,
            error: fields.next()?,
        },
        created_at: fields.time()?,
    })
}

fn read_state(fields: &mut Fields<'_, '_>) -> Result<NotifyState, RowsError> {
    let word: String = fields.next()?;
    let not_before = fields.maybe_time()?;
    let at = fields.maybe_time()?;
    match word.as_str() {
        "no_target" => Ok(NotifyState::NoTarget),
        "pending" => Ok(NotifyState::Pending { not_before }),
        "sending" => Ok(NotifyState::Sending),
        "sent" => Ok(NotifyState::Sent {
            at: fields.required("somebody was told at no time", at)?,
        }),
        "failed" => Ok(NotifyState::Failed {
            at: fields.required("it was given up at no time", at)?,
        }),
        other => Err(fields.damaged(format!("unknown state {other:?}"))),
    }
}

/// The columns `notify_not_before` and `notified_at`.
fn times(state: NotifyState) -> (Option<i64>, Option<i64>) {
    match state {
        NotifyState::Pending { not_before } => (not_before.map(|at| at.0), None),
        NotifyState::Sent { at } | NotifyState::Failed { at } => (None, Some(at.0)),
        NotifyState::NoTarget | NotifyState::Sending => (None, None),
    }
}

pub(super) fn by_id(conn: &Connection, id: &TaskId) -> Result<Option<Task>, RowsError> {
    sql::one(conn, select!("WHERE task_id = ?1"), [id.as_str()], read)
}

pub(super) fn of_conversation(
    conn: &Connection,
    id: &ConversationId,
) -> Result<Option<Task>, RowsError> {
    let query = select!("WHERE conversation_id = ?1");
    sql::one(conn, query, [id.as_str()], read)
}

pub(super) fn newest(
    conn: &Connection,
    before: Option<&TaskId>,
    limit: u32,
) -> Result<Vec<Task>, RowsError> {
    let query = select!(
        "WHERE ?1 IS NULL OR row < (SELECT row FROM task WHERE task_id = ?1) ORDER BY row DESC LIMIT ?2"
    );
    let before = before.map(TaskId::as_str);
    sql::many(conn, query, params![before, crate::page(limit)], read)
}

pub(super) fn untold(
    conn: &Connection,
    after: Option<&TaskId>,
    limit: u32,
) -> Result<Vec<Task>, RowsError> {
    let query = select!(
        "WHERE (notify_state = 'pending' OR notify_state = 'sending') \
         AND row > coalesce((SELECT row FROM task WHERE task_id = ?1), 0) ORDER BY row LIMIT ?2"
    );
    let after = after.map(TaskId::as_str);
    sql::many(conn, query, params![after, crate::page(limit)], read)
}

pub(super) fn insert(conn: &Connection, task: &Task) -> Result<(), RowsError> {
    let told = &task.notification;
    let (not_before, notified_at) = times(told.state);
    sql::write(
        conn,
        "INSERT INTO task (task_id, conversation_id, message_id, starter, prompt_summary, asked, cwd, model, sandbox, \
         approval_policy, codex_home, notify_target, notify_state, notify_tries, notify_first, \
         notify_not_before, notified_at, notify_error, created_at, reads) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)",
        params![
            task.task_id.as_str(),
            task.conversation_id.as_str(),
            task.message_id.as_str(),
            task.starter,
            task.prompt_summary,
            task.asked.as_str(),
            task.terms.cwd,
            task.terms.model,
            task.terms.sandbox.as_str(),
            task.terms.approval_policy.as_str(),
            task.terms.codex_home,
            told.target,
            told.state.as_str(),
            told.tries,
            told.first_try_at.map(|at| at.0),
            not_before,
            notified_at,
            told.error,
            task.created_at.0,
            task.terms.reads.as_str(),
        ],
        || format!("new task {}", task.task_id),
    )
}

pub(super) fn notify(
    conn: &Connection,
    id: &TaskId,
    from: NotifyState,
    to: &Notification,
) -> Result<(), RowsError> {
    let (not_before, notified_at) = times(to.state);
    sql::write(
        conn,
        "UPDATE task SET notify_target = ?3, notify_state = ?4, notify_tries = ?5, notify_first = ?6, \
         notify_not_before = ?7, notified_at = ?8, notify_error = ?9 WHERE task_id = ?1 AND notify_state = ?2",
        params![
            id.as_str(),
            from.as_str(),
            to.target,
            to.state.as_str(),
            to.tries,
            to.first_try_at.map(|at| at.0),
            not_before,
            notified_at,
            to.error,
        ],
        || format!("notification of task {id}"),
    )
}
