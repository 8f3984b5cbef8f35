//! The `request` table: approval requests of Codex and the decision about each.
//!
//! The payload is kept as Codex sent it; nothing here reads it. Answers may be secret and are encrypted.

use super::fields::Fields;
use super::seal::{self, SealContext};
use super::task;
use crate::key::{LedgerKey, Unreadable};
use crate::sql::{self, Conn, Params, Row, params};
use bridge_core::port::{RequestsOf, RowsError, Standing};
use bridge_core::rules::Effect;
use bridge_core::value::{
    Actor, DecidedBy, EffectDigest, IncarnationId, ItemId, MessageId, Request, RequestId,
    RequestState, RequestStateName, RequestVerdict,
};

/// Stands for answers that can't be decrypted. It is no JSON, so that Codex gets nothing and the question is asked
/// again; without any answers an approval could mean more than was approved.
const UNREADABLE: &str = "(these answers were encrypted with another key)";

/// Stored for what the bridge decided itself: no caller has an empty name.
const BRIDGE: &str = "";

macro_rules! select {
    ($($tail:tt)+) => {
        concat!(
            "SELECT request_id, message_id, attempt, incarnation, rpc_id, item_id, method, kind, headline, \
             shown, digest, payload, answer_kind, secret_answer, deciders, state, decision, answers, decided_by, via, \
             decided_at, reason, created_at, deadline, reminded, redelivered, effect FROM request ",
            $($tail)+
        )
    };
}

/// Waits, or may still be used. An index over these is `request_waiting`.
macro_rules! live {
    () => {
        "(state = 'open' OR state = 'orphaned' OR state = 'granted')"
    };
}

pub(crate) const BY_ID: &str = select!("WHERE request_id = ?1");

pub(crate) const OF_MESSAGE: &str = select!("WHERE message_id = ?1 ORDER BY row");

pub(crate) const NAMED: &str =
    select!("WHERE message_id = ?1 AND incarnation = ?2 AND rpc_id = ?3 ORDER BY row");

pub(crate) const LIVE: &str = select!("WHERE message_id = ?1 AND ", live!(), " ORDER BY row");

/// Few requests live at a time, so their index is looked through.
pub(crate) const BY_CODE: &str = select!(
    "INDEXED BY request_waiting WHERE ",
    live!(),
    " AND state <> 'granted' AND substr(request_id, 1, length(?2)) = ?2 \
     AND (SELECT conversation_id FROM message WHERE message.message_id = request.message_id) = ?1 \
     ORDER BY row"
);

pub(crate) const NEWEST_WAITING: &str = select!(
    "INDEXED BY request_waiting WHERE ",
    live!(),
    " AND state <> 'granted' AND (?1 = '' OR row < (SELECT row FROM request WHERE request_id = ?1)) \
     ORDER BY row DESC LIMIT ?2"
);

pub(crate) const NEWEST: &str = select!(
    "WHERE ?1 = '' OR row < (SELECT row FROM request WHERE request_id = ?1) \
     ORDER BY row DESC LIMIT ?2"
);

pub(crate) const OVERDUE: &str = select!(
    "INDEXED BY request_waiting WHERE ",
    live!(),
    " AND deadline <= ?1 ORDER BY deadline, request_id LIMIT ?2"
);

pub(crate) const NEXT_DEADLINE: &str = concat!(
    "SELECT min(deadline) FROM request INDEXED BY request_waiting WHERE ",
    live!(),
    " AND deadline > ?1"
);

pub(crate) const UNREMINDED: &str = select!(
    "INDEXED BY request_waiting WHERE ",
    live!(),
    " AND state = 'open' AND reminded = 0 AND created_at <= ?1 ORDER BY created_at, request_id LIMIT ?2"
);

pub(crate) const NEXT_UNREMINDED: &str = concat!(
    "SELECT min(created_at) FROM request INDEXED BY request_waiting WHERE ",
    live!(),
    " AND state = 'open' AND reminded = 0 AND created_at > ?1"
);

/// Requests that wait for a decision.
pub(crate) const WAITING: &str = concat!(
    "SELECT count(*) FROM request INDEXED BY request_waiting WHERE ",
    live!(),
    " AND state <> 'granted'"
);

fn read(row: &Row<'_>) -> Result<Request, RowsError> {
    let mut fields = Fields::of("request", row);
    Ok(Request {
        request_id: fields.id(RequestId::new)?,
        message_id: fields.id(MessageId::new)?,
        attempt: fields.next()?,
        incarnation: fields.id(IncarnationId::new)?,
        rpc_id: fields.next()?,
        item_id: fields.maybe_id(ItemId::new)?,
        method: fields.next()?,
        kind: fields.word()?,
        headline: fields.next()?,
        shown: fields.next()?,
        digest: EffectDigest::stored(fields.next::<String>()?),
        payload: fields.next()?,
        wants: fields.word()?,
        secret_answer: fields.next()?,
        deciders: fields.word()?,
        state: read_state(&mut fields)?,
        created_at: fields.time()?,
        deadline: fields.time()?,
        reminded: fields.next()?,
        resends: fields.next()?,
        effect: read_effect(&mut fields)?,
    })
}

fn read_effect(fields: &mut Fields<'_>) -> Result<Option<Effect>, RowsError> {
    let stored: Option<String> = fields.next()?;
    let read = stored.map(|stored| serde_json::from_str(&stored));
    read.transpose().map_err(|error| fields.unreadable(error))
}

fn stored_effect(effect: Option<&Effect>) -> Option<String> {
    serde_json::to_string(effect?).ok()
}

fn read_state(fields: &mut Fields<'_>) -> Result<RequestState, RowsError> {
    let state: String = fields.next()?;
    let decision: Option<String> = fields.next()?;
    let answers: Option<String> = fields.next()?;
    let by: Option<String> = fields.next()?;
    let via: Option<String> = fields.next()?;
    let at = fields.maybe_time()?;
    let why: Option<String> = fields.next()?;
    let verdict = |fields: &mut Fields<'_>| {
        let decision = decision.and_then(|word| word.parse().ok());
        Ok(RequestVerdict {
            decision: fields.required("its decision can't be read", decision)?,
            answers,
            by: decided_by(&fields.required("nobody decided it", by)?),
            via: fields.required("it was decided nowhere", via)?,
            at: fields.required("it was decided at no time", at)?,
        })
    };
    match state.as_str() {
        "open" => Ok(RequestState::Open),
        "orphaned" => Ok(RequestState::Orphaned),
        "decided" => Ok(RequestState::Decided(verdict(fields)?)),
        "granted" => Ok(RequestState::Granted(verdict(fields)?)),
        "withdrawn" => Ok(RequestState::Withdrawn {
            why: fields.required("it was withdrawn for no reason", why)?,
        }),
        other => Err(fields.unreadable(format!("unknown state {other:?}"))),
    }
}

/// Decrypts the answers that a state has.
fn opened(key: &LedgerKey, id: &RequestId, state: RequestState) -> RequestState {
    let open = |verdict: RequestVerdict| {
        let answers = verdict.answers.map(|stored| {
            let clear = seal::open(key, &SealContext::answers(id.as_str()), &stored);
            clear.unwrap_or_else(|Unreadable| UNREADABLE.to_owned())
        });
        RequestVerdict { answers, ..verdict }
    };
    match state {
        RequestState::Decided(verdict) => RequestState::Decided(open(verdict)),
        RequestState::Granted(verdict) => RequestState::Granted(open(verdict)),
        state @ (RequestState::Open | RequestState::Orphaned | RequestState::Withdrawn { .. }) => {
            state
        }
    }
}

pub(crate) fn many(
    conn: Conn<'_>,
    key: &LedgerKey,
    query: &str,
    params: impl Params,
) -> Result<Vec<Request>, RowsError> {
    Ok(all_opened(key, sql::many(conn, query, params, read)?))
}

pub(crate) fn list(
    conn: Conn<'_>,
    key: &LedgerKey,
    query: &str,
    params: impl Params,
    limit: u32,
) -> Result<Vec<Request>, RowsError> {
    let stored = sql::many_readable(conn, query, params, limit, read)?;
    Ok(all_opened(key, stored))
}

fn all_opened(key: &LedgerKey, stored: Vec<Request>) -> Vec<Request> {
    let open = |request: Request| Request {
        state: opened(key, &request.request_id, request.state),
        ..request
    };
    stored.into_iter().map(open).collect()
}

/// Of a query that gives one at most.
pub(crate) fn one(
    conn: Conn<'_>,
    key: &LedgerKey,
    query: &str,
    params: impl Params,
) -> Result<Option<Request>, RowsError> {
    Ok(many(conn, key, query, params)?.pop())
}

/// A name; or a line break, the program, a line break and the name. A name that is empty or begins with a line break
/// stands behind an empty program, so that none reads as another or as the bridge.
fn decided_by(stored: &str) -> DecidedBy {
    if stored == BRIDGE {
        return DecidedBy::Bridge;
    }
    let with_program = stored
        .strip_prefix('\n')
        .and_then(|rest| rest.split_once('\n'));
    DecidedBy::Caller(match with_program {
        Some(("", name)) => Actor::named(name),
        Some((program, name)) => Actor {
            name: name.to_owned(),
            program: Some(program.to_owned()),
        },
        None => Actor::named(stored),
    })
}

fn stored_by(by: &DecidedBy) -> String {
    match by {
        DecidedBy::Bridge => BRIDGE.to_owned(),
        DecidedBy::Caller(Actor { name, program }) => match program {
            Some(program) => format!("\n{}\n{name}", program.replace('\n', " ")),
            None if name.is_empty() || name.starts_with('\n') => format!("\n\n{name}"),
            None => name.clone(),
        },
    }
}

/// The columns of a state, in the order of the table.
struct RequestColumns<'s> {
    state: &'static str,
    decision: Option<&'static str>,
    answers: Option<String>,
    by: Option<String>,
    via: Option<&'s str>,
    at: Option<i64>,
    why: Option<&'s str>,
}

impl<'s> RequestColumns<'s> {
    fn of(key: &LedgerKey, id: &RequestId, state: &'s RequestState) -> Result<Self, RowsError> {
        let verdict = state.verdict();
        let answers = verdict.and_then(|verdict| verdict.answers.as_deref());
        let sealed =
            answers.map(|answers| seal::seal(key, &SealContext::answers(id.as_str()), answers));
        Ok(Self {
            state: state.as_str(),
            decision: verdict.map(|verdict| verdict.decision.as_str()),
            answers: sealed.transpose()?,
            by: verdict.map(|verdict| stored_by(&verdict.by)),
            via: verdict.map(|verdict| verdict.via.as_str()),
            at: verdict.map(|verdict| verdict.at.0),
            why: match state {
                RequestState::Withdrawn { why } => Some(why),
                RequestState::Open
                | RequestState::Orphaned
                | RequestState::Decided(_)
                | RequestState::Granted(_) => None,
            },
        })
    }
}

pub(crate) fn standings(
    conn: Conn<'_>,
    key: &LedgerKey,
    message_id: &MessageId,
) -> Result<Vec<Standing>, RowsError> {
    let query = "SELECT request_id, attempt, incarnation, rpc_id, item_id, state, decision, answers, decided_by, \
         via, decided_at, reason, created_at, redelivered FROM request WHERE message_id = ?1 ORDER BY row";
    let stored = sql::many(conn, query, [message_id.as_str()], |row| {
        let mut fields = Fields::of("request", row);
        Ok(Standing {
            request_id: fields.id(RequestId::new)?,
            attempt: fields.next()?,
            incarnation: fields.id(IncarnationId::new)?,
            rpc_id: fields.next()?,
            item_id: fields.maybe_id(ItemId::new)?,
            state: read_state(&mut fields)?,
            created_at: fields.time()?,
            resends: fields.next()?,
        })
    })?;
    let open = |standing: Standing| Standing {
        state: opened(key, &standing.request_id, standing.state),
        ..standing
    };
    Ok(stored.into_iter().map(open).collect())
}

pub(crate) fn insert(conn: Conn<'_>, key: &LedgerKey, request: &Request) -> Result<(), RowsError> {
    let state = RequestColumns::of(key, &request.request_id, &request.state)?;
    sql::write(
        conn,
        "INSERT INTO request (request_id, message_id, attempt, incarnation, rpc_id, item_id, method, \
         kind, headline, shown, digest, payload, answer_kind, secret_answer, deciders, state, decision, answers, \
         decided_by, via, decided_at, reason, created_at, deadline, reminded, redelivered, effect) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, \
         ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27)",
        params![
            request.request_id.as_str(),
            request.message_id.as_str(),
            request.attempt,
            request.incarnation.as_str(),
            request.rpc_id,
            request.item_id.as_ref().map(ItemId::as_str),
            request.method,
            request.kind.as_str(),
            request.headline,
            request.shown,
            request.digest.as_str(),
            request.payload,
            request.wants.as_str(),
            request.secret_answer,
            request.deciders.as_str(),
            state.state,
            state.decision,
            state.answers,
            state.by,
            state.via,
            state.at,
            state.why,
            request.created_at.0,
            request.deadline.0,
            request.reminded,
            request.resends,
            stored_effect(request.effect.as_ref()),
        ],
        || format!("new request {}", request.request_id),
    )?;
    task::touch(conn, &request.message_id, request.created_at)
}

pub(crate) fn asked(conn: Conn<'_>, message_id: &MessageId) -> Result<u32, RowsError> {
    let query = "SELECT count(*) FROM request WHERE message_id = ?1";
    let count = sql::count(conn, query, [message_id.as_str()])?;
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

pub(crate) fn moved(
    conn: Conn<'_>,
    key: &LedgerKey,
    id: &RequestId,
    from: RequestStateName,
    to: &RequestState,
) -> Result<(), RowsError> {
    let state = RequestColumns::of(key, id, to)?;
    sql::write(
        conn,
        "UPDATE request SET state = ?2, decision = ?3, answers = ?4, decided_by = ?5, via = ?6, \
         decided_at = ?7, reason = ?8 WHERE request_id = ?1 AND state = ?9",
        params![
            id.as_str(),
            state.state,
            state.decision,
            state.answers,
            state.by,
            state.via,
            state.at,
            state.why,
            from.as_str(),
        ],
        || format!("request {id}, which must be {}", from.as_str()),
    )?;
    match to.verdict() {
        Some(verdict) => task::touch_by_request(conn, id, verdict.at),
        None => Ok(()),
    }
}

pub(crate) fn resends(conn: Conn<'_>, id: &RequestId) -> Result<(), RowsError> {
    sql::write(
        conn,
        "UPDATE request SET redelivered = redelivered + 1 WHERE request_id = ?1 AND state = 'decided'",
        [id.as_str()],
        || format!("request {id}, which must be decided"),
    )
}

pub(crate) fn reminded(conn: Conn<'_>, id: &RequestId) -> Result<(), RowsError> {
    sql::write(
        conn,
        "UPDATE request SET reminded = 1 WHERE request_id = ?1 AND state = 'open'",
        [id.as_str()],
        || format!("reminder of request {id}"),
    )
}

pub(crate) fn orphan(conn: Conn<'_>, of: &RequestsOf) -> Result<(), RowsError> {
    match of {
        RequestsOf::Message(id) => sql::run(
            conn,
            "UPDATE request SET state = 'orphaned' WHERE message_id = ?1 AND state = 'open'",
            [id.as_str()],
        ),
        RequestsOf::Incarnation(id) => sql::run(
            conn,
            "UPDATE request INDEXED BY request_waiting SET state = 'orphaned' \
             WHERE (state = 'open' OR state = 'orphaned' OR state = 'granted') \
             AND state = 'open' AND incarnation = ?1",
            [id.as_str()],
        ),
    }
}

pub(crate) fn withdraw(conn: Conn<'_>, id: &MessageId, why: &str) -> Result<(), RowsError> {
    sql::run(
        conn,
        "UPDATE request SET state = 'withdrawn', decision = NULL, answers = NULL, decided_by = NULL, \
         via = NULL, decided_at = NULL, reason = ?2 \
         WHERE message_id = ?1 AND (state = 'open' OR state = 'orphaned' OR state = 'granted')",
        (id.as_str(), why),
    )
}
