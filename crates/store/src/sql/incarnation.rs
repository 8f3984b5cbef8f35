//! The `incarnation` table: Codex processes, so that the next daemon finds them.
//!
//! Column mapping only; whether a process still lives is found out by its host.

use super::fields::Fields;
use crate::sql::{self, Conn, Row, params};
use bridge_core::port::RowsError;
use bridge_core::value::{BootId, Incarnation, IncarnationId, NodeId, ProcessStamp, Timestamp};

fn read(row: &Row<'_>) -> Result<Incarnation, RowsError> {
    let mut fields = Fields::of("incarnation", row);
    Ok(Incarnation {
        incarnation_id: fields.id(IncarnationId::new)?,
        transport: fields.word()?,
        keeper: ProcessStamp {
            pid: fields.next()?,
            start_ticks: fields.next::<i64>()?.cast_unsigned(),
        },
        directory: fields.next()?,
        codex_version: fields.next()?,
        codex_home: fields.next()?,
        boot_id: fields.id(BootId::new)?,
        started_at: fields.time()?,
        ended_at: fields.maybe_time()?,
        node_id: fields.maybe_id(NodeId::new)?,
    })
}

pub(crate) fn live(
    conn: Conn<'_>,
    node_id: Option<&NodeId>,
) -> Result<Vec<Incarnation>, RowsError> {
    let query = "SELECT incarnation_id, transport, pid, start_ticks, directory, codex_version, \
         codex_home, boot_id, started_at, ended_at, node_id FROM incarnation \
         WHERE ended_at IS NULL AND node_id IS NOT DISTINCT FROM ?1 \
         ORDER BY started_at, incarnation_id";
    sql::many(conn, query, [node_id.map(NodeId::as_str)], read)
}

pub(crate) fn insert(conn: Conn<'_>, incarnation: &Incarnation) -> Result<(), RowsError> {
    sql::write(
        conn,
        "INSERT INTO incarnation (incarnation_id, transport, pid, start_ticks, directory, \
         codex_version, codex_home, boot_id, started_at, ended_at, node_id) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        params![
            incarnation.incarnation_id.as_str(),
            incarnation.transport.as_str(),
            incarnation.keeper.pid,
            incarnation.keeper.start_ticks.cast_signed(),
            incarnation.directory,
            incarnation.codex_version,
            incarnation.codex_home,
            incarnation.boot_id.as_str(),
            incarnation.started_at.0,
            incarnation.ended_at.map(|at| at.0),
            incarnation.node_id.as_ref().map(NodeId::as_str),
        ],
        || format!("new incarnation {}", incarnation.incarnation_id),
    )
}

pub(crate) fn end(conn: Conn<'_>, id: &IncarnationId, at: Timestamp) -> Result<(), RowsError> {
    sql::write(
        conn,
        "UPDATE incarnation SET ended_at = ?2 WHERE incarnation_id = ?1 AND ended_at IS NULL",
        params![id.as_str(), at.0],
        || format!("end of incarnation {id}"),
    )
}

pub(crate) fn forget(conn: Conn<'_>, before: Timestamp) -> Result<(), RowsError> {
    let delete = "DELETE FROM incarnation WHERE ended_at IS NOT NULL AND ended_at < ?1";
    sql::run(conn, delete, [before.0])
}
