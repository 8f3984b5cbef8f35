//! The `errand` and `word` tables: work of other agents, and what its owners said.
//!
//! `changed_at` is derived from the rows of an errand's messages and written only by the store, so that the newest
//! ones are found without looking at all of them. How an errand stands is the core's business.

use super::fields::Fields;
use super::{sql, sums};
use bridge_core::port::{ErrandQuery, RowsError};
use bridge_core::value::{
    Became, ChannelId, ConversationId, Errand, ErrandId, ExternalId, MessageId, RequestId,
    Timestamp, Word,
};
use rusqlite::{Connection, Row, params};

macro_rules! select {
    ($tail:literal) => {
        concat!(
            "SELECT errand_id, channel, conversation_id, owner, told, created_at, changed_at FROM errand ",
            $tail
        )
    };
}

const BY_ID: &str = select!("WHERE errand_id = ?1");

/// Of all conversations of an owner; the second parameter is not used.
pub(super) const OF_OWNER: &str = select!(
    "WHERE owner = ?1 AND ?2 IS NULL AND changed_at >= ?3 AND (changed_at, errand_id) < (?4, ?5) \
     ORDER BY changed_at DESC, errand_id DESC LIMIT ?6"
);
/// Of one conversation of an owner.
pub(super) const OF_CONVERSATION: &str = select!(
    "WHERE owner = ?1 AND conversation_id = ?2 AND changed_at >= ?3 AND (changed_at, errand_id) < (?4, ?5) \
     ORDER BY changed_at DESC, errand_id DESC LIMIT ?6"
);
pub(super) const COUNT_OF_OWNER: &str =
    "SELECT count(*) FROM errand WHERE owner = ?1 AND ?2 IS NULL AND changed_at >= ?3";
pub(super) const COUNT_OF_CONVERSATION: &str =
    "SELECT count(*) FROM errand WHERE owner = ?1 AND conversation_id = ?2 AND changed_at >= ?3";

pub(super) const WORDS: &str = "SELECT errand_id, ordinal, said_as, known_as, message_id, request_id, original, \
     original_sum, at FROM word WHERE errand_id = ?1 ORDER BY ordinal";

const OF_MESSAGE: &str = "SELECT errand_id FROM word WHERE message_id = ?1";

/// Runs with every step of every message, so it must cost next to nothing for those that are of no errand.
pub(super) const TOUCH: &str = "UPDATE errand SET changed_at = ?2 \
     WHERE errand_id = (SELECT errand_id FROM word WHERE message_id = ?1) AND changed_at < ?2";

/// The same, by a question of the message.
const TOUCH_BY_REQUEST: &str = "UPDATE errand SET changed_at = ?2 \
     WHERE errand_id = (SELECT errand_id FROM request JOIN word USING (message_id) WHERE request.request_id = ?1) \
     AND changed_at < ?2";

fn read(row: &Row<'_>) -> Result<(Errand, Timestamp), RowsError> {
    let mut fields = Fields::of("errand", row);
    let errand = Errand {
        errand_id: fields.id(ErrandId::new)?,
        channel: fields.id(ChannelId::new)?,
        conversation_id: fields.id(ConversationId::new)?,
        owner: fields.next()?,
        told: fields.next::<i64>()?.cast_unsigned(),
        created_at: fields.time()?,
    };
    Ok((errand, fields.time()?))
}

fn read_word(row: &Row<'_>) -> Result<Word, RowsError> {
    let mut fields = Fields::of("word", row);
    Ok(Word {
        errand_id: fields.id(ErrandId::new)?,
        ordinal: fields.next()?,
        said_as: fields.next()?,
        known_as: fields.maybe_id(ExternalId::new)?,
        became: {
            let message = fields.maybe_id(MessageId::new)?.map(Became::Message);
            let request = fields.maybe_id(RequestId::new)?.map(Became::Decision);
            message.or(request).unwrap_or(Became::Stop)
        },
        original: fields.text()?,
        at: fields.time()?,
    })
}

pub(super) fn by_id(conn: &Connection, id: &ErrandId) -> Result<Option<Errand>, RowsError> {
    Ok(with_change(conn, id)?.map(|(errand, _)| errand))
}

pub(super) fn changed(conn: &Connection, id: &ErrandId) -> Result<Option<Timestamp>, RowsError> {
    Ok(with_change(conn, id)?.map(|(_, at)| at))
}

fn with_change(conn: &Connection, id: &ErrandId) -> Result<Option<(Errand, Timestamp)>, RowsError> {
    sql::one(conn, BY_ID, [id.as_str()], read)
}

pub(super) fn words(conn: &Connection, id: &ErrandId) -> Result<Vec<Word>, RowsError> {
    sql::many(conn, WORDS, [id.as_str()], read_word)
}

pub(super) fn of(conn: &Connection, id: &MessageId) -> Result<Option<ErrandId>, RowsError> {
    sql::one(conn, OF_MESSAGE, [id.as_str()], |row| {
        Fields::of("word", row).id(ErrandId::new)
    })
}

pub(super) fn list(
    conn: &Connection,
    query: &ErrandQuery,
) -> Result<Vec<(Errand, Timestamp)>, RowsError> {
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

pub(super) fn count(conn: &Connection, query: &ErrandQuery) -> Result<u64, RowsError> {
    let statement = match &query.conversation {
        Some(_) => COUNT_OF_CONVERSATION,
        None => COUNT_OF_OWNER,
    };
    let conversation = query.conversation.as_ref().map(ConversationId::as_str);
    let params = params![query.owner, conversation, since(query)];
    let count = sql::number(conn, statement, params)?.unwrap_or(0);
    Ok(u64::try_from(count).unwrap_or(0))
}

fn since(query: &ErrandQuery) -> i64 {
    query.since.map_or(i64::MIN, |since| since.0)
}

pub(super) fn insert(conn: &Connection, errand: &Errand) -> Result<(), RowsError> {
    sql::write(
        conn,
        "INSERT INTO errand (errand_id, channel, conversation_id, owner, told, created_at, changed_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)",
        params![
            errand.errand_id.as_str(),
            errand.channel.as_str(),
            errand.conversation_id.as_str(),
            errand.owner,
            errand.told.cast_signed(),
            errand.created_at.0,
        ],
        || format!("new errand {}", errand.errand_id),
    )
}

pub(super) fn insert_word(conn: &Connection, word: &Word) -> Result<(), RowsError> {
    let (message, request) = match &word.became {
        Became::Message(id) => (Some(id.as_str()), None),
        Became::Decision(id) => (None, Some(id.as_str())),
        Became::Stop => (None, None),
    };
    sql::write(
        conn,
        "INSERT INTO word (errand_id, ordinal, said_as, known_as, message_id, request_id, original, \
         original_sum, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            word.errand_id.as_str(),
            word.ordinal,
            word.said_as,
            word.known_as.as_ref().map(ExternalId::as_str),
            message,
            request,
            word.original,
            sums::sum(&word.original),
            word.at.0,
        ],
        || format!("new word {}/{}", word.errand_id, word.ordinal),
    )?;
    sql::run(
        conn,
        "UPDATE errand SET changed_at = ?2 WHERE errand_id = ?1 AND changed_at < ?2",
        params![word.errand_id.as_str(), word.at.0],
    )
}

/// Numbers that were given are never given again.
pub(super) fn told(conn: &Connection, id: &ErrandId, told: u64) -> Result<(), RowsError> {
    sql::write(
        conn,
        "UPDATE errand SET told = ?2 WHERE errand_id = ?1 AND told <= ?2",
        params![id.as_str(), told.cast_signed()],
        || format!("news of errand {id}"),
    )
}

/// A message changed, and with it the errand that it is of.
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

/// A word goes with its message, and the errand with its last one.
pub(super) fn forget(conn: &Connection, id: &MessageId) -> Result<(), RowsError> {
    let Some(errand_id) = of(conn, id)? else {
        return Ok(());
    };
    sql::run(
        conn,
        "DELETE FROM word WHERE message_id = ?1",
        [id.as_str()],
    )?;
    let left = "SELECT count(*) FROM word WHERE errand_id = ?1 AND message_id IS NOT NULL";
    if sql::number(conn, left, [errand_id.as_str()])?.unwrap_or(0) > 0 {
        return Ok(());
    }
    for statement in [
        "DELETE FROM push WHERE errand_id = ?1",
        "DELETE FROM word WHERE errand_id = ?1",
        "DELETE FROM errand WHERE errand_id = ?1",
    ] {
        sql::run(conn, statement, [errand_id.as_str()])?;
    }
    Ok(())
}
