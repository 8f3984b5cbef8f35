//! A database that a ledger is copied from or to, over a connection that belongs to no node.

use super::bulk::BulkTable;
use super::connect::PostgresUrl;
use super::error::OpenError;
use super::open::{self, Database, LOCK};
use super::schema;
use super::session::{self, Session};
use crate::copy::{CopyError, CopyTable};
use crate::sql::{self, Conn};
use bridge_core::port::RowsError;
use bridge_core::value::NodeId;
use rusqlite::types::Value;
use std::thread;
use std::time::{Duration, Instant};

/// What stands where the name of a node does. No row has it.
const NOBODY: &str = "ledger-copy";

/// How long one read of a person's command may take.
const LOOK_MAX: Duration = Duration::from_secs(60);

/// How long one statement of a copy may take, and how long one side may wait for the other: a table is read by one statement,
/// and the source waits while the whole copy is read again.
const COPY_MAX: Duration = Duration::from_secs(6 * 3600);

/// How long to wait for the batch of a node that writes now, and the pause between two tries.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Nodes whose lease lasts. The Codex of one that left without ending it lives until the lease ends.
const LIVE: &str = "SELECT node_id FROM node WHERE lease_until > unixepoch() * 1000 AND (state <> 'left' \
     OR EXISTS (SELECT 1 FROM incarnation WHERE incarnation.node_id = node.node_id AND ended_at IS NULL)) \
     ORDER BY node_id";

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatabaseUse {
    /// A short look at one snapshot, beside the daemons.
    Look,
    /// A ledger is copied from it or to it.
    Copy,
}

/// A database and a connection to it.
pub(crate) struct CopiedDatabase {
    session: Session,
    place: String,
}

impl CopiedDatabase {
    pub(crate) fn connect(url: &PostgresUrl, purpose: DatabaseUse) -> Result<Self, OpenError> {
        let runtime = session::runtime().map_err(|source| OpenError::Threads { source })?;
        let place = url.place();
        let (statement_max, begin) = match purpose {
            DatabaseUse::Look => (
                LOOK_MAX,
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY".to_owned(),
            ),
            DatabaseUse::Copy => (
                COPY_MAX,
                format!(
                    "SET idle_in_transaction_session_timeout = {}",
                    COPY_MAX.as_millis()
                ),
            ),
        };
        let session = Session::connect(runtime, url, &NodeId::new(NOBODY), statement_max)
            .map_err(|error| open::refused(place.clone(), error))?;
        let database = Self { session, place };
        database.database().run(&begin)?;
        Ok(database)
    }

    pub(crate) fn conn(&self) -> Conn<'_> {
        Conn::Postgres(&self.session)
    }

    pub(super) fn database(&self) -> Database<'_> {
        Database {
            session: &self.session,
            place: self.place.clone(),
        }
    }

    /// The version of the schema; 0 where the database is empty.
    pub(crate) fn version(&self) -> Result<i64, OpenError> {
        self.database().version()
    }

    /// The same for a copy, which must know everything that is there.
    fn version_to_copy(&self) -> Result<i64, OpenError> {
        let found = self.version()?;
        if found > schema::known() {
            return Err(self.database().newer(found));
        }
        Ok(found)
    }

    /// Keeps every daemon from writing while this connection lasts, and sees that none is at work.
    fn take(&self) -> Result<(), CopyError> {
        let begun = Instant::now();
        let lock = format!("SELECT CASE WHEN pg_try_advisory_lock({LOCK}) THEN 1 ELSE 0 END");
        let taken = || sql::number(self.conn(), &lock, []);
        while taken().map_err(CopyError::rows(self.doing("lock")))? != Some(1) {
            if begun.elapsed() > LOCK_PATIENCE {
                let place = self.place.clone();
                return Err(CopyError::Locked { place });
            }
            thread::sleep(LOCK_PAUSE);
        }
        if self.version_to_copy()? == 0 {
            return Ok(());
        }
        let nodes = sql::many(self.conn(), LIVE, [], |row| row.get(0).map_err(sql::failed));
        let nodes: Vec<String> = nodes.map_err(CopyError::rows(self.doing("read the nodes of")))?;
        if nodes.is_empty() {
            return Ok(());
        }
        let place = self.place.clone();
        Err(CopyError::LiveNodes { place, nodes })
    }

    fn doing(&self, verb: &str) -> String {
        format!("{verb} the database {}", self.place)
    }

    /// Reads one snapshot from now on.
    pub(crate) fn begin_reading(&self) -> Result<(), CopyError> {
        self.take()?;
        let known = schema::known();
        match self.version_to_copy()? {
            0 => {
                let place = self.place.clone();
                return Err(CopyError::Missing { place });
            }
            found if found < known => {
                let place = self.place.clone();
                return Err(CopyError::Older {
                    place,
                    found,
                    known,
                });
            }
            _ => {}
        }
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        Ok(self.database().run(begin)?)
    }

    /// Begins the one transaction of a copy, and makes our tables in it where they are not there. Refused where they hold
    /// something.
    pub(crate) fn begin_writing(&self, tables: &[CopyTable]) -> Result<(), CopyError> {
        let database = self.database();
        database.expect_writable()?;
        self.take()?;
        database.run("BEGIN")?;
        // No node runs, which `take` has seen.
        database.bring_up(COPY_MAX)?;
        for table in tables {
            // The schema itself makes this one row, which no daemon has opened yet.
            let count = match table.name.as_str() {
                "instance" => {
                    "SELECT count(*) FROM instance WHERE epoch > 0 OR audit_key IS NOT NULL"
                }
                name => &format!("SELECT count(*) FROM (SELECT 1 FROM {name} LIMIT 1) AS found"),
            };
            let found = sql::count(self.conn(), count, []);
            if found.map_err(CopyError::rows(self.doing("look into")))? > 0 {
                return Err(CopyError::NotEmpty {
                    place: format!("the database {}", self.place),
                    found: format!(
                        "is not empty: a daemon has used it, or it is a copy (table {})",
                        table.name
                    ),
                    then: "make an empty one for the copy (`CREATE DATABASE`) and name that",
                });
            }
        }
        let emptied = self.session.control("DELETE FROM instance");
        emptied.map_err(CopyError::rows(self.doing("write to")))
    }

    pub(crate) fn bulk_table(&self, table: &CopyTable) -> Result<BulkTable, RowsError> {
        self.session.bulk_table(&table.name, &table.list())
    }

    pub(crate) fn write_rows(
        &self,
        table: &BulkTable,
        rows: Vec<Vec<Value>>,
    ) -> Result<(), RowsError> {
        self.session.write_rows(table, rows)
    }

    /// Rows that come later are numbered behind those that are there.
    pub(crate) fn continue_counters(&self, tables: &[CopyTable]) -> Result<(), RowsError> {
        for table in tables {
            let Some(column) = &table.counter else {
                continue;
            };
            let name = &table.name;
            self.session.control(&format!(
                "SELECT setval(pg_get_serial_sequence('{name}', '{column}'), max({column})) FROM {name} \
                 HAVING max({column}) IS NOT NULL"
            ))?;
        }
        self.session.settle()
    }

    /// Makes the copy durable, and lets the server's planner know how large the tables are.
    pub(crate) fn commit(&self, tables: &[CopyTable]) -> Result<(), CopyError> {
        let committed = self.session.control("COMMIT");
        let committed = committed.and_then(|()| self.session.settle());
        committed.map_err(|source| CopyError::Commit {
            place: self.place.clone(),
            source,
        })?;
        let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
        let analyzed = self
            .session
            .control(&format!("ANALYZE {}", names.join(", ")));
        if let Err(error) = analyzed.and_then(|()| self.session.settle()) {
            tracing::debug!(%error, "the server did not count the copied rows; it does so by itself");
        }
        Ok(())
    }

    /// Undoes everything.
    pub(crate) fn roll_back(&self) {
        self.session.roll_back();
    }
}
