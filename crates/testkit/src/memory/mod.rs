//! The ledger in memory: the reference for what a ledger does, for tests, the model and the simulation.
//!
//! [`MemoryRows`] is the rows alone, usable without any runtime; [`MemoryLedger`] shares them between tasks.
//! Nothing here survives the process.

mod alert;
mod apply;
mod derived;
mod fleet;
mod forget;
mod lists;
mod loans;
mod quota;
mod read;
mod request;
mod rows;
mod senders;
mod subscription;
mod table;
mod task;

pub use rows::MemoryRows;

use bridge_core::port::{Committed, Lease, Ledger, LedgerError, Read, RowsError};
use bridge_core::step::{RunError, Transition};
use bridge_core::value::{Epoch, NodeId, NodeInfo, Timestamp};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// A ledger that lives as long as its handles.
#[derive(Clone, Debug)]
pub struct MemoryLedger {
    shared: Arc<Mutex<MemoryState>>,
    epoch: Epoch,
    node: Option<JoinedNode>,
}

/// The node that a handle writes for.
#[derive(Clone, Debug)]
struct JoinedNode {
    node_id: NodeId,
    lease_ms: i64,
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
            node: None,
        }
    }

    /// Opens the same rows again, as a restarted daemon does: every older handle is fenced off.
    pub fn reopen(&self) -> Result<Self, LedgerError> {
        let mut shared = self.lock()?;
        shared.epoch = Epoch(shared.epoch.0.saturating_add(1));
        Ok(Self {
            shared: Arc::clone(&self.shared),
            epoch: shared.epoch,
            node: None,
        })
    }

    /// A handle for a node of a fleet; an older handle of the same node is fenced off.
    pub fn join(
        &self,
        node_id: &NodeId,
        about: NodeInfo,
        lease_ms: i64,
    ) -> Result<Self, LedgerError> {
        let mut shared = self.lock()?;
        shared.epoch = Epoch(shared.epoch.0.saturating_add(1));
        let epoch = shared.epoch;
        shared.rows.join(node_id, epoch, about, lease_ms);
        Ok(Self {
            shared: Arc::clone(&self.shared),
            epoch,
            node: Some(JoinedNode {
                node_id: node_id.clone(),
                lease_ms,
            }),
        })
    }

    /// Moves the clock that leases are compared with.
    pub fn set_clock(&self, clock: Timestamp) -> Result<(), LedgerError> {
        self.lock()?.rows.set_clock(clock);
        Ok(())
    }

    /// The rows as they are now: a cheap copy that shares what nobody changes.
    pub fn snapshot(&self) -> Result<MemoryRows, LedgerError> {
        Ok(self.lock()?.rows.clone())
    }

    /// Whether this handle may still write; in a fleet that makes its lease longer.
    fn check_fence(&self, shared: &mut MemoryState) -> Result<(), LedgerError> {
        let fenced = match &self.node {
            Some(JoinedNode { node_id, lease_ms }) => {
                shared.rows.set_node(Some(node_id.clone()));
                !shared.rows.renew(node_id, self.epoch, *lease_ms)
            }
            None => shared.epoch != self.epoch,
        };
        if fenced {
            return Err(LedgerError::Fenced {
                found: shared.epoch.0,
                ours: self.epoch.0,
            });
        }
        Ok(())
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
        self.check_fence(&mut shared)?;
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
        let mut rows = self.snapshot()?;
        rows.set_node(self.node.as_ref().map(|node| node.node_id.clone()));
        Ok(query(&rows)?)
    }

    fn epoch(&self) -> Epoch {
        self.epoch
    }

    async fn renew(&self) -> Result<Option<Lease>, LedgerError> {
        let mut shared = self.lock()?;
        self.check_fence(&mut shared)?;
        let length = self.node.as_ref();
        let length = length.and_then(|node| u64::try_from(node.lease_ms).ok());
        Ok(length.map(|ms| Lease {
            length: Duration::from_millis(ms),
            now: shared.rows.clock(),
        }))
    }
}
