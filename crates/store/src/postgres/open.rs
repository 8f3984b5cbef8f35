//! Opening: a server that can be trusted with writes, a database that is ours, and this node's place in the fleet.
//!
//! Nothing is written to a database that is refused.

use super::error::OpenError;
use super::fault::Trouble;
use super::schema;
use super::session::Session;
use super::tls;
use super::writer::standstill_max;
use crate::key::LedgerKey;
use crate::sql::{self, Conn, audit, params};
use bridge_core::port::{LedgerError, RowsError};
use bridge_core::value::{Epoch, NodeId, Timestamp};
use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

/// How long an opening that finds tables in use is tried again, and the pause between two tries: the nodes that use them
/// renew their leases in it.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(200);

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
    pub(super) fn conn(&self) -> Conn<'_> {
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
        let read_only = "SELECT count(*) WHERE pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on'";
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

    pub(super) fn warnings(&self) -> Result<Vec<String>, OpenError> {
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
}

impl Opener<'_> {
    pub(super) fn open(&self) -> Result<Found, OpenError> {
        self.database.expect_writable()?;
        let warnings = self.database.warnings()?;
        let began = Instant::now();
        loop {
            let error = match self.open_once() {
                Ok(epoch) => return Ok(Found { epoch, warnings }),
                Err(error) => error,
            };
            let session = self.database.session;
            let trouble = session.take_failure().and_then(|failure| failure.trouble);
            session.allow(None);
            session.roll_back();
            if trouble != Some(Trouble::Again) || began.elapsed() > PATIENCE {
                return Err(error);
            }
            let why = error.source().map(ToString::to_string);
            tracing::info!(why, "the database is in use, and is tried again");
            thread::sleep(PAUSE);
        }
    }

    /// All of it in one transaction.
    fn open_once(&self) -> Result<Epoch, OpenError> {
        self.database.run(&begin())?;
        self.database.bring_up(standstill_max(self.lease))?;
        self.adopt()?;
        let epoch = self.next_epoch();
        let epoch = epoch.map_err(OpenError::rows(&self.database.place))?;
        self.database.run("COMMIT")?;
        Ok(epoch)
    }

    /// Signs the record of acts with this key.
    fn adopt(&self) -> Result<(), OpenError> {
        let now = Timestamp(self.database.number(concat!("SELECT ", clock!()))?);
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
                "INSERT INTO node (node_id, epoch, batch, lease_until, state, started_at, schema) VALUES (?1, ?2, 0, ",
                clock!(),
                " + ?3, 'active', ",
                clock!(),
                ", ?4) ON CONFLICT (node_id) DO UPDATE SET epoch = excluded.epoch, batch = 0, \
                 lease_until = excluded.lease_until, state = 'active', started_at = excluded.started_at, \
                 schema = excluded.schema"
            ),
            params![self.node.as_str(), epoch, lease, schema::known()],
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
        None => match tls::distrust(&source) {
            Some(why) => OpenError::Untrusted { place, why, source },
            None => OpenError::Unreachable { place, source },
        },
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
