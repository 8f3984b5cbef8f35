//! What `status` counts. Every query rests on an index of what is open or new, so that old rows cost nothing.

use super::{request, sql};
use bridge_core::port::{Figures, RowsError};
use bridge_core::value::Timestamp;
use rusqlite::{Connection, Params};

const ANSWERED: &str = "SELECT count(*) FROM message INDEXED BY message_finished \
     WHERE queue IS NULL AND state = 'done' AND updated_at >= ?1";

const OLDEST: &str = "SELECT min(received_at) FROM message INDEXED BY message_open \
     WHERE queue IS NOT NULL AND queue <> 'outbox'";

const SUSPECTS: &str = "SELECT count(*) FROM message INDEXED BY message_open \
     WHERE queue IS NOT NULL AND queue <> 'outbox' AND suspect = 1";

const OPERATOR: &str = "SELECT count(*) FROM message INDEXED BY message_open \
     WHERE queue IS NOT NULL AND state = 'received' AND hold_class = 'config'";

/// A first send that is under way is no retry.
const RETRIED: &str = "SELECT count(*) FROM reply INDEXED BY reply_lane \
     WHERE state IN ('queued', 'sending') AND tries > (CASE state WHEN 'sending' THEN 1 ELSE 0 END)";

pub(super) fn since(conn: &Connection, since: Timestamp) -> Result<Figures, RowsError> {
    Ok(Figures {
        answered: count(conn, ANSWERED, [since.0])?,
        oldest_unanswered: sql::number(conn, OLDEST, [])?.map(Timestamp),
        suspects: count(conn, SUSPECTS, [])?,
        operator: count(conn, OPERATOR, [])?,
        replies_retried: count(conn, RETRIED, [])?,
        requests_waiting: count(conn, request::WAITING, [])?,
    })
}

fn count(conn: &Connection, query: &str, params: impl Params) -> Result<u64, RowsError> {
    let count = sql::number(conn, query, params)?.unwrap_or(0);
    Ok(u64::try_from(count).unwrap_or(0))
}
