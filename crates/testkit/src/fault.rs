//! A ledger that misbehaves on request: at the n-th call it fails, commits and says that it failed, waits,
//! or never comes back. For tests and the simulation, over any ledger; nothing that ships uses it.

use bridge_core::port::{Committed, Ledger, LedgerError, Read, RowsError};
use bridge_core::step::Transition;
use bridge_core::value::{Epoch, Timestamp};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

/// What goes wrong.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The ledger can't be reached; nothing was written.
    Unavailable,
    /// The database failed; nothing was written.
    Backend,
    /// A row of the call can't be read; nothing was written.
    Unreadable,
    /// The call was done, and the caller hears that it failed: a connection cut at COMMIT.
    Unknown,
    /// The call waits until the gate is opened, and is done then.
    Delay(Gate),
    /// The call never resolves, as for a process that dies in it: the caller must be dropped.
    Abort {
        /// Whether it was done before the end.
        done: bool,
    },
}

/// How many calls it goes wrong for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// The n-th call alone.
    Once,
    /// The n-th call and all after it, until [`FaultLedger::mend`]: a full disk.
    From,
}

/// A gate that delayed calls wait at.
#[derive(Clone, Debug)]
pub struct Gate {
    entered: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            entered: Arc::new(Semaphore::new(0)),
            open: Arc::new(Semaphore::new(0)),
        }
    }
}

impl Gate {
    /// Waits until a call is at the gate.
    pub async fn entered(&self) {
        if let Ok(permit) = self.entered.acquire().await {
            permit.forget();
        }
    }

    /// Lets everybody through, now and later.
    pub fn open(&self) {
        self.open.close();
    }

    async fn pass(&self) {
        self.entered.add_permits(1);
        // A closed semaphore is an open gate.
        let _open = self.open.acquire().await;
    }
}

/// Any ledger with a fault planned into it. Handles share calls and plan.
#[derive(Clone, Debug)]
pub struct FaultLedger<L> {
    inner: L,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    calls: AtomicU64,
    plan: Mutex<Option<Plan>>,
}

#[derive(Clone, Debug)]
struct Plan {
    at: u64,
    span: Span,
    fault: Fault,
}

impl<L: Ledger> FaultLedger<L> {
    /// Over a ledger, with nothing planned.
    pub fn new(inner: L) -> Self {
        Self {
            inner,
            shared: Arc::default(),
        }
    }

    /// Plans a fault for the `n`-th call from now, counting reads and transitions from 1. It replaces what was
    /// planned before.
    pub fn plan(&self, n: u64, span: Span, fault: Fault) {
        let at = self.calls().saturating_add(n);
        *self.planned() = Some(Plan { at, span, fault });
    }

    /// Nothing goes wrong any more.
    pub fn mend(&self) {
        *self.planned() = None;
    }

    /// Calls so far; a run that made fewer than n never met a fault at n.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::SeqCst)
    }

    /// The ledger underneath, to look at what is really there.
    #[must_use]
    pub fn inner(&self) -> &L {
        &self.inner
    }

    fn planned(&self) -> std::sync::MutexGuard<'_, Option<Plan>> {
        let plan = self.shared.plan.lock();
        plan.unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts this call and says what goes wrong with it.
    fn next(&self) -> Option<Fault> {
        let call = self.shared.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let plan = self.planned().clone()?;
        let hit = match plan.span {
            Span::Once => call == plan.at,
            Span::From => call >= plan.at,
        };
        hit.then_some(plan.fault)
    }

    async fn strike<V>(
        &self,
        call: impl Future<Output = Result<V, LedgerError>>,
    ) -> Result<V, LedgerError> {
        match self.next() {
            None => call.await,
            Some(Fault::Unavailable) => Err(unavailable("planned to be out of reach")),
            Some(Fault::Backend) => Err(RowsError::Backend {
                what: "planned to fail".to_owned(),
            }
            .into()),
            Some(Fault::Unreadable) => Err(RowsError::Unreadable {
                what: "a row".to_owned(),
                why: "planned to be unreadable".to_owned(),
            }
            .into()),
            Some(Fault::Unknown) => {
                let _done = call.await;
                Err(unavailable("planned to be cut off after the call"))
            }
            Some(Fault::Delay(gate)) => {
                gate.pass().await;
                call.await
            }
            Some(Fault::Abort { done }) => {
                if done {
                    let _done = call.await;
                }
                std::future::pending().await
            }
        }
    }
}

fn unavailable(what: &str) -> LedgerError {
    LedgerError::Unavailable {
        what: what.to_owned(),
    }
}

impl<L: Ledger> Ledger for FaultLedger<L> {
    async fn transact<T: Transition>(
        &self,
        transition: T,
        now: Timestamp,
    ) -> Result<Committed<T::Outcome>, LedgerError> {
        self.strike(self.inner.transact(transition, now)).await
    }

    async fn read<V, F>(&self, query: F) -> Result<V, LedgerError>
    where
        V: Send + 'static,
        F: FnOnce(&dyn Read) -> Result<V, RowsError> + Send + 'static,
    {
        self.strike(self.inner.read(query)).await
    }

    fn epoch(&self) -> Epoch {
        self.inner.epoch()
    }
}

#[cfg(test)]
mod tests;
