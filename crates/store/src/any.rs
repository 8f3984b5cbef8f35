//! A ledger on either engine, for who holds one and does not mind which.

use crate::postgres::PostgresLedger;
use crate::sqlite::{Gauge, Soundness, SqliteLedger};
use bridge_core::port::{Committed, Lease, Ledger, LedgerError, Read, RowsError};
use bridge_core::step::Transition;
use bridge_core::value::{Epoch, Timestamp};

/// A ledger on SQLite or on PostgreSQL.
#[derive(Clone, Debug)]
pub enum AnyLedger {
    /// In a file of ours.
    Sqlite(SqliteLedger),
    /// In a database of a server, shared by a fleet.
    Postgres(PostgresLedger),
}

impl AnyLedger {
    /// How it is, for intake and for people.
    #[must_use]
    pub fn gauge(&self) -> Gauge {
        match self {
            Self::Sqlite(ledger) => ledger.gauge(),
            Self::Postgres(ledger) => ledger.gauge(),
        }
    }

    /// Whether the file is sound; nothing for a server, which looks after its own files.
    pub async fn quick_check(&self) -> Result<Option<Soundness>, LedgerError> {
        match self {
            Self::Sqlite(ledger) => ledger.quick_check().await.map(Some),
            Self::Postgres(_) => Ok(None),
        }
    }

    /// The one that a fleet shares, if it is one.
    #[must_use]
    pub fn postgres(&self) -> Option<&PostgresLedger> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres(ledger) => Some(ledger),
        }
    }

    /// What can be lived with and should be changed, in sentences for the operator.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        match self {
            Self::Sqlite(_) => &[],
            Self::Postgres(ledger) => ledger.warnings(),
        }
    }

    /// Commits so far: how well transitions share them.
    #[must_use]
    pub fn commits(&self) -> u64 {
        match self {
            Self::Sqlite(ledger) => ledger.commits(),
            Self::Postgres(ledger) => ledger.commits(),
        }
    }
}

impl Ledger for AnyLedger {
    async fn transact<T: Transition>(
        &self,
        transition: T,
        now: Timestamp,
    ) -> Result<Committed<T::Outcome>, LedgerError> {
        match self {
            Self::Sqlite(ledger) => ledger.transact(transition, now).await,
            Self::Postgres(ledger) => ledger.transact(transition, now).await,
        }
    }

    async fn read<V, F>(&self, query: F) -> Result<V, LedgerError>
    where
        V: Send + 'static,
        F: FnOnce(&dyn Read) -> Result<V, RowsError> + Send + 'static,
    {
        match self {
            Self::Sqlite(ledger) => ledger.read(query).await,
            Self::Postgres(ledger) => ledger.read(query).await,
        }
    }

    fn epoch(&self) -> Epoch {
        match self {
            Self::Sqlite(ledger) => ledger.epoch(),
            Self::Postgres(ledger) => ledger.epoch(),
        }
    }

    async fn renew(&self) -> Result<Option<Lease>, LedgerError> {
        match self {
            Self::Sqlite(ledger) => ledger.renew().await,
            Self::Postgres(ledger) => Ledger::renew(ledger).await,
        }
    }
}
