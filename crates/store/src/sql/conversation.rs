//! The tables `conversation` (its thread, and the newest turn known on it) and `cursor` (how far a channel was read).
//!
//! Column mapping and guarded writes only; the core decides when a thread is bound or let go. A cursor's position is the
//! channel's own text.

use super::fields::Fields;
use crate::sql::{self, Conn, Row, params};
use bridge_core::port::RowsError;
use bridge_core::value::{
    ChannelId, Conversation, ConversationId, MessageId, Sandbox, ThreadId, Timestamp, TurnId,
};

macro_rules! columns {
    () => {
        "conversation_id, channel, external_key, context, thread, last_turn, workdir, model, sandbox, created_at"
    };
}

macro_rules! select {
    ($tail:literal) => {
        concat!("SELECT ", columns!(), " FROM conversation ", $tail)
    };
}

/// Where a list has the column `active_at`: behind those of a conversation.
const ACTIVE_AT: usize = 10;

pub(crate) fn read(row: &Row<'_>) -> Result<Conversation, RowsError> {
    let mut fields = Fields::of("conversation", row);
    Ok(Conversation {
        conversation_id: fields.id(ConversationId::new)?,
        channel: fields.id(ChannelId::new)?,
        external_key: fields.next()?,
        context: fields.next()?,
        thread: fields.maybe_id(ThreadId::new)?,
        last_turn: fields.maybe_id(TurnId::new)?,
        workdir: fields.next()?,
        model: fields.next()?,
        sandbox: fields.maybe_word()?,
        created_at: fields.time()?,
    })
}

pub(crate) fn by_id(
    conn: Conn<'_>,
    id: &ConversationId,
) -> Result<Option<Conversation>, RowsError> {
    let query = select!("WHERE conversation_id = ?1");
    sql::one(conn, query, [id.as_str()], read)
}

pub(crate) fn by_key(
    conn: Conn<'_>,
    channel: &ChannelId,
    external_key: &str,
) -> Result<Option<Conversation>, RowsError> {
    let query = select!("WHERE channel = ?1 AND external_key = ?2");
    sql::one(conn, query, [channel.as_str(), external_key], read)
}

/// Walks the index from its end.
pub(crate) const BY_ACTIVITY: &str = concat!(
    "SELECT ",
    columns!(),
    ", active_at FROM conversation INDEXED BY conversation_active \
     WHERE (active_at, conversation_id) < (?1, ?2) ORDER BY active_at DESC, conversation_id DESC LIMIT ?3"
);

pub(crate) fn by_activity(
    conn: Conn<'_>,
    before: Option<(Timestamp, &ConversationId)>,
    limit: u32,
) -> Result<Vec<(Conversation, Timestamp)>, RowsError> {
    let (at, id) = before.map_or((i64::MAX, ""), |(at, id)| (at.0, id.as_str()));
    let params = (at, id, sql::reach(limit));
    sql::many_readable(conn, BY_ACTIVITY, params, limit, read_active)
}

fn read_active(row: &Row<'_>) -> Result<(Conversation, Timestamp), RowsError> {
    let at = row.get(ACTIVE_AT).map_err(sql::failed)?;
    Ok((read(row)?, Timestamp(at)))
}

/// Sorts those of one person, by the index of keys.
pub(crate) const UNDER: &str = concat!(
    "SELECT ",
    columns!(),
    ", active_at FROM conversation WHERE channel = ?4 AND external_key >= ?5 AND external_key < ?6 \
     AND (+active_at, +conversation_id) < (?1, ?2) ORDER BY +active_at DESC, conversation_id DESC LIMIT ?3"
);

pub(crate) fn under(
    conn: Conn<'_>,
    channel: &ChannelId,
    prefix: &str,
    before: Option<(Timestamp, &ConversationId)>,
    limit: u32,
) -> Result<Vec<(Conversation, Timestamp)>, RowsError> {
    let (at, id) = before.map_or((i64::MAX, ""), |(at, id)| (at.0, id.as_str()));
    let end = format!("{prefix}{}", char::MAX);
    let params = (at, id, sql::reach(limit), channel.as_str(), prefix, end);
    sql::many_readable(conn, UNDER, params, limit, read_active)
}

/// Something happened in it.
pub(crate) const TOUCH: &str =
    "UPDATE conversation SET active_at = ?2 WHERE conversation_id = ?1 AND active_at < ?2";

pub(crate) fn touch(conn: Conn<'_>, id: &str, at: Timestamp) -> Result<(), RowsError> {
    sql::run(conn, TOUCH, params![id, at.0])
}

/// The same, in the one of this message.
pub(crate) fn touch_by_message(
    conn: Conn<'_>,
    id: &MessageId,
    at: Timestamp,
) -> Result<(), RowsError> {
    let touch = "UPDATE conversation SET active_at = ?2 WHERE active_at < ?2 \
         AND conversation_id = (SELECT conversation_id FROM message WHERE message_id = ?1)";
    sql::run(conn, touch, params![id.as_str(), at.0])
}

/// Keys are unique within a channel; there are few channels, and this is asked by people.
const ALL_BY_KEY: &str = select!("WHERE external_key = ?1 ORDER BY conversation_id DESC LIMIT ?2");

pub(crate) fn all_by_key(
    conn: Conn<'_>,
    key: &str,
    limit: u32,
) -> Result<Vec<Conversation>, RowsError> {
    let params = (key, sql::reach(limit));
    sql::many_readable(conn, ALL_BY_KEY, params, limit, read)
}

/// Along the index of activity. Those of which the thread is gone are passed over, once an hour.
const PRUNABLE: &str = select!(
    "WHERE active_at < ?1 AND thread IS NOT NULL AND substr(thread, 1, 6) <> 'pruned' \
     AND NOT EXISTS (SELECT 1 FROM message AS open WHERE open.conversation_id = conversation.conversation_id \
                     AND open.queue IS NOT NULL) \
     AND NOT EXISTS (SELECT 1 FROM loan WHERE loan.conversation_id = conversation.conversation_id) \
     ORDER BY active_at, conversation_id LIMIT ?2"
);

pub(crate) fn prunable(
    conn: Conn<'_>,
    before: Timestamp,
    limit: u32,
) -> Result<Vec<Conversation>, RowsError> {
    let params = (before.0, sql::reach(limit));
    sql::many_readable(conn, PRUNABLE, params, limit, read)
}

const PRUNED: &str =
    select!("WHERE substr(thread, 1, 7) = 'pruned-' ORDER BY conversation_id LIMIT ?1");

pub(crate) fn pruned(conn: Conn<'_>, limit: u32) -> Result<Vec<Conversation>, RowsError> {
    sql::many_readable(conn, PRUNED, [sql::reach(limit)], limit, read)
}

pub(crate) fn insert(conn: Conn<'_>, conversation: &Conversation) -> Result<(), RowsError> {
    sql::write(
        conn,
        "INSERT INTO conversation \
         (conversation_id, channel, external_key, context, thread, last_turn, workdir, model, \
          sandbox, created_at, active_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10)",
        params![
            conversation.conversation_id.as_str(),
            conversation.channel.as_str(),
            conversation.external_key,
            conversation.context,
            conversation.thread.as_ref().map(ThreadId::as_str),
            conversation.last_turn.as_ref().map(TurnId::as_str),
            conversation.workdir,
            conversation.model,
            conversation.sandbox.map(Sandbox::as_str),
            conversation.created_at.0,
        ],
        || format!("new conversation {}", conversation.conversation_id),
    )
}

pub(crate) fn rekey(
    conn: Conn<'_>,
    id: &ConversationId,
    external_key: &str,
    context: Option<&str>,
) -> Result<(), RowsError> {
    sql::write(
        conn,
        "UPDATE conversation SET external_key = ?2, context = ?3 WHERE conversation_id = ?1",
        params![id.as_str(), external_key, context],
        || format!("key of conversation {id}"),
    )
}

pub(crate) fn bind(
    conn: Conn<'_>,
    id: &ConversationId,
    from: Option<&ThreadId>,
    to: Option<&ThreadId>,
) -> Result<(), RowsError> {
    sql::write(
        conn,
        "UPDATE conversation SET thread = ?3, last_turn = CASE WHEN ?2 IS NOT DISTINCT FROM ?3 THEN last_turn END \
         WHERE conversation_id = ?1 AND thread IS NOT DISTINCT FROM ?2",
        params![
            id.as_str(),
            from.map(ThreadId::as_str),
            to.map(ThreadId::as_str)
        ],
        || format!("binding of conversation {id}"),
    )
}

pub(crate) fn last_turn(
    conn: Conn<'_>,
    id: &ConversationId,
    turn_id: &TurnId,
    at: Timestamp,
) -> Result<(), RowsError> {
    sql::write(
        conn,
        "UPDATE conversation SET last_turn = ?2, active_at = CASE WHEN active_at < ?3 THEN ?3 ELSE active_at END \
         WHERE conversation_id = ?1",
        params![id.as_str(), turn_id.as_str(), at.0],
        || format!("conversation {id}"),
    )
}

pub(crate) fn cursor(conn: Conn<'_>, channel: &ChannelId) -> Result<Option<String>, RowsError> {
    let query = "SELECT channel, position FROM cursor WHERE channel = ?1";
    sql::one(conn, query, [channel.as_str()], |row| {
        let mut fields = Fields::of("cursor of", row);
        let _channel: String = fields.next()?;
        fields.next()
    })
}

pub(crate) fn set_cursor(
    conn: Conn<'_>,
    channel: &ChannelId,
    position: &str,
    at: Timestamp,
) -> Result<(), RowsError> {
    sql::write(
        conn,
        "INSERT INTO cursor (channel, position, updated_at) VALUES (?1, ?2, ?3) \
         ON CONFLICT (channel) DO UPDATE SET position = ?2, updated_at = ?3",
        params![channel.as_str(), position, at.0],
        || format!("cursor of {channel}"),
    )
}
