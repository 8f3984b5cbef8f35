//! Daemons that share the ledger: the tables `node`, `home` and `segment`.
//!
//! Empty where one daemon has the ledger for itself. `clock` is the database's own time, which leases are compared with.

use super::fields::Fields;
use super::sql;
use crate::page;
use bridge_core::port::RowsError;
use bridge_core::value::{
    ConversationId, Epoch, Home, Node, NodeId, NodeInfo, NodeState, Segment, ThreadFile, ThreadId,
    Timestamp,
};
use rusqlite::{Connection, Row, params};

macro_rules! select_node {
    ($tail:literal) => {
        concat!(
            "SELECT node_id, epoch, state, CASE WHEN lease_until > ?1 THEN 1 ELSE 0 END, lease_until, started_at, \
             address, public_key, version, codex_version, capacity FROM node ",
            $tail
        )
    };
}

/// A conversation that no living node has. Its parameter is the database's time.
macro_rules! is_nobodys {
    ($conversation:literal, $clock:literal) => {
        concat!(
            "NOT EXISTS (SELECT 1 FROM home JOIN node USING (node_id) WHERE home.conversation_id = ",
            $conversation,
            " AND node.state <> 'left' AND node.lease_until > ",
            $clock,
            ")"
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
            address: fields.next()?,
            public_key: fields.next()?,
            version: fields.next()?,
            codex_version: fields.next()?,
            capacity: fields.next()?,
        },
    })
}

pub(super) fn nodes(conn: &Connection, clock: Timestamp) -> Result<Vec<Node>, RowsError> {
    let query = select_node!("ORDER BY node_id");
    sql::many(conn, query, [clock.0], read_node)
}

pub(super) fn node(
    conn: &Connection,
    clock: Timestamp,
    node_id: &NodeId,
) -> Result<Option<Node>, RowsError> {
    let query = select_node!("WHERE node_id = ?2");
    sql::one(conn, query, (clock.0, node_id.as_str()), read_node)
}

pub(super) fn set_state(
    conn: &Connection,
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

pub(super) fn home(conn: &Connection, id: &ConversationId) -> Result<Option<Home>, RowsError> {
    let query =
        "SELECT conversation_id, node_id, generation, since FROM home WHERE conversation_id = ?1";
    sql::one(conn, query, [id.as_str()], read_home)
}

pub(super) fn homes_of(
    conn: &Connection,
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

pub(super) fn homes_counted(
    conn: &Connection,
    node_id: &NodeId,
    max: u32,
) -> Result<u64, RowsError> {
    let query = "SELECT count(*) FROM (SELECT 1 FROM home WHERE node_id = ?1 LIMIT ?2) AS counted";
    sql::count(conn, query, (node_id.as_str(), max))
}

pub(super) fn set_home(
    conn: &Connection,
    from: Option<&NodeId>,
    to: &Home,
) -> Result<(), RowsError> {
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
    is_nobodys!("work.conversation_id", "?1"),
    " ORDER BY conversation_id LIMIT ?2"
);

pub(super) fn stranded(
    conn: &Connection,
    clock: Timestamp,
    limit: u32,
) -> Result<Vec<ConversationId>, RowsError> {
    sql::many(conn, STRANDED, (clock.0, page(limit)), |row| {
        Fields::of("conversation", row).id(ConversationId::new)
    })
}

pub(super) fn wrote_files(conn: &Connection, id: &ConversationId) -> Result<bool, RowsError> {
    let query = concat!(
        "SELECT CASE WHEN ",
        wrote_files!("?1"),
        " THEN 1 ELSE 0 END"
    );
    Ok(sql::number(conn, query, [id.as_str()])?.unwrap_or(0) == 1)
}

/// Stores a segment behind those of its thread, or in their place.
pub(super) fn add_segment(conn: &Connection, segment: &Segment) -> Result<(), RowsError> {
    let thread = segment.thread.as_str();
    if segment.offset == 0 {
        sql::run(conn, "DELETE FROM segment WHERE thread = ?1", [thread])?;
    }
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let length = segment.end().saturating_sub(segment.offset);
    sql::write(
        conn,
        "INSERT INTO segment (thread, start, length, generation, path, body) \
         SELECT ?1, ?2, ?3, ?4, ?5, ?6 \
         WHERE ?2 = coalesce((SELECT max(start + length) FROM segment WHERE thread = ?1), 0)",
        params![
            thread,
            number(segment.offset),
            number(length),
            segment.generation,
            segment.path,
            segment.bytes,
        ],
        || format!("segment of thread {thread}"),
    )
}

pub(super) fn thread_file(
    conn: &Connection,
    thread: &ThreadId,
) -> Result<Option<ThreadFile>, RowsError> {
    let query = "SELECT thread, path, generation, start + length FROM segment WHERE thread = ?1 \
         ORDER BY start DESC LIMIT 1";
    sql::one(conn, query, [thread.as_str()], |row| {
        let mut fields = Fields::of("segment of thread", row);
        let _thread: String = fields.next()?;
        Ok(ThreadFile {
            path: fields.next()?,
            generation: fields.next()?,
            length: fields.next::<i64>()?.unsigned_abs(),
        })
    })
}

pub(super) fn segments(
    conn: &Connection,
    thread: &ThreadId,
    from: u64,
    limit: u32,
) -> Result<Vec<Segment>, RowsError> {
    let query = "SELECT thread, path, generation, start, body FROM segment \
         WHERE thread = ?1 AND start >= ?2 ORDER BY start LIMIT ?3";
    let from = i64::try_from(from).unwrap_or(i64::MAX);
    sql::many(conn, query, (thread.as_str(), from, page(limit)), |row| {
        let mut fields = Fields::of("segment of thread", row);
        Ok(Segment {
            thread: fields.id(ThreadId::new)?,
            path: fields.next()?,
            generation: fields.next()?,
            offset: fields.next::<i64>()?.unsigned_abs(),
            bytes: fields.next()?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let counted = |node, max| homes_counted(&conn, &NodeId::new(node), max).unwrap();
        assert_eq!((counted("a", 9), counted("a", 2)), (3, 2));
        assert_eq!((counted("b", 9), counted("x", 9)), (1, 0));
    }
}
