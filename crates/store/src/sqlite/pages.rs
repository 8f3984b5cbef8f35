//! What fronts ask: pages of messages, messages that changed lately, and the counts of `status`.
//!
//! Each query rests on an index, so that its cost does not grow with the number of finished messages.

use super::fields::Fields;
use super::message::{read, select_message};
use super::{request, sql};
use crate::page;
use bridge_core::port::{Figures, RowsError};
use bridge_core::value::{ConversationId, Message, MessageId, Seq, Timestamp};
use rusqlite::{Connection, Params};

pub(super) const OLDER: &str = select_message!(
    "JOIN message_text USING (row) \
     WHERE row < (SELECT row FROM message WHERE message_id = ?1) ORDER BY row DESC LIMIT ?2"
);

pub(super) const OF_CONVERSATION: &str = select_message!(
    "JOIN message_text USING (row) WHERE conversation_id = ?1 AND seq < ?2 \
     ORDER BY seq DESC LIMIT ?3"
);

pub(super) const OF_CONVERSATION_FROM: &str = select_message!(
    "JOIN message_text USING (row) WHERE conversation_id = ?1 AND seq > ?2 \
     ORDER BY seq LIMIT ?3"
);

/// What has something new. Those in flight are always among them: what Codex asks them changes without them.
const CHANGED: &str = "SELECT message_id FROM message INDEXED BY message_open \
         WHERE queue IS NOT NULL AND (updated_at >= ?1 OR queue = 'in_flight' OR state = 'unclear') \
     UNION SELECT message_id FROM message INDEXED BY message_finished \
         WHERE queue IS NULL AND state = 'done' AND updated_at >= ?1 \
     UNION SELECT message_id FROM message INDEXED BY message_finished \
         WHERE queue IS NULL AND state = 'dead' AND updated_at >= ?1 \
     UNION SELECT message_id FROM message INDEXED BY message_finished \
         WHERE queue IS NULL AND state = 'cancelled' AND updated_at >= ?1 \
     UNION SELECT message_id FROM event INDEXED BY event_at WHERE at >= ?1 \
     ORDER BY message_id LIMIT ?2";

pub(super) fn older(
    conn: &Connection,
    before: &MessageId,
    limit: u32,
) -> Result<Vec<Message>, RowsError> {
    sql::many(conn, OLDER, (before.as_str(), page(limit)), read)
}

pub(super) fn of_conversation(
    conn: &Connection,
    id: &ConversationId,
    before: Option<Seq>,
    limit: u32,
) -> Result<Vec<Message>, RowsError> {
    let before = before.map_or(i64::MAX, |seq| seq.0);
    let params = (id.as_str(), before, page(limit));
    sql::many(conn, OF_CONVERSATION, params, read)
}

pub(super) fn of_conversation_from(
    conn: &Connection,
    id: &ConversationId,
    after: Option<Seq>,
    limit: u32,
) -> Result<Vec<Message>, RowsError> {
    let after = after.map_or(i64::MIN, |seq| seq.0);
    let params = (id.as_str(), after, page(limit));
    sql::many(conn, OF_CONVERSATION_FROM, params, read)
}

pub(super) fn changed(
    conn: &Connection,
    since: Timestamp,
    limit: u32,
) -> Result<Vec<MessageId>, RowsError> {
    sql::many(conn, CHANGED, (since.0, page(limit)), |row| {
        Fields::of("message", row).id(MessageId::new)
    })
}

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

pub(super) fn figures(conn: &Connection, since: Timestamp) -> Result<Figures, RowsError> {
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
