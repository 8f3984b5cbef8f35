//! The `request` table: what Codex asked, and what was decided, once.
//!
//! The payload is kept as Codex sent it; nothing here reads it.

use super::fields::Fields;
use super::sql;
use bridge_core::port::RowsError;
use bridge_core::value::{
    IncarnationId, ItemId, MessageId, Request, RequestDecision, RequestId, RequestKind,
    RequestState,
};
use rusqlite::{Connection, Row, params};

const OPEN: &str = "open";
const DECIDED: &str = "decided";

macro_rules! select {
    ($tail:literal) => {
        concat!(
            "SELECT request_id, message_id, attempt, incarnation, rpc_id, item_id, kind, headline, \
             payload, state, decision, decided_by, created_at FROM request ",
            $tail
        )
    };
}

fn read(row: &Row<'_>) -> Result<Request, RowsError> {
    let mut fields = Fields::of("request", row);
    Ok(Request {
        request_id: fields.id(RequestId::new)?,
        message_id: fields.id(MessageId::new)?,
        attempt: fields.next()?,
        incarnation: fields.id(IncarnationId::new)?,
        rpc_id: fields.next()?,
        item_id: fields.maybe_id(ItemId::new)?,
        kind: fields.word(|word| Some(RequestKind::from_word(word)))?,
        headline: fields.next()?,
        payload: fields.next()?,
        state: read_state(&mut fields)?,
        created_at: fields.time()?,
    })
}

fn read_state(fields: &mut Fields<'_, '_>) -> Result<RequestState, RowsError> {
    let state: String = fields.next()?;
    let decision: Option<String> = fields.next()?;
    let by: Option<String> = fields.next()?;
    match state.as_str() {
        OPEN => Ok(RequestState::Open),
        DECIDED => {
            let decision = decision.as_deref().and_then(RequestDecision::from_word);
            Ok(RequestState::Decided {
                decision: fields.required("its decision can't be read", decision)?,
                by: fields.required("nobody decided it", by)?,
            })
        }
        other => Err(fields.damaged(format!("unknown state {other:?}"))),
    }
}

fn state_columns(state: &RequestState) -> (&'static str, Option<&'static str>, Option<&str>) {
    match state {
        RequestState::Open => (OPEN, None, None),
        RequestState::Decided { decision, by } => (DECIDED, Some(decision.word()), Some(by)),
    }
}

pub(super) fn by_id(conn: &Connection, id: &RequestId) -> Result<Option<Request>, RowsError> {
    sql::one(conn, select!("WHERE request_id = ?1"), [id.as_str()], read)
}

pub(super) fn of_message(
    conn: &Connection,
    message_id: &MessageId,
) -> Result<Vec<Request>, RowsError> {
    let query = select!("WHERE message_id = ?1 ORDER BY row");
    sql::many(conn, query, [message_id.as_str()], read)
}

pub(super) fn insert(conn: &Connection, request: &Request) -> Result<(), RowsError> {
    let (state, decision, by) = state_columns(&request.state);
    sql::write(
        conn,
        "INSERT INTO request (request_id, message_id, attempt, incarnation, rpc_id, item_id, \
         kind, headline, payload, state, decision, decided_by, created_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        params![
            request.request_id.as_str(),
            request.message_id.as_str(),
            request.attempt,
            request.incarnation.as_str(),
            request.rpc_id,
            request.item_id.as_ref().map(ItemId::as_str),
            request.kind.word(),
            request.headline,
            request.payload,
            state,
            decision,
            by,
            request.created_at.0,
        ],
        || format!("new request {}", request.request_id),
    )
}

pub(super) fn decide(
    conn: &Connection,
    id: &RequestId,
    state: &RequestState,
) -> Result<(), RowsError> {
    let (state, decision, by) = state_columns(state);
    sql::write(
        conn,
        "UPDATE request SET state = ?2, decision = ?3, decided_by = ?4 \
         WHERE request_id = ?1 AND state = 'open'",
        params![id.as_str(), state, decision, by],
        || format!("decision of request {id}"),
    )
}
