//! The `subscription` table: receivers of the events of a task. Addresses and credentials of push receivers are encrypted.

use super::fields::Fields;
use super::seal::{self, SealContext};
use crate::key::{LedgerKey, Unreadable};
use crate::sql::{self, Conn, Params, Row, params};
use bridge_core::port::RowsError;
use bridge_core::value::{PushTarget, Subscription, SubscriptionState, SubscriptionTarget, TaskId};

macro_rules! select {
    ($tail:literal) => {
        concat!(
            "SELECT task_id, subscription_id, state, not_before, ended_at, mark, tries, first_try_at, error, \
             created_at, kind, target, token, scheme, credentials, version FROM subscription ",
            $tail
        )
    };
}

pub(crate) const BY_ID: &str = select!("WHERE task_id = ?1 AND subscription_id = ?2");

pub(crate) const OF_TASK: &str = select!("WHERE task_id = ?1 ORDER BY subscription_id");

pub(crate) const OPEN: &str = select!(
    "WHERE (state = 'waiting' OR state = 'sending') \
     AND (CAST(?1 AS TEXT) IS NULL OR (task_id, subscription_id) > (?1, ?2)) ORDER BY task_id, subscription_id LIMIT ?3"
);

/// As it is stored: what a push receiver is reached by is still encrypted.
fn read(row: &Row<'_>) -> Result<Subscription, RowsError> {
    let mut fields = Fields::of("subscription of task", row);
    Ok(Subscription {
        task_id: fields.id(TaskId::new)?,
        subscription_id: fields.next()?,
        state: read_state(&mut fields)?,
        mark: fields.next()?,
        tries: fields.next()?,
        first_try_at: fields.maybe_time()?,
        error: fields.next()?,
        created_at: fields.time()?,
        target: read_target(&mut fields)?,
    })
}

fn read_state(fields: &mut Fields<'_>) -> Result<SubscriptionState, RowsError> {
    let word: String = fields.next()?;
    let (not_before, ended_at) = (fields.maybe_time()?, fields.maybe_time()?);
    let at = || fields.required("it ended at no time", ended_at);
    match word.as_str() {
        "waiting" => Ok(SubscriptionState::Waiting { not_before }),
        "sending" => Ok(SubscriptionState::Sending),
        "closed" => Ok(SubscriptionState::Closed { at: at()? }),
        "dead" => Ok(SubscriptionState::Dead { at: at()? }),
        other => Err(fields.unreadable(format!("unknown state {other:?}"))),
    }
}

fn read_target(fields: &mut Fields<'_>) -> Result<SubscriptionTarget, RowsError> {
    let kind: String = fields.next()?;
    let target: String = fields.next()?;
    match kind.as_str() {
        "nobody" => Ok(SubscriptionTarget::Nobody),
        "notify" => Ok(SubscriptionTarget::Notify(target)),
        "push" => {
            let token = fields.next()?;
            let (scheme, credentials): (Option<String>, Option<String>) =
                (fields.next()?, fields.next()?);
            Ok(SubscriptionTarget::Push(PushTarget {
                url: target,
                token,
                authorization: scheme.zip(credentials),
                unreadable: false,
                version: fields.next()?,
            }))
        }
        other => Err(fields.unreadable(format!("unknown kind {other:?}"))),
    }
}

/// Decrypts a push target; one that can't be is given without anything to send it with.
fn opened(key: &LedgerKey, stored: Subscription) -> Subscription {
    let SubscriptionTarget::Push(push) = &stored.target else {
        return stored;
    };
    let target = match decrypted(key, &stored, push) {
        Ok(push) => push,
        Err(Unreadable) => PushTarget {
            url: String::new(),
            token: None,
            authorization: None,
            unreadable: true,
            version: push.version.clone(),
        },
    };
    Subscription {
        target: SubscriptionTarget::Push(target),
        ..stored
    }
}

fn decrypted(
    key: &LedgerKey,
    stored: &Subscription,
    push: &PushTarget,
) -> Result<PushTarget, Unreadable> {
    let (task, id) = (stored.task_id.as_str(), stored.subscription_id.as_str());
    let url = seal::open(key, &SealContext::push_url(task, id), &push.url)?;
    let token = push.token.as_deref().map(|token| {
        let place = SealContext::push_token(task, id, &url);
        seal::open(key, &place, token)
    });
    let authorization = push.authorization.as_ref().map(|(scheme, credentials)| {
        let place = SealContext::push_credentials(task, id, &url);
        Ok((scheme.clone(), seal::open(key, &place, credentials)?))
    });
    Ok(PushTarget {
        token: token.transpose()?,
        authorization: authorization.transpose()?,
        unreadable: false,
        version: push.version.clone(),
        url,
    })
}

pub(crate) fn many(
    conn: Conn<'_>,
    key: &LedgerKey,
    query: &str,
    params: impl Params,
) -> Result<Vec<Subscription>, RowsError> {
    let stored = sql::many(conn, query, params, read)?;
    Ok(stored.into_iter().map(|one| opened(key, one)).collect())
}

pub(crate) fn list(
    conn: Conn<'_>,
    key: &LedgerKey,
    query: &str,
    params: impl Params,
    limit: u32,
) -> Result<Vec<Subscription>, RowsError> {
    let stored = sql::many_readable(conn, query, params, limit, read)?;
    Ok(stored.into_iter().map(|one| opened(key, one)).collect())
}

/// From the open ones to their owners: an owner's history is long, and what is open of it is not.
pub(crate) const HELD: &str = "SELECT count(*) FROM subscription INDEXED BY subscription_open \
     CROSS JOIN task USING (task_id) \
     WHERE kind = 'push' AND owner = ?1 AND (state = 'waiting' OR state = 'sending')";

/// The columns `not_before` and `ended_at`.
fn times(state: SubscriptionState) -> (Option<i64>, Option<i64>) {
    match state {
        SubscriptionState::Waiting { not_before } => (not_before.map(|at| at.0), None),
        SubscriptionState::Sending => (None, None),
        SubscriptionState::Closed { at } | SubscriptionState::Dead { at } => (None, Some(at.0)),
    }
}

pub(crate) fn put(
    conn: Conn<'_>,
    key: &LedgerKey,
    subscription: &Subscription,
) -> Result<(), RowsError> {
    let (task, id) = (
        subscription.task_id.as_str(),
        subscription.subscription_id.as_str(),
    );
    let (kind, push) = match &subscription.target {
        SubscriptionTarget::Push(push) if push.unreadable => return moved(conn, subscription),
        SubscriptionTarget::Push(push) => ("push", Some(push)),
        SubscriptionTarget::Notify(_) => ("notify", None),
        SubscriptionTarget::Nobody => ("nobody", None),
    };
    let target = match push {
        Some(push) => seal::seal(key, &SealContext::push_url(task, id), &push.url)?,
        None => subscription.notify().unwrap_or_default().to_owned(),
    };
    let token = push.and_then(|push| Some((push, push.token.as_deref()?)));
    let token = token.map(|(push, token)| {
        let place = SealContext::push_token(task, id, &push.url);
        seal::seal(key, &place, token)
    });
    let authorization = push.and_then(|push| Some((push, push.authorization.as_ref()?)));
    let credentials = authorization.map(|(push, (_, credentials))| {
        let place = SealContext::push_credentials(task, id, &push.url);
        seal::seal(key, &place, credentials)
    });
    let (not_before, ended_at) = times(subscription.state);
    sql::write(
        conn,
        "INSERT INTO subscription (task_id, subscription_id, state, not_before, ended_at, mark, tries, \
         first_try_at, error, created_at, kind, target, token, scheme, credentials, version) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16) \
         ON CONFLICT (task_id, subscription_id) DO UPDATE SET state = excluded.state, \
         not_before = excluded.not_before, ended_at = excluded.ended_at, mark = excluded.mark, \
         tries = excluded.tries, first_try_at = excluded.first_try_at, error = excluded.error, \
         created_at = excluded.created_at, kind = excluded.kind, target = excluded.target, \
         token = excluded.token, scheme = excluded.scheme, credentials = excluded.credentials, \
         version = excluded.version",
        params![
            task,
            id,
            subscription.state.as_str(),
            not_before,
            ended_at,
            subscription.mark,
            subscription.tries,
            subscription.first_try_at.map(|at| at.0),
            subscription.error,
            subscription.created_at.0,
            kind,
            target,
            token.transpose()?,
            authorization.map(|(_, (scheme, _))| scheme),
            credentials.transpose()?,
            push.map(|push| &push.version),
        ],
        || format!("subscription {id} of task {task}"),
    )
}

/// Writes how far it is, and leaves what can't be decrypted as it is: its key may come back.
fn moved(conn: Conn<'_>, subscription: &Subscription) -> Result<(), RowsError> {
    let (task, id) = (&subscription.task_id, &subscription.subscription_id);
    let (not_before, ended_at) = times(subscription.state);
    sql::write(
        conn,
        "UPDATE subscription SET state = ?3, not_before = ?4, ended_at = ?5, mark = ?6, tries = ?7, \
         first_try_at = ?8, error = ?9 WHERE task_id = ?1 AND subscription_id = ?2",
        params![
            task.as_str(),
            id,
            subscription.state.as_str(),
            not_before,
            ended_at,
            subscription.mark,
            subscription.tries,
            subscription.first_try_at.map(|at| at.0),
            subscription.error,
        ],
        || format!("subscription {id} of task {task}"),
    )
}

pub(crate) fn remove(conn: Conn<'_>, task_id: &TaskId, id: &str) -> Result<(), RowsError> {
    sql::write(
        conn,
        "DELETE FROM subscription WHERE task_id = ?1 AND subscription_id = ?2",
        params![task_id.as_str(), id],
        || format!("end of subscription {id} of task {task_id}"),
    )
}

/// Removes the push configurations of an agent's tasks.
pub(crate) fn remove_pushes_of(conn: Conn<'_>, owner: &str) -> Result<(), RowsError> {
    sql::run(
        conn,
        "DELETE FROM subscription WHERE kind = 'push' \
         AND task_id IN (SELECT task_id FROM task WHERE cwd IS NULL AND owner = ?1)",
        [owner],
    )
}
