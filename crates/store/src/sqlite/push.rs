//! The `push` table: where owners of tasks want to be told how they stand.

use super::fields::Fields;
use super::seal::{self, SealContext};
use super::sql;
use crate::key::{LedgerKey, Unreadable};
use crate::page;
use bridge_core::port::RowsError;
use bridge_core::value::{Push, PushState, TaskId};
use rusqlite::{Connection, Row, params};

const COLUMNS: &str = "task_id, config_id, url, token, scheme, credentials, version, state, \
                       not_before, dead_at, mark, tries, first_try_at, error, created_at";

/// Begins the state of a row, before its times are known.
#[derive(Clone, Copy)]
enum Word {
    Waiting,
    Sending,
    Closed,
    Dead,
}

impl Word {
    fn read(word: &str) -> Option<Self> {
        match word {
            "waiting" => Some(Self::Waiting),
            "sending" => Some(Self::Sending),
            "closed" => Some(Self::Closed),
            "dead" => Some(Self::Dead),
            _ => None,
        }
    }
}

/// As it is stored: address and credentials are encrypted.
fn read(row: &Row<'_>) -> Result<Push, RowsError> {
    let mut fields = Fields::of("push of task", row);
    let task_id = fields.id(TaskId::new)?;
    let config_id = fields.next()?;
    let url = fields.next()?;
    let token = fields.next()?;
    let (scheme, credentials): (Option<String>, Option<String>) = (fields.next()?, fields.next()?);
    let version = fields.next()?;
    let word = fields.word(Word::read)?;
    let (not_before, dead_at) = (fields.maybe_time()?, fields.maybe_time()?);
    let state = match word {
        Word::Waiting => PushState::Waiting { not_before },
        Word::Sending => PushState::Sending,
        Word::Closed => PushState::Closed,
        Word::Dead => PushState::Dead {
            at: fields.required("a dead one has no time", dead_at)?,
        },
    };
    Ok(Push {
        task_id,
        config_id,
        url,
        token,
        authorization: scheme.zip(credentials),
        unreadable: false,
        version,
        state,
        mark: fields.next()?,
        tries: fields.next()?,
        first_try_at: fields.maybe_time()?,
        error: fields.next()?,
        created_at: fields.time()?,
    })
}

/// One that can't be decrypted is given without anything to send it with.
fn opened(key: &LedgerKey, stored: Push) -> Push {
    match secrets(key, &stored) {
        Ok((url, token, authorization)) => Push {
            url,
            token,
            authorization,
            ..stored
        },
        Err(Unreadable) => Push {
            url: String::new(),
            token: None,
            authorization: None,
            unreadable: true,
            ..stored
        },
    }
}

type Secrets = (String, Option<String>, Option<(String, String)>);

fn secrets(key: &LedgerKey, stored: &Push) -> Result<Secrets, Unreadable> {
    let (task, config) = (stored.task_id.as_str(), stored.config_id.as_str());
    let url = seal::open(key, &SealContext::push_url(task, config), &stored.url)?;
    let token = stored.token.as_deref().map(|token| {
        let place = SealContext::push_token(task, config, &url);
        seal::open(key, &place, token)
    });
    let authorization = stored.authorization.as_ref().map(|(scheme, credentials)| {
        let place = SealContext::push_credentials(task, config, &url);
        Ok((scheme.clone(), seal::open(key, &place, credentials)?))
    });
    Ok((url.clone(), token.transpose()?, authorization.transpose()?))
}

pub(super) fn one(
    conn: &Connection,
    key: &LedgerKey,
    task_id: &TaskId,
    config_id: &str,
) -> Result<Option<Push>, RowsError> {
    let query = format!("SELECT {COLUMNS} FROM push WHERE task_id = ?1 AND config_id = ?2");
    let stored = sql::one(conn, &query, params![task_id.as_str(), config_id], read)?;
    Ok(stored.map(|stored| opened(key, stored)))
}

pub(super) fn of(
    conn: &Connection,
    key: &LedgerKey,
    task_id: &TaskId,
) -> Result<Vec<Push>, RowsError> {
    let query = format!("SELECT {COLUMNS} FROM push WHERE task_id = ?1 ORDER BY config_id");
    let stored = sql::many(conn, &query, [task_id.as_str()], read)?;
    Ok(stored.into_iter().map(|push| opened(key, push)).collect())
}

/// From the open ones to their owners: an owner's history is long, and what is open of it is not.
pub(super) const HELD: &str = "SELECT count(*) FROM push INDEXED BY push_open CROSS JOIN a2a_task USING (task_id) \
                               WHERE owner = ?1 AND (state = 'waiting' OR state = 'sending')";

pub(super) fn held(conn: &Connection, owner: &str) -> Result<u64, RowsError> {
    let count = sql::number(conn, HELD, [owner])?;
    Ok(count.and_then(|count| count.try_into().ok()).unwrap_or(0))
}

pub(super) fn open(
    conn: &Connection,
    key: &LedgerKey,
    after: Option<(&TaskId, &str)>,
    limit: u32,
) -> Result<Vec<Push>, RowsError> {
    let (task_id, config_id) = match after {
        Some((task_id, config_id)) => (Some(task_id.as_str()), config_id),
        None => (None, ""),
    };
    let query = format!(
        "SELECT {COLUMNS} FROM push WHERE (state = 'waiting' OR state = 'sending') \
         AND (?1 IS NULL OR (task_id, config_id) > (?1, ?2)) \
         ORDER BY task_id, config_id LIMIT ?3"
    );
    let page = params![task_id, config_id, page(limit)];
    let stored = sql::many(conn, &query, page, read)?;
    Ok(stored.into_iter().map(|push| opened(key, push)).collect())
}

fn times(state: PushState) -> (Option<i64>, Option<i64>) {
    match state {
        PushState::Waiting { not_before } => (not_before.map(|at| at.0), None),
        PushState::Sending | PushState::Closed => (None, None),
        PushState::Dead { at } => (None, Some(at.0)),
    }
}

pub(super) fn put(conn: &Connection, key: &LedgerKey, push: &Push) -> Result<(), RowsError> {
    if push.unreadable {
        return moved(conn, push);
    }
    let (not_before, dead_at) = times(push.state);
    let (task, config) = (push.task_id.as_str(), push.config_id.as_str());
    let token = push.token.as_deref().map(|token| {
        let place = SealContext::push_token(task, config, &push.url);
        seal::seal(key, &place, token)
    });
    let (scheme, credentials) = push.authorization.as_ref().map(|(a, b)| (a, b)).unzip();
    let credentials = credentials.map(|credentials| {
        let place = SealContext::push_credentials(task, config, &push.url);
        seal::seal(key, &place, credentials)
    });
    sql::write(
        conn,
        "INSERT OR REPLACE INTO push (task_id, config_id, url, token, scheme, credentials, \
         version, state, not_before, dead_at, mark, tries, first_try_at, error, created_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        params![
            task,
            config,
            seal::seal(key, &SealContext::push_url(task, config), &push.url)?,
            token.transpose()?,
            scheme,
            credentials.transpose()?,
            push.version,
            push.state.as_str(),
            not_before,
            dead_at,
            push.mark,
            push.tries,
            push.first_try_at.map(|at| at.0),
            push.error,
            push.created_at.0,
        ],
        || format!("push {config} of task {task}"),
    )
}

/// Writes how far it is, and leaves what can't be decrypted as it is: its key may come back.
fn moved(conn: &Connection, push: &Push) -> Result<(), RowsError> {
    let (not_before, dead_at) = times(push.state);
    sql::write(
        conn,
        "UPDATE push SET state = ?3, not_before = ?4, dead_at = ?5, mark = ?6, tries = ?7, first_try_at = ?8, \
         error = ?9 WHERE task_id = ?1 AND config_id = ?2",
        params![
            push.task_id.as_str(),
            push.config_id,
            push.state.as_str(),
            not_before,
            dead_at,
            push.mark,
            push.tries,
            push.first_try_at.map(|at| at.0),
            push.error,
        ],
        || format!("push {} of task {}", push.config_id, push.task_id),
    )
}

pub(super) fn remove(
    conn: &Connection,
    task_id: &TaskId,
    config_id: &str,
) -> Result<(), RowsError> {
    sql::write(
        conn,
        "DELETE FROM push WHERE task_id = ?1 AND config_id = ?2",
        params![task_id.as_str(), config_id],
        || format!("end of push {config_id} of task {task_id}"),
    )
}

pub(super) fn remove_all_of(conn: &Connection, owner: &str) -> Result<(), RowsError> {
    sql::run(
        conn,
        "DELETE FROM push WHERE task_id IN (SELECT task_id FROM a2a_task WHERE owner = ?1)",
        [owner],
    )
}
