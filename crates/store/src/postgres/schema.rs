//! The version of a database's schema: whose programs may work on it, and how a newer program changes it beside nodes that
//! run on.

use super::connect::SCHEMA;
use super::dialect;
use super::error::OpenError;
use super::open::Database;
use crate::sql;
use crate::sql::schema::{compatible_since, migrations};
use bridge_core::deadline::after;
use bridge_core::port::RowsError;
use std::time::{Duration, Instant};

/// How long a change waits for a table that is read. Shorter than the second after which PostgreSQL looks for deadlocks: the
/// reader must not be the one that is given up.
const TABLE_WAIT_MAX: Duration = Duration::from_millis(500);

/// How long a statement of a change may take where no other node runs.
const ALONE_MAX: Duration = Duration::from_secs(3600);

/// Other nodes whose lease lasts.
const OTHERS: &str = "SELECT node_id, schema FROM node WHERE node_id <> ?1 AND state <> 'left' \
     AND lease_until > unixepoch() * 1000 ORDER BY node_id";

/// What a database says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SchemaVersion {
    /// 0 where the database is empty.
    pub(super) version: i64,
    /// The oldest version whose programs may work on it.
    pub(super) compatible_since: i64,
}

/// The newest version that this program knows.
pub(super) fn known() -> i64 {
    i64::try_from(migrations().len()).unwrap_or(i64::MAX)
}

/// The migrations that a database needs, each with the version that it leads to, and since which version programs can use
/// it then.
fn missing(found: SchemaVersion) -> (Vec<(&'static str, i64)>, i64) {
    let steps = migrations().into_iter().zip(1_i64..);
    let missing: Vec<_> = steps
        .filter(|(_, version)| *version > found.version)
        .collect();
    let since = missing
        .iter()
        .map(|(migration, version)| compatible_since(migration, *version))
        .fold(found.compatible_since, i64::max);
    (missing, since)
}

fn older(nodes: Vec<(String, i64)>, since: i64) -> Vec<String> {
    let older = nodes.into_iter().filter(|(_, schema)| *schema < since);
    older.map(|(node_id, _)| node_id).collect()
}

impl Database<'_> {
    /// The version of the schema that is there. An error where this program may not work on it.
    pub(super) fn version(&self) -> Result<i64, OpenError> {
        Ok(self.usable()?.version)
    }

    fn usable(&self) -> Result<SchemaVersion, OpenError> {
        let found = self.schema()?;
        if found.compatible_since > known() {
            return Err(self.newer(found.version));
        }
        Ok(found)
    }

    /// Why this program can't use a schema of that version.
    pub(super) fn newer(&self, found: i64) -> OpenError {
        OpenError::Newer {
            place: self.place.clone(),
            found,
            known: known(),
        }
    }

    /// Makes the tables where the database is empty, and brings older ones up to date. Beside nodes that run it may take
    /// `beside_max`: until it is over they can neither write nor renew their leases.
    pub(super) fn bring_up(&self, beside_max: Duration) -> Result<(), OpenError> {
        let found = self.usable()?;
        if found.version > known() {
            tracing::warn!(
                schema = found.version,
                known = known(),
                "a newer codex-bridge has changed the database's schema; this one may still use it: upgrade it soon"
            );
        }
        if found.version == 0 {
            self.run(&format!(
                "CREATE SCHEMA {SCHEMA}; CREATE TABLE format (id BIGINT PRIMARY KEY CHECK (id = 1), version BIGINT NOT NULL, \
                 compatible_since BIGINT NOT NULL); INSERT INTO format (id, version, compatible_since) VALUES (1, 0, 0)"
            ))?;
        }
        let (missing, since) = missing(found);
        if missing.is_empty() {
            return Ok(());
        }
        let limit = match found.version {
            0 => None,
            _ => Some(self.beside_others(since, beside_max)?),
        };
        for (migration, version) in missing {
            let made = self.migrate(&dialect::schema(migration), limit);
            made.map_err(|source| OpenError::Migrate {
                place: self.place.clone(),
                version,
                source: source.into(),
            })?;
            self.run(&format!(
                "UPDATE format SET version = {version}, compatible_since = {since}"
            ))?;
            tracing::info!(
                version,
                compatible_since = since,
                "the database has this schema now"
            );
        }
        self.session.allow(None);
        Ok(())
    }

    /// Runs the statements of a migration; until `limit`, where it changes tables that are there.
    fn migrate(&self, migration: &str, limit: Option<Instant>) -> Result<(), RowsError> {
        let session = self.session;
        let Some(limit) = limit else {
            session.control(migration)?;
            return session.settle();
        };
        for statement in migration.split_inclusive(";\n") {
            // 0 would be no limit.
            let left = limit.saturating_duration_since(Instant::now());
            let left = left.max(Duration::from_millis(1));
            session.allow(Some(left));
            session.control(&format!(
                "SET LOCAL lock_timeout = {}; SET LOCAL statement_timeout = {}; {statement}",
                TABLE_WAIT_MAX.as_millis(),
                left.as_millis()
            ))?;
            session.settle()?;
        }
        Ok(())
    }

    /// Until when a change of the schema must be over. An error where nodes run whose programs could not use it.
    fn beside_others(&self, since: i64, beside_max: Duration) -> Result<Instant, OpenError> {
        let others = self.others()?;
        let max = match others.as_slice() {
            [] => ALONE_MAX,
            [..] => beside_max,
        };
        let older = older(others, since);
        if !older.is_empty() {
            return Err(OpenError::OlderNodes {
                place: self.place.clone(),
                version: known(),
                nodes: older.join(", "),
            });
        }
        Ok(after(Instant::now(), max))
    }

    /// Nodes that keep this program from changing the schema.
    pub(super) fn nodes_that_must_end(&self) -> Result<Vec<String>, OpenError> {
        let found = self.usable()?;
        let (missing, since) = missing(found);
        if found.version == 0 || missing.is_empty() {
            return Ok(Vec::new());
        }
        Ok(older(self.others()?, since))
    }

    /// The other nodes whose lease lasts, and what their programs know.
    fn others(&self) -> Result<Vec<(String, i64)>, OpenError> {
        let this = [self.session.node().as_str()];
        let others = sql::many(self.conn(), OTHERS, this, |row| {
            let node_id: String = row.get(0).map_err(sql::failed)?;
            let schema: i64 = row.get(1).map_err(sql::failed)?;
            Ok((node_id, schema))
        });
        others.map_err(OpenError::rows(&self.place))
    }

    /// What is there, without a judgement.
    fn schema(&self) -> Result<SchemaVersion, OpenError> {
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
            (true, true) => Ok(SchemaVersion {
                version: self.number("SELECT version FROM format")?,
                compatible_since: self.number("SELECT compatible_since FROM format")?,
            }),
            (false, _) if self.number(others)? == 0 => Ok(SchemaVersion {
                version: 0,
                compatible_since: 0,
            }),
            (true | false, _) => {
                let place = self.place.clone();
                Err(OpenError::Foreign { place })
            }
        }
    }
}
