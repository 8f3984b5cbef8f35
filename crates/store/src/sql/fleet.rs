//! Daemons that share the ledger: the tables `node`, `home` and `segment`.
//!
//! Empty where one daemon has the ledger for itself. Leases are compared with the database's own time.

use super::fields::Fields;
use super::file;
use super::queue::json;
use super::seal::{self, SealContext};
use crate::key::LedgerKey;
use crate::page;
use crate::sql::{self, Conn, Row, params};
use bridge_core::limits::PAGE_MAX;
use bridge_core::port::{FleetChange, RowsError};
use bridge_core::value::{
    ChannelId, ConversationId, Epoch, Home, MessageId, Node, NodeId, NodeInfo, NodeState, Segment,
    ThreadFile, ThreadId, Timestamp,
};

macro_rules! select_node {
    ($tail:literal) => {
        concat!(
            "SELECT node_id, epoch, state, CASE WHEN lease_until > unixepoch() * 1000 THEN 1 ELSE 0 END, lease_until, started_at, \
             channels, version, codex_version, capacity FROM node ",
            $tail
        )
    };
}

/// A conversation that no living node has.
macro_rules! is_nobodys {
    ($conversation:literal) => {
        concat!(
            "NOT EXISTS (SELECT 1 FROM home JOIN node USING (node_id) WHERE home.conversation_id = ",
            $conversation,
            " AND node.state <> 'left' AND node.lease_until > unixepoch() * 1000)"
        )
    };
}

/// A turn that wrote, or may have written, files.
macro_rules! wrote_files {
    ($conversation:literal) => {
        concat!(
            "EXISTS (SELECT 1 FROM message AS its JOIN turn ON turn.message_id = its.message_id \
             WHERE its.conversation_id = ",
            $conversation,
            " AND turn.touched = 1 AND turn.sandbox <> 'read-only')"
        )
    };
}

pub(crate) fn apply(
    conn: Conn<'_>,
    key: &LedgerKey,
    change: &FleetChange,
) -> Result<(), RowsError> {
    match change {
        FleetChange::Home { from, to } => set_home(conn, from.as_ref(), to),
        FleetChange::NodeInfo { node_id, about } => set_info(conn, node_id, about),
        FleetChange::NodeState { node_id, from, to } => set_state(conn, node_id, *from, *to),
        FleetChange::NewSegment(segment) => add_segment(conn, key, segment),
        FleetChange::DropSegments(thread) => drop_segments(conn, thread),
        FleetChange::KeepFile(kept) => file::keep(conn, kept),
        FleetChange::NewFilePiece {
            digest,
            offset,
            bytes,
        } => file::add_piece(conn, key, digest, *offset, bytes),
        FleetChange::DropFile(kept) => file::drop(conn, kept),
    }
}

fn read_node(row: &Row<'_>) -> Result<Node, RowsError> {
    let mut fields = Fields::of("node", row);
    Ok(Node {
        node_id: fields.id(NodeId::new)?,
        epoch: fields.next().map(Epoch)?,
        state: fields.word()?,
        alive: fields.next()?,
        lease_until: fields.time()?,
        started_at: fields.time()?,
        about: NodeInfo {
            channels: read_channels(fields.next()?)?,
            version: fields.next()?,
            codex_version: fields.next()?,
            capacity: fields.next()?,
        },
    })
}

pub(crate) fn nodes(conn: Conn<'_>) -> Result<Vec<Node>, RowsError> {
    let query = select_node!("ORDER BY 4 DESC, node_id LIMIT ?1");
    sql::many(conn, query, [page(PAGE_MAX)], read_node)
}

/// Removes nodes whose lease ended long ago, unless a conversation waits for one.
pub(crate) fn forget_nodes(conn: Conn<'_>, before: Timestamp) -> Result<(), RowsError> {
    let delete = "DELETE FROM node WHERE lease_until < ?1 \
         AND NOT EXISTS (SELECT 1 FROM home WHERE home.node_id = node.node_id)";
    sql::run(conn, delete, [before.0])
}

pub(crate) fn node(conn: Conn<'_>, node_id: &NodeId) -> Result<Option<Node>, RowsError> {
    let query = select_node!("WHERE node_id = ?1");
    sql::one(conn, query, [node_id.as_str()], read_node)
}

fn read_channels(list: String) -> Result<Vec<ChannelId>, RowsError> {
    serde_json::from_str(&list).map_err(|error| RowsError::Unreadable {
        what: "channels of a node".to_owned(),
        why: error.to_string(),
    })
}

fn set_info(conn: Conn<'_>, node_id: &NodeId, about: &NodeInfo) -> Result<(), RowsError> {
    let channels = serde_json::to_string(&about.channels).unwrap_or_default();
    sql::write(
        conn,
        "UPDATE node SET channels = ?2, version = ?3, codex_version = ?4, capacity = ?5 WHERE node_id = ?1",
        params![
            node_id.as_str(),
            channels,
            about.version,
            about.codex_version,
            about.capacity,
        ],
        || format!("node {node_id}"),
    )
}

fn set_state(
    conn: Conn<'_>,
    node_id: &NodeId,
    from: NodeState,
    to: NodeState,
) -> Result<(), RowsError> {
    sql::write(
        conn,
        "UPDATE node SET state = ?3 WHERE node_id = ?1 AND state = ?2",
        params![node_id.as_str(), from.as_str(), to.as_str()],
        || format!("state of node {node_id}"),
    )
}

fn read_home(row: &Row<'_>) -> Result<Home, RowsError> {
    let mut fields = Fields::of("home of conversation", row);
    Ok(Home {
        conversation_id: fields.id(ConversationId::new)?,
        node_id: fields.maybe_id(NodeId::new)?,
        generation: fields.next()?,
        since: fields.time()?,
    })
}

pub(crate) fn home(conn: Conn<'_>, id: &ConversationId) -> Result<Option<Home>, RowsError> {
    let query =
        "SELECT conversation_id, node_id, generation, since FROM home WHERE conversation_id = ?1";
    sql::one(conn, query, [id.as_str()], read_home)
}

pub(crate) fn in_flight_elsewhere(
    conn: Conn<'_>,
    this: &NodeId,
    messages: &[MessageId],
    limit: u32,
) -> Result<Vec<(MessageId, NodeId)>, RowsError> {
    let query = "SELECT message_id, home.node_id FROM message JOIN home USING (conversation_id) \
         WHERE state IN ('claimed', 'starting', 'running', 'unclear') AND home.node_id <> ?1 \
         AND message_id IN (SELECT value FROM json_each(?2)) ORDER BY message_id LIMIT ?3";
    let messages = json(messages.iter().map(MessageId::as_str));
    sql::many(conn, query, (this.as_str(), messages, limit), |row| {
        let mut fields = Fields::of("turn of another node", row);
        let message_id: String = fields.next()?;
        let node_id: String = fields.next()?;
        Ok((MessageId::new(message_id), NodeId::new(node_id)))
    })
}

pub(crate) fn homes_of(
    conn: Conn<'_>,
    node_id: &NodeId,
    after: Option<&ConversationId>,
    limit: u32,
) -> Result<Vec<Home>, RowsError> {
    let query = "SELECT conversation_id, node_id, generation, since FROM home \
         WHERE node_id = ?1 AND conversation_id > ?2 ORDER BY conversation_id LIMIT ?3";
    let after = after.map_or("", ConversationId::as_str);
    sql::many(
        conn,
        query,
        (node_id.as_str(), after, page(limit)),
        read_home,
    )
}

pub(crate) fn homes_counted(conn: Conn<'_>, node_id: &NodeId, max: u32) -> Result<u64, RowsError> {
    let query = "SELECT count(*) FROM (SELECT 1 FROM home WHERE node_id = ?1 LIMIT ?2) AS counted";
    sql::count(conn, query, (node_id.as_str(), max))
}

fn set_home(conn: Conn<'_>, from: Option<&NodeId>, to: &Home) -> Result<(), RowsError> {
    sql::write(
        conn,
        "INSERT INTO home (conversation_id, node_id, generation, since) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (conversation_id) DO UPDATE \
         SET node_id = excluded.node_id, generation = excluded.generation, since = excluded.since \
         WHERE home.node_id IS NOT DISTINCT FROM ?5",
        params![
            to.conversation_id.as_str(),
            to.node_id.as_ref().map(NodeId::as_str),
            to.generation,
            to.since.0,
            from.map(NodeId::as_str),
        ],
        || format!("home of conversation {}", to.conversation_id),
    )
}

/// Both arms walk what is unfinished, and nothing else.
const STRANDED: &str = concat!(
    "SELECT conversation_id FROM (\
     SELECT DISTINCT conversation_id FROM message INDEXED BY message_queue \
         WHERE queue IN ('in_flight', 'blocking', 'outbox') \
     UNION SELECT DISTINCT conversation_id FROM reply INDEXED BY reply_lane \
         WHERE state IN ('queued', 'sending')) AS work WHERE ",
    is_nobodys!("work.conversation_id"),
    " AND (?2 = 0 OR NOT EXISTS (SELECT 1 FROM home \
         WHERE home.conversation_id = work.conversation_id AND home.node_id IS NOT NULL) OR NOT ",
    wrote_files!("work.conversation_id"),
    ") ORDER BY conversation_id LIMIT ?1"
);

pub(crate) fn stranded(
    conn: Conn<'_>,
    limit: u32,
    leave_written: bool,
) -> Result<Vec<ConversationId>, RowsError> {
    sql::many(conn, STRANDED, params![page(limit), leave_written], |row| {
        Fields::of("conversation", row).id(ConversationId::new)
    })
}

pub(crate) fn wrote_files(conn: Conn<'_>, id: &ConversationId) -> Result<bool, RowsError> {
    let query = concat!(
        "SELECT CASE WHEN ",
        wrote_files!("?1"),
        " THEN 1 ELSE 0 END"
    );
    Ok(sql::number(conn, query, [id.as_str()])?.unwrap_or(0) == 1)
}

/// Stores a segment behind those of its file.
fn add_segment(conn: Conn<'_>, key: &LedgerKey, segment: &Segment) -> Result<(), RowsError> {
    let thread = segment.thread.as_str();
    let place = SealContext::segment(thread, &segment.path, sql::signed(segment.offset));
    let body = seal::seal_bytes(key, &place, &segment.bytes)?;
    let length = segment.end().saturating_sub(segment.offset);
    sql::write(
        conn,
        "INSERT INTO segment (thread, path, start, length, generation, body, digest) \
         SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 WHERE ?3 = \
         coalesce((SELECT max(start + length) FROM segment WHERE thread = ?1 AND path = ?2), 0)",
        params![
            thread,
            segment.path,
            sql::signed(segment.offset),
            sql::signed(length),
            segment.generation,
            body,
            segment.digest.as_slice(),
        ],
        || format!("segment of thread {thread}"),
    )
}

fn drop_segments(conn: Conn<'_>, thread: &ThreadId) -> Result<(), RowsError> {
    let delete = "DELETE FROM segment WHERE thread = ?1";
    sql::run(conn, delete, [thread.as_str()])
}

pub(crate) fn thread_files(
    conn: Conn<'_>,
    thread: &ThreadId,
) -> Result<Vec<ThreadFile>, RowsError> {
    let query = "SELECT thread, path, generation, start + length, digest FROM segment AS newest \
         WHERE thread = ?1 AND start = (SELECT max(start) FROM segment \
         WHERE thread = ?1 AND path = newest.path) ORDER BY path";
    sql::many(conn, query, [thread.as_str()], |row| {
        let mut fields = Fields::of("segment of thread", row);
        let _thread: String = fields.next()?;
        Ok(ThreadFile {
            path: fields.next()?,
            generation: fields.next()?,
            length: fields.next::<i64>()?.unsigned_abs(),
            digest: digest(&mut fields)?,
        })
    })
}

pub(crate) fn segment(
    conn: Conn<'_>,
    key: &LedgerKey,
    thread: &ThreadId,
    path: &str,
    offset: u64,
) -> Result<Option<Segment>, RowsError> {
    let query = "SELECT thread, path, generation, start, body, digest FROM segment \
         WHERE thread = ?1 AND path = ?2 AND start = ?3";
    let of = (thread.as_str(), path, sql::signed(offset));
    let found = sql::one(conn, query, of, |row| {
        let mut fields = Fields::of("segment of thread", row);
        Ok(Segment {
            thread: fields.id(ThreadId::new)?,
            path: fields.next()?,
            generation: fields.next()?,
            offset: fields.next::<i64>()?.unsigned_abs(),
            bytes: fields.next()?,
            digest: digest(&mut fields)?,
        })
    })?;
    let Some(segment) = found else {
        return Ok(None);
    };
    let place = SealContext::segment(thread.as_str(), path, sql::signed(offset));
    let opened = seal::open_bytes(key, &place, segment.bytes);
    let bytes = opened.map_err(|_| RowsError::Unreadable {
        what: format!("segment of thread {thread}"),
        why: "it was encrypted with another key; every node of a fleet needs the same".to_owned(),
    })?;
    Ok(Some(Segment { bytes, ..segment }))
}

fn digest(fields: &mut Fields<'_>) -> Result<[u8; 32], RowsError> {
    let digest: Vec<u8> = fields.next()?;
    fields.required("its digest is cut", digest.try_into().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    #[test]
    fn homes_are_counted_to_a_limit() {
        let conn = Connection::open_in_memory().unwrap();
        conn.pragma_update(None, "foreign_keys", false).unwrap();
        let schema = include_str!("../../schema/0001_ledger.sql");
        conn.execute_batch(schema).unwrap();
        for (conversation, node) in [("c1", "a"), ("c2", "b"), ("c3", "a"), ("c4", "a")] {
            let insert = "INSERT INTO home VALUES (?1, ?2, 1, 0)";
            conn.execute(insert, [conversation, node]).unwrap();
        }
        let counted = |node, max| homes_counted((&conn).into(), &NodeId::new(node), max).unwrap();
        assert_eq!((counted("a", 9), counted("a", 2)), (3, 2));
        assert_eq!((counted("b", 9), counted("x", 9)), (1, 0));
    }
}
