//! Lists over messages: what can be claimed, what is unfinished, what people look for.
//!
//! Every hot query names the partial index it rests on, so its cost does not grow with finished rows, and
//! SQLite refuses it instead of scanning should an index go.

use super::fields::Fields;
use super::message::{read, select_message};
use super::{conversation, sql};
use crate::page;
use bridge_core::port::{Head, RowsError, StateCount};
use bridge_core::value::{ConversationId, Message, MessageId, Seq, StateName, Timestamp};
use rusqlite::Connection;

pub(super) const READY: &str = select_message!(
    "INDEXED BY message_ready JOIN message_text USING (row) WHERE place = 'ready' \
     ORDER BY kind DESC, received_at, message_id LIMIT ?1"
);

pub(super) const HELD: &str = select_message!(
    "INDEXED BY message_held JOIN message_text USING (row) \
     WHERE place = 'held' AND hold_until <= ?2 \
     ORDER BY kind DESC, received_at, message_id LIMIT ?1"
);

pub(super) const NEXT_DUE: &str =
    "SELECT min(hold_until) FROM message INDEXED BY message_due WHERE place = 'held'";

pub(super) const IN_FLIGHT: &str =
    "SELECT count(*) FROM message INDEXED BY message_place WHERE place = 'flight'";

pub(super) const BACKLOG: &str =
    "SELECT count(*) FROM message INDEXED BY message_open WHERE place IS NOT NULL";

pub(super) const UNFINISHED: &str = select_message!(
    "INDEXED BY message_open JOIN message_text USING (row) \
     WHERE place IS NOT NULL AND message_id > ?1 ORDER BY message_id LIMIT ?2"
);

pub(super) const UNANSWERED_BEFORE: &str = "SELECT message_id FROM message INDEXED BY message_place \
     WHERE place IN ('ready', 'held', 'behind', 'flight') \
     AND conversation_id = ?1 AND seq < ?2 ORDER BY seq LIMIT 1";

const COUNTS: &str = "SELECT state, count(*) FROM message INDEXED BY message_finished \
     WHERE place IS NULL GROUP BY state \
     UNION ALL SELECT state, count(*) FROM message INDEXED BY message_open \
     WHERE place IS NOT NULL GROUP BY state";

const NEWEST: &str = select_message!("JOIN message_text USING (row) ORDER BY row DESC LIMIT ?1");

pub(super) const LAST_SEQ: &str = "SELECT max(seq) FROM message WHERE conversation_id = ?1";

const BY_PREFIX: &str = "SELECT message_id FROM message \
     WHERE message_id >= ?1 AND message_id < ?2 ORDER BY message_id LIMIT ?3";

/// Held messages are looked at only when one of them is due.
pub(super) fn heads(conn: &Connection, now: Timestamp, limit: u32) -> Result<Vec<Head>, RowsError> {
    let limit = page(limit);
    let mut due = sql::many(conn, READY, [limit], read)?;
    if next_due(conn)?.is_some_and(|due| due <= now) {
        due.extend(sql::many(conn, HELD, (limit, now.0), read)?);
        due.sort_by(|a, b| {
            (a.kind, a.received_at, &a.message_id).cmp(&(b.kind, b.received_at, &b.message_id))
        });
    }
    let mut heads = Vec::new();
    for message in due
        .into_iter()
        .take(usize::try_from(limit).unwrap_or(usize::MAX))
    {
        if let Some(conversation) = conversation::by_id(conn, &message.conversation_id)? {
            heads.push(Head {
                message,
                conversation,
            });
        }
    }
    Ok(heads)
}

pub(super) fn next_due(conn: &Connection) -> Result<Option<Timestamp>, RowsError> {
    Ok(sql::number(conn, NEXT_DUE, [])?.map(Timestamp))
}

pub(super) fn in_flight(conn: &Connection) -> Result<u32, RowsError> {
    count(conn, IN_FLIGHT)
}

pub(super) fn backlog(conn: &Connection) -> Result<u32, RowsError> {
    count(conn, BACKLOG)
}

fn count(conn: &Connection, query: &str) -> Result<u32, RowsError> {
    let count = sql::number(conn, query, [])?.unwrap_or(0);
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

pub(super) fn unfinished(
    conn: &Connection,
    after: Option<&MessageId>,
    limit: u32,
) -> Result<Vec<Message>, RowsError> {
    let after = after.map_or("", MessageId::as_str);
    sql::many(conn, UNFINISHED, (after, page(limit)), read)
}

pub(super) fn newest(conn: &Connection, limit: u32) -> Result<Vec<Message>, RowsError> {
    sql::many(conn, NEWEST, [page(limit)], read)
}

pub(super) fn ids_by_prefix(
    conn: &Connection,
    prefix: &str,
    limit: u32,
) -> Result<Vec<MessageId>, RowsError> {
    let end = format!("{prefix}{}", char::MAX);
    sql::many(conn, BY_PREFIX, (prefix, end, page(limit)), |row| {
        Fields::of("message", row).id(MessageId::new)
    })
}

pub(super) fn last_seq(conn: &Connection, id: &ConversationId) -> Result<Option<Seq>, RowsError> {
    Ok(sql::number(conn, LAST_SEQ, [id.as_str()])?.map(Seq))
}

pub(super) fn unanswered_before(
    conn: &Connection,
    id: &ConversationId,
    seq: Seq,
) -> Result<Option<MessageId>, RowsError> {
    sql::one(conn, UNANSWERED_BEFORE, (id.as_str(), seq.0), |row| {
        Fields::of("message", row).id(MessageId::new)
    })
}

pub(super) fn counts(conn: &Connection) -> Result<Vec<StateCount>, RowsError> {
    let mut counts = sql::many(conn, COUNTS, [], |row| {
        let mut fields = Fields::of("messages in state", row);
        Ok(StateCount {
            state: fields.word(StateName::from_word)?,
            count: u64::from(fields.next::<u32>()?),
        })
    })?;
    counts.sort_by_key(|count| count.state);
    Ok(counts)
}
