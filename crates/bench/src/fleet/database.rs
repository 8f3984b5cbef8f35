//! A PostgreSQL of the bench's own, the databases in it, and what it says of itself: sizes, the log, other programs.

use crate::stage::served::TICK_MS;
use crate::stage::{disk, process};
use anyhow::{Context, ensure};
use bridge_sim::postgres::{PostgresError, Server};
use std::path::PathBuf;
use std::sync::Arc;

/// Where the tables of a ledger are.
const SCHEMA: &str = "codex_bridge";
/// The database that every server has: what is asked there is no statement of the database that is measured.
pub(super) const MAINTENANCE: &str = "postgres";

/// A server that goes with its last handle. It runs as operators run it: what is committed is on the disk.
#[derive(Clone, Debug)]
pub(super) struct Postgres {
    server: Arc<Server>,
    /// What kind of file system its files are on, in words.
    pub(super) kind: &'static str,
}

impl Postgres {
    pub(super) async fn start(settings: &'static [(&str, &str)]) -> anyhow::Result<Self> {
        let started = tokio::task::spawn_blocking(|| Server::start_with(settings)).await?;
        let server = started.context("start a PostgreSQL for the bench")?;
        let instead = "set TMPDIR to a directory on a disk, with a short path";
        let kind = disk::kind_of(server.directory(), instead)?;
        Ok(Self {
            server: Arc::new(server),
            kind,
        })
    }

    /// A new database.
    pub(super) async fn database(&self, name: &str) -> anyhow::Result<Database> {
        let created = name.to_owned();
        self.blocking(move |server| server.create_database(&created, None))
            .await?;
        Ok(Database {
            postgres: self.clone(),
            name: name.to_owned(),
        })
    }

    /// Another program of this PostgreSQL.
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.server.program(name)
    }

    /// Its version, in words.
    pub(super) async fn version(&self) -> anyhow::Result<String> {
        let server = "SELECT current_setting('server_version')";
        self.ask(MAINTENANCE, server).await
    }

    /// Bytes written to the log since the server was made.
    pub(super) async fn log_bytes(&self) -> anyhow::Result<u64> {
        let query = "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint";
        number(&self.ask(MAINTENANCE, query).await?)
    }

    /// Processor time that its processes of now used so far, in ms.
    pub(super) fn processor(&self) -> f64 {
        let pids = process::working_in(self.server.directory());
        let ticks: u64 = pids.into_iter().filter_map(process::ticks).sum();
        ticks as f64 * TICK_MS
    }

    /// What `psql` prints for a query.
    pub(super) async fn ask(&self, database: &str, query: &str) -> anyhow::Result<String> {
        let (database, query) = (database.to_owned(), query.to_owned());
        let said = self.blocking(move |server| server.psql(&database, &query));
        Ok(said.await?.trim().to_owned())
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Server) -> Result<T, PostgresError> + Send + 'static,
    ) -> anyhow::Result<T> {
        let server = Arc::clone(&self.server);
        Ok(tokio::task::spawn_blocking(move || work(&server)).await??)
    }
}

/// One database of a server.
#[derive(Clone, Debug)]
pub(super) struct Database {
    pub(super) postgres: Postgres,
    pub(super) name: String,
}

/// One table with its indexes and long values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TableSize {
    pub(super) table: String,
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

impl Database {
    pub(super) fn url(&self) -> String {
        self.postgres.server.url_of(&self.name)
    }

    /// What `psql` prints for a query over the ledger's tables.
    pub(super) async fn ask(&self, query: &str) -> anyhow::Result<String> {
        let query = format!("SET search_path = {SCHEMA}, public; {query}");
        self.postgres.ask(&self.name, &query).await
    }

    pub(super) async fn number(&self, query: &str) -> anyhow::Result<u64> {
        number(&self.ask(query).await?)
    }

    /// A table a row, by name. Rows are counted, not estimated.
    pub(super) async fn sizes(&self) -> anyhow::Result<Vec<TableSize>> {
        let tables =
            format!("SELECT tablename FROM pg_tables WHERE schemaname = '{SCHEMA}' ORDER BY 1");
        let tables = self.ask(&tables).await?;
        let one = |table: &str| {
            format!(
                "SELECT '{table}', (SELECT count(*) FROM \"{table}\"), pg_total_relation_size('{SCHEMA}.\"{table}\"')"
            )
        };
        let all: Vec<String> = tables.lines().map(one).collect();
        ensure!(!all.is_empty(), "the database has no tables");
        let said = self.ask(&all.join(" UNION ALL ")).await?;
        said.lines().map(size).collect()
    }

    /// Writes every table anew, without the space that dead rows left.
    pub(super) async fn pack(&self) -> anyhow::Result<()> {
        let pack = self.postgres.ask(&self.name, "VACUUM FULL");
        pack.await.map(drop)
    }
}

fn size(line: &str) -> anyhow::Result<TableSize> {
    let mut columns = line.split('|');
    let mut next = || {
        columns
            .next()
            .with_context(|| format!("a column in {line:?}"))
    };
    Ok(TableSize {
        table: next()?.to_owned(),
        rows: number(next()?)?,
        bytes: number(next()?)?,
    })
}

pub(super) fn number(text: &str) -> anyhow::Result<u64> {
    let text = text.trim();
    text.parse()
        .with_context(|| format!("{text:?} is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_from_columns() {
        let found = size("turn|12|4096").unwrap();
        let expected = TableSize {
            table: "turn".to_owned(),
            rows: 12,
            bytes: 4096,
        };
        assert_eq!(found, expected);
        assert!(size("turn|12").is_err());
    }
}
