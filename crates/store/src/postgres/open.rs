//! Opening: a server that can be trusted with writes, a database that is ours, and this node's place in the fleet.
//!
//! Nothing is written to a database that is refused.

use super::connect::SCHEMA;
use super::dialect;
use super::error::OpenError;
use super::session::Session;
use crate::key::LedgerKey;
use crate::sql::schema::MIGRATIONS;
use crate::sql::{self, Conn, audit, params};
use bridge_core::port::{LedgerError, RowsError};
use bridge_core::value::{Epoch, NodeId, Timestamp};
use std::time::Duration;

/// The one lock that every writer of the fleet takes for its transaction: "cxbd", and the first of its kind.
pub(super) const LOCK: i64 = 0x6378_6264_0000_0001;

/// The database's clock in ms.
macro_rules! clock {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    };
}
pub(super) use clock;

/// How a transaction that writes begins: nobody else's is under way until it ends.
pub(super) fn begin() -> String {
    format!("BEGIN; SELECT pg_advisory_xact_lock({LOCK})")
}

/// What was found while the ledger was opened.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) epoch: Epoch,
    /// What can be lived with, and should be changed.
    pub(super) warnings: Vec<String>,
}

/// A database that is asked what it is, and given our tables.
#[derive(Debug)]
pub(super) struct Database<'a> {
    pub(super) session: &'a Session,
    pub(super) place: String,
}

/// A node that opens the ledger.
#[derive(Debug)]
pub(super) struct Opener<'a> {
    pub(super) database: Database<'a>,
    pub(super) node: &'a NodeId,
    pub(super) lease: Duration,
    pub(super) key: &'a LedgerKey,
}

impl Database<'_> {
    fn conn(&self) -> Conn<'_> {
        Conn::Postgres(self.session)
    }

    pub(super) fn run(&self, statements: &str) -> Result<(), OpenError> {
        let ran = self.session.control(statements);
        ran.and_then(|()| self.session.settle())
            .map_err(OpenError::rows(&self.place))
    }

    pub(super) fn number(&self, query: &str) -> Result<i64, OpenError> {
        let found = sql::number(self.conn(), query, []);
        Ok(found.map_err(OpenError::rows(&self.place))?.unwrap_or(0))
    }

    fn word(&self, query: &str) -> Result<String, OpenError> {
        let found = sql::one(self.conn(), query, [], |row| {
            row.get::<Option<String>>(0).map_err(sql::failed)
        });
        let found = found.map_err(OpenError::rows(&self.place))?;
        Ok(found.flatten().unwrap_or_default())
    }

    pub(super) fn expect_writable(&self) -> Result<(), OpenError> {
        let read_only = "SELECT count(*) WHERE pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'";
        if self.number(read_only)? > 0 {
            let place = self.place.clone();
            return Err(OpenError::ReadOnly { place });
        }
        let encoding = self.word("SELECT current_setting('server_encoding')")?;
        if encoding != "UTF8" {
            let place = self.place.clone();
            return Err(OpenError::Encoding { place, encoding });
        }
        Ok(())
    }

    fn warnings(&self) -> Result<Vec<String>, OpenError> {
        let mut warnings = Vec::new();
        for (setting, risk) in [
            (
                "synchronous_commit",
                "what was accepted can be lost when the server dies",
            ),
            (
                "fsync",
                "the whole database can be lost when the server's machine dies",
            ),
            (
                "full_page_writes",
                "the database can be damaged when the server's machine dies",
            ),
        ] {
            let value = self.word(&format!("SELECT current_setting('{setting}')"))?;
            if value == "off" {
                warnings.push(format!(
                    "the database's server runs with {setting} = off: {risk}; set it to on"
                ));
            }
        }
        Ok(warnings)
    }

    /// Makes the tables where the database is empty, and brings older ones up to date.
    pub(super) fn bring_up(&self) -> Result<(), OpenError> {
        let place = || self.place.clone();
        let found = self.version()?;
        let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
        if found > known {
            let place = place();
            return Err(OpenError::Newer {
                place,
                found,
                known,
            });
        }
        if found == 0 {
            self.run(&format!(
                "CREATE SCHEMA {SCHEMA}; CREATE TABLE format (id BIGINT PRIMARY KEY CHECK (id = 1), version BIGINT NOT NULL); \
                 INSERT INTO format (id, version) VALUES (1, 0)"
            ))?;
        }
        let steps = MIGRATIONS.iter().zip(1_i64..);
        for (migration, version) in steps.filter(|(_, version)| *version > found) {
            let made = format!("; UPDATE format SET version = {version}");
            self.run(&(dialect::schema(migration) + &made))?;
            tracing::info!(version, "the database has this schema now");
        }
        Ok(())
    }

    /// The version of the schema that is there; 0 where the database is empty.
    pub(super) fn version(&self) -> Result<i64, OpenError> {
        let ours = self.number(&format!(
            "SELECT count(*) FROM pg_namespace WHERE nspname = '{SCHEMA}'"
        ))?;
        let named = self.number(&format!(
            "SELECT count(*) WHERE to_regclass('{SCHEMA}.format') IS NOT NULL"
        ))?;
        let others = "SELECT count(*) FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace \
             WHERE relkind IN ('r', 'p', 'v', 'm', 'f') AND nspname <> 'information_schema' AND nspname NOT LIKE 'pg!_%' ESCAPE '!' \
             AND NOT EXISTS (SELECT 1 FROM pg_depend WHERE objid = pg_class.oid AND deptype = 'e')";
        match (ours > 0, named > 0) {
            (true, true) => self.number("SELECT version FROM format"),
            (false, _) if self.number(others)? == 0 => Ok(0),
            (true | false, _) => {
                let place = self.place.clone();
                Err(OpenError::Foreign { place })
            }
        }
    }
}

impl Opener<'_> {
    /// All of it in one transaction.
    pub(super) fn open(&self) -> Result<Found, OpenError> {
        self.database.expect_writable()?;
        let warnings = self.database.warnings()?;
        self.database.run(&begin())?;
        let epoch = self.take_over();
        let epoch = match epoch {
            Ok(epoch) => epoch,
            Err(error) => {
                self.database.session.roll_back();
                return Err(error);
            }
        };
        self.database.run("COMMIT")?;
        Ok(Found { epoch, warnings })
    }

    fn take_over(&self) -> Result<Epoch, OpenError> {
        let Database { session, place } = &self.database;
        self.database.bring_up()?;
        self.adopt()?;
        let epoch = self.next_epoch().map_err(OpenError::rows(place))?;
        session.settle().map_err(OpenError::rows(place))?;
        Ok(epoch)
    }

    /// Signs the record of acts with this key.
    fn adopt(&self) -> Result<(), OpenError> {
        let now = Timestamp(jiff::Timestamp::now().as_millisecond());
        let failed = OpenError::rows(&self.database.place);
        let adopted = audit::adopt(self.database.conn(), self.key, now).map_err(&failed)?;
        let (row, sum) = audit::head(self.database.conn()).map_err(&failed)?;
        if row > 0 {
            tracing::info!(row, sum, key = %self.key.public(), "the audit record ends here");
        }
        if adopted && row > 0 {
            tracing::warn!(
                row,
                "the audit goes on under another key than before, and its newest entries say why; all nodes of a fleet need the same key"
            );
        }
        Ok(())
    }

    /// The node's row, for this opening: an earlier one of the same node writes nothing any more.
    fn next_epoch(&self) -> Result<Epoch, RowsError> {
        let next = "SELECT epoch + 1 FROM instance";
        let epoch = sql::number(self.database.conn(), next, [])?.unwrap_or(0);
        sql::write(
            self.database.conn(),
            "UPDATE instance SET epoch = ?1",
            [epoch],
            || "epoch".to_owned(),
        )?;
        let lease = i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX);
        sql::write(
            self.database.conn(),
            concat!(
                "INSERT INTO node (node_id, epoch, batch, lease_until, state, started_at) VALUES (?1, ?2, 0, ",
                clock!(),
                " + ?3, 'active', ",
                clock!(),
                ") ON CONFLICT (node_id) DO UPDATE SET epoch = excluded.epoch, batch = 0, \
                 lease_until = excluded.lease_until, state = 'active', started_at = excluded.started_at"
            ),
            params![self.node.as_str(), epoch, lease],
            || format!("node {}", self.node),
        )?;
        Ok(Epoch(epoch))
    }
}

/// Why the connection could not be made.
pub(super) fn refused(place: String, source: tokio_postgres::Error) -> OpenError {
    let server = source.as_db_error();
    let by_right = server.filter(|error| {
        let code = error.code().code();
        // Authorization, an unknown database, a missing right.
        code.starts_with("28") || code == "3D000" || code == "42501"
    });
    match by_right {
        Some(error) => OpenError::Refused {
            place,
            why: error.message().to_owned(),
        },
        None => OpenError::Unreachable { place, source },
    }
}

/// Why this opening may not write: what the node's row says.
pub(super) fn fenced(session: &Session, node: &NodeId, ours: Epoch) -> LedgerError {
    let found = sql::number(
        Conn::Postgres(session),
        "SELECT epoch FROM node WHERE node_id = ?1",
        [node.as_str()],
    );
    match found {
        Ok(found) => LedgerError::Fenced {
            found: found.unwrap_or(0),
            ours: ours.0,
        },
        Err(error) => error.into(),
    }
}
