//! The ledger in memory: the reference for what a ledger does, for tests, the model and the simulation.
//!
//! [`MemoryRows`] is the rows alone, usable without any runtime; [`MemoryLedger`] shares them between tasks.
//! Nothing here survives the process.

mod apply;
mod derived;
mod forget;
mod read;
mod request;
mod rows;
mod senders;
mod subscription;
mod table;
mod task;

pub use rows::MemoryRows;

use bridge_core::port::{Committed, Ledger, LedgerError, Read, RowsError};
use bridge_core::step::{RunError, Transition};
use bridge_core::value::{Epoch, Timestamp};
use std::sync::{Arc, Mutex, MutexGuard};

/// A ledger that lives as long as its handles.
#[derive(Clone, Debug)]
pub struct MemoryLedger {
    shared: Arc<Mutex<MemoryState>>,
    epoch: Epoch,
}

#[derive(Debug)]
struct MemoryState {
    rows: MemoryRows,
    epoch: Epoch,
}

impl MemoryLedger {
    /// An empty ledger, opened for the first time.
    #[must_use]
    pub fn new() -> Self {
        Self::over(MemoryRows::default())
    }

    /// A ledger over rows that exist already.
    #[must_use]
    pub fn over(rows: MemoryRows) -> Self {
        let epoch = Epoch(1);
        Self {
            shared: Arc::new(Mutex::new(MemoryState { rows, epoch })),
            epoch,
        }
    }

    /// Opens the same rows again, as a restarted daemon does: every older handle is fenced off.
    pub fn reopen(&self) -> Result<Self, LedgerError> {
        let mut shared = self.lock()?;
        shared.epoch = Epoch(shared.epoch.0.saturating_add(1));
        Ok(Self {
            shared: Arc::clone(&self.shared),
            epoch: shared.epoch,
        })
    }

    /// The rows as they are now: a cheap copy that shares what nobody changes.
    pub fn snapshot(&self) -> Result<MemoryRows, LedgerError> {
        Ok(self.lock()?.rows.clone())
    }

    fn lock(&self) -> Result<MutexGuard<'_, MemoryState>, LedgerError> {
        self.shared.lock().map_err(|_| LedgerError::Unavailable {
            what: "a transition panicked halfway; open a new memory ledger".to_owned(),
        })
    }
}

impl Default for MemoryLedger {
    fn default() -> Self {
        Self::new()
    }
}

impl Ledger for MemoryLedger {
    async fn transact<T: Transition>(
        &self,
        transition: T,
        now: Timestamp,
    ) -> Result<Committed<T::Outcome>, LedgerError> {
        let mut shared = self.lock()?;
        if shared.epoch != self.epoch {
            return Err(LedgerError::Fenced {
                found: shared.epoch.0,
                ours: self.epoch.0,
            });
        }
        shared
            .rows
            .transact(transition, now)
            .map_err(|error| match error {
                RunError::Refused(refused) => LedgerError::Refused(refused),
                RunError::Rows(rows) => LedgerError::Rows(rows),
            })
    }

    async fn read<V, F>(&self, query: F) -> Result<V, LedgerError>
    where
        V: Send + 'static,
        F: FnOnce(&dyn Read) -> Result<V, RowsError> + Send + 'static,
    {
        let rows = self.snapshot()?;
        Ok(query(&rows)?)
    }

    fn epoch(&self) -> Epoch {
        self.epoch
    }
}
