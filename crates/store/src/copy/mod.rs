//! A ledger copied as a whole from one engine to the other: all of it or nothing, and compared before it counts.
//!
//! Rows are read from one snapshot of the source and written in one transaction of the destination. Before that is
//! committed, every table is read again and its digest compared with that of what was read. Values go along as they are:
//! what is encrypted stays so, and the audit record keeps its signature.

mod digest;
mod error;
mod place;
mod tables;

pub use error::CopyError;
pub use place::LedgerPlace;
pub(crate) use tables::CopyTable;

use crate::key::AuditPublicKey;
use crate::sql::audit::{self, AuditRecord};
use crate::sql::{self, Conn, incarnation, params};
use bridge_core::port::RowsError;
use bridge_core::value::{AuditFound, Incarnation, NodeId, Timestamp};
use digest::{TableDigest, TableSum};
use place::{Destination, Source};
use rusqlite::types::Value;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;
use std::thread;
use tables::tables;

/// Rows that are written at once, and their bytes, whichever is reached first.
const BATCH_ROWS: usize = 2_000;
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// A copy that somebody wants.
pub struct LedgerCopy<'a> {
    pub from: &'a LedgerPlace,
    pub to: &'a LedgerPlace,
    /// Whom the audit record should be signed by; without it the one is believed that the source names.
    pub key: Option<&'a AuditPublicKey>,
    /// Whether a process that the source knows still runs on this machine.
    pub is_running: &'a (dyn Fn(&Incarnation) -> bool + Sync),
    /// The node that the daemon with the file becomes, where a file goes to a server: it has the threads.
    pub becomes: Option<&'a NodeId>,
    /// Hears of each table that was copied.
    pub progress: &'a (dyn Fn(&CopiedTable) + Sync),
    pub now: Timestamp,
}

impl fmt::Debug for LedgerCopy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LedgerCopy")
            .field("from", &self.from)
            .field("to", &self.to)
            .finish_non_exhaustive()
    }
}

/// A table that was copied and compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CopiedTable {
    pub table: String,
    pub rows: u64,
    /// SHA-256 over every value in the order of the key, in hexadecimal digits; the same on either engine.
    pub digest: String,
}

/// Conversations that a node had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NodeShare {
    pub node: String,
    pub conversations: u64,
}

/// What was copied, and what of it hangs on things outside of the ledger.
#[derive(Clone, Debug)]
pub struct CopyReport {
    pub tables: Vec<CopiedTable>,
    /// Whose key signed the audit record.
    pub signer: Option<AuditPublicKey>,
    /// What the chain of the copy's audit record amounts to, as that of the source.
    pub audit: Result<AuditFound, String>,
    /// Messages that are not finished.
    pub unfinished: u64,
    /// Messages and replies that name files.
    pub with_files: u64,
    /// Files that are stored in the ledger.
    pub stored_files: u64,
    /// Threads that conversations go on with.
    pub threads: u64,
    /// Threads whose files are stored in the ledger.
    pub stored_threads: u64,
    /// CODEX_HOMEs that tasks named; the usual one is not among them.
    pub codex_homes: Vec<String>,
    /// Which nodes had conversations. Their homes are not copied.
    pub nodes: Vec<NodeShare>,
    /// Conversations whose home is the node that the daemon with the file becomes.
    pub at_home: u64,
}

impl LedgerCopy<'_> {
    /// Copies. It blocks on disk and server, on a thread of its own: the caller may be in a runtime.
    pub fn run(&self) -> Result<CopyReport, CopyError> {
        thread::scope(|scope| scope.spawn(|| self.copy()).join())
            .unwrap_or_else(|_| Err(CopyError::Panicked))
    }

    fn copy(&self) -> Result<CopyReport, CopyError> {
        if let (LedgerPlace::Sqlite(_), LedgerPlace::Sqlite(_)) = (self.from, self.to) {
            return Err(CopyError::TwoFiles);
        }
        let tables = tables().map_err(CopyError::rows("read the schema"))?;
        let source = Source::open(self.from)?;
        let left = incarnation::live(source.conn(), None);
        let left = left.map_err(CopyError::rows("read the source"))?;
        if let Some(running) = left.iter().find(|one| (self.is_running)(one)) {
            let pid = running.keeper.pid;
            return Err(CopyError::CodexRuns { pid });
        }
        let destination = Destination::begin(self.to, &tables)?;
        match self.write(&source, &destination, &tables) {
            Ok(report) => destination.commit(&tables).map(|()| report),
            Err(error) => {
                destination.roll_back();
                Err(error)
            }
        }
    }

    /// Everything but the commit.
    fn write(
        &self,
        source: &Source,
        destination: &Destination,
        tables: &[CopyTable],
    ) -> Result<CopyReport, CopyError> {
        let copied: Vec<&CopyTable> = tables.iter().filter(|table| table.is_copied()).collect();
        let mut sums = Vec::new();
        for table in &copied {
            sums.push(self.copy_table(source, destination, table)?);
        }
        let continued = destination.continue_counters(tables);
        continued.map_err(CopyError::rows("number the copied rows"))?;
        let mut report = Vec::new();
        for (table, read) in copied.into_iter().zip(sums) {
            let written = sum_of(destination, table)?;
            if read != written {
                return Err(CopyError::Differs {
                    table: table.name.clone(),
                    read: read.rows,
                    written: written.rows,
                });
            }
            let copied = CopiedTable {
                table: table.name.clone(),
                rows: written.rows,
                digest: written.digest,
            };
            (self.progress)(&copied);
            report.push(copied);
        }
        let record = self.record(source, destination)?;
        let about = About::of(source.conn()).map_err(CopyError::rows("read the source"))?;
        let named = audit::named_signer(source.conn());
        let at_home = self.settle_threads(destination);
        let at_home = at_home.map_err(CopyError::rows("give conversations a home"))?;
        Ok(CopyReport {
            tables: report,
            signer: named.map_err(CopyError::rows("read the audit record"))?,
            audit: record.chain,
            unfinished: about.unfinished,
            with_files: about.with_files,
            stored_files: about.stored_files,
            threads: about.threads,
            stored_threads: about.stored_threads,
            codex_homes: about.codex_homes,
            nodes: about.nodes,
            at_home,
        })
    }

    /// The node of the daemon with the file.
    fn becomes(&self) -> Option<&NodeId> {
        match (self.from, self.to) {
            (LedgerPlace::Sqlite(_), LedgerPlace::Postgres(_)) => self.becomes,
            _ => None,
        }
    }

    /// Conversations with a thread are at home on the machine that has its file: no other node takes them while that one
    /// lives. It has left until its daemon opens the copy.
    fn settle_threads(&self, destination: &Destination) -> Result<u64, RowsError> {
        let Some(node) = self.becomes() else {
            return Ok(0);
        };
        let conn = destination.conn();
        sql::run(
            conn,
            "INSERT INTO node (node_id, epoch, batch, state, lease_until, started_at) \
             SELECT ?1, epoch, 0, 'left', 0, ?2 FROM instance",
            params![node.as_str(), self.now.0],
        )?;
        sql::run(
            conn,
            "INSERT INTO home (conversation_id, node_id, generation, since) \
             SELECT conversation_id, ?1, 1, ?2 FROM conversation WHERE thread IS NOT NULL",
            params![node.as_str(), self.now.0],
        )?;
        sql::count(conn, "SELECT count(*) FROM home", [])
    }

    fn copy_table(
        &self,
        source: &Source,
        destination: &Destination,
        table: &CopyTable,
    ) -> Result<TableSum, CopyError> {
        let doing = || format!("copy table {}", table.name);
        let writer = destination.table(table).map_err(CopyError::rows(doing()))?;
        let mut digest = TableDigest::of(table);
        let (mut batch, mut bytes) = (Vec::new(), 0_usize);
        let copied = source.each(table, |mut row| {
            self.adjust(table, &mut row);
            digest.row(&row);
            bytes = row.iter().map(size).fold(bytes, usize::saturating_add);
            batch.push(row);
            if batch.len() >= BATCH_ROWS || bytes >= BATCH_BYTES {
                bytes = 0;
                return writer.write(std::mem::take(&mut batch));
            }
            Ok(())
        });
        copied.map_err(CopyError::rows(doing()))?;
        if !batch.is_empty() {
            writer.write(batch).map_err(CopyError::rows(doing()))?;
        }
        Ok(digest.finish())
    }

    /// A Codex process that nobody recorded the end of is gone: that was asked, and its node's lease has ended. Who opens the
    /// copy finds that out by itself, if it looks: a node looks for its own processes, a daemon with a file for those without
    /// a node. What nobody would look for is copied as ended.
    fn adjust(&self, table: &CopyTable, row: &mut [Value]) {
        if table.name != "incarnation" {
            return;
        }
        let (Some(ended), Some(node)) = (table.column("ended_at"), table.column("node_id")) else {
            return;
        };
        if row.get(ended) != Some(&Value::Null) {
            return;
        }
        let (at, value) = match (self.to, self.becomes()) {
            (_, Some(becomes)) => (node, Value::Text(becomes.to_string())),
            (LedgerPlace::Postgres(_), None) => (ended, Value::Integer(self.now.0)),
            (LedgerPlace::Sqlite(_), _) => (node, Value::Null),
        };
        if let Some(found) = row.get_mut(at) {
            *found = value;
        }
    }

    /// Goes along the audit record of both.
    fn record(&self, source: &Source, destination: &Destination) -> Result<AuditRecord, CopyError> {
        let record = |conn| audit::record(conn, 0, self.key);
        let doing = "read the audit record";
        let ours = record(source.conn()).map_err(CopyError::rows(doing))?;
        let copy = record(destination.conn()).map_err(CopyError::rows(doing))?;
        if ours == copy {
            Ok(copy)
        } else {
            Err(CopyError::Audit)
        }
    }
}

/// Roughly what a value takes in memory.
fn size(value: &Value) -> usize {
    let bytes = match value {
        Value::Null | Value::Integer(_) | Value::Real(_) => 0,
        Value::Text(text) => text.len(),
        Value::Blob(bytes) => bytes.len(),
    };
    bytes.saturating_add(size_of::<Value>())
}

/// Reads what was written.
fn sum_of(destination: &Destination, table: &CopyTable) -> Result<TableSum, CopyError> {
    let mut digest = TableDigest::of(table);
    let read = destination.each(table, |row| {
        digest.row(&row);
        Ok(())
    });
    read.map_err(CopyError::rows(format!(
        "read the copy of table {}",
        table.name
    )))?;
    Ok(digest.finish())
}

/// What of a ledger hangs on things outside of it.
struct About {
    unfinished: u64,
    with_files: u64,
    stored_files: u64,
    threads: u64,
    stored_threads: u64,
    codex_homes: Vec<String>,
    nodes: Vec<NodeShare>,
}

impl About {
    fn of(conn: Conn<'_>) -> Result<Self, RowsError> {
        let count = |query| sql::count(conn, query, []);
        let homes =
            "SELECT DISTINCT codex_home FROM task WHERE codex_home IS NOT NULL ORDER BY codex_home";
        let nodes = "SELECT node_id, count(*) FROM home WHERE node_id IS NOT NULL GROUP BY node_id ORDER BY node_id";
        Ok(Self {
            unfinished: count("SELECT count(*) FROM message WHERE queue IS NOT NULL")?,
            with_files: count("SELECT count(*) FROM message_text WHERE files IS NOT NULL")?
                .saturating_add(count(
                    "SELECT count(*) FROM reply_text WHERE files IS NOT NULL",
                )?),
            stored_files: count("SELECT count(*) FROM file")?,
            threads: count("SELECT count(DISTINCT thread) FROM conversation")?,
            stored_threads: count("SELECT count(DISTINCT thread) FROM segment")?,
            codex_homes: sql::many(conn, homes, [], |row| row.get(0).map_err(sql::failed))?,
            nodes: sql::many(conn, nodes, [], |row| {
                let conversations: i64 = row.get(1).map_err(sql::failed)?;
                Ok(NodeShare {
                    node: row.get(0).map_err(sql::failed)?,
                    conversations: conversations.unsigned_abs(),
                })
            })?,
        })
    }
}
