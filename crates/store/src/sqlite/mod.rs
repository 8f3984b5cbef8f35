//! The ledger on SQLite: one file, one writer thread with group commit, a few readers beside it.
//!
//! Opening is in `open`, the schema's versions in `migrate`, threads in `writer` and `reader`. Tables and statements are
//! in [`crate::sql`].

mod audit;
mod backup;
mod check;
pub(crate) mod copied;
mod files;
mod gauge;
mod log;
mod migrate;
mod open;
mod reader;
mod recover;
mod seal;
mod snapshot;
mod texts;
mod writer;

#[cfg(test)]
mod tests;

pub use crate::sql::audit::{AuditRecord, AuditSigner};
pub use crate::sql::seal::SealedPushes;
pub use audit::{audit, audit_signer};
pub use backup::{Backup, BackupError, Existing, back_up};
pub use check::{Depth, Inspection, Soundness, inspect};
pub(crate) use files::{PRIVATE, sync_directory};
pub use gauge::{Gauge, LedgerHealth, Limits, Pressure, Vitals};
pub use open::{OpenError, Options};
pub use recover::{RecoverError, Recovered, RecoveryNotice, RecoveryReport, TableReport, recover};
pub use seal::sealed_pushes;
pub use snapshot::snapshot;

use crate::key::LedgerKey;
use crate::sql::job::TransitionJob;
use bridge_core::port::{Committed, Ledger, LedgerError, Read, RowsError};
use bridge_core::step::Transition;
use bridge_core::value::{Epoch, Timestamp};
use reader::ReaderPool;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use writer::WriterHandle;

/// A ledger in one SQLite file. Handles share it; it closes when the last one is dropped.
#[derive(Clone, Debug)]
pub struct SqliteLedger {
    shared: Arc<SqliteState>,
}

#[derive(Debug)]
struct SqliteState {
    path: PathBuf,
    epoch: Epoch,
    writer: WriterHandle,
    readers: ReaderPool,
    gauge: Gauge,
}

impl SqliteLedger {
    /// Opens the ledger, creating or migrating the file, and takes over from an earlier opening. With another key
    /// than before, messages are still served; encrypted values can't be read, and the audit record says so.
    ///
    /// It blocks on the disk; call it before the runtime is busy.
    pub fn open(
        path: impl AsRef<Path>,
        key: &LedgerKey,
        options: Options,
    ) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let opened = open::open(path, key, options)?;
        let start = |source| OpenError::Threads { source };
        let gauge = Gauge::new(path, options.limits);
        let writer = WriterHandle::start(opened.writer, key.clone(), opened.epoch, gauge.clone());
        let readers = ReaderPool::start(opened.readers, key, options.read_max, &gauge);
        let shared = SqliteState {
            path: path.to_owned(),
            epoch: opened.epoch,
            writer: writer.map_err(start)?,
            readers: readers.map_err(start)?,
            gauge,
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Commits so far: how well transitions share them.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.shared.writer.commits()
    }

    /// Whether the file is sound. Reads all of it, on a connection of its own: call it once ready. The gauge
    /// records the outcome.
    pub async fn quick_check(&self) -> Result<Soundness, LedgerError> {
        let found = check::quick_check(self.shared.path.clone()).await?;
        self.shared.gauge.checked(&found);
        Ok(found)
    }

    /// Health of the ledger, for intake and for people.
    #[must_use]
    pub fn gauge(&self) -> Gauge {
        self.shared.gauge.clone()
    }
}

impl Ledger for SqliteLedger {
    /// Dropping the future does not undo a transition that was handed in: it may still be committed, and
    /// recovery finds its rows.
    async fn transact<T: Transition>(
        &self,
        transition: T,
        now: Timestamp,
    ) -> Result<Committed<T::Outcome>, LedgerError> {
        let (job, result) = TransitionJob::new(transition, now);
        self.shared.writer.submit(Box::new(job)).await?;
        result.await.map_err(|_| writer::gone())?
    }

    async fn read<V, F>(&self, query: F) -> Result<V, LedgerError>
    where
        V: Send + 'static,
        F: FnOnce(&dyn Read) -> Result<V, RowsError> + Send + 'static,
    {
        self.shared.readers.ask(query).await
    }

    fn epoch(&self) -> Epoch {
        self.shared.epoch
    }
}
