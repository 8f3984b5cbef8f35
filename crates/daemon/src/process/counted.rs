//! A ledger that counts what is committed through it, whoever commits: the daemon and the host of Codex share it.

use crate::process::measures::{CommitTimes, commit_times};
use bridge_core::port::{Committed, Lease, Ledger, LedgerError, Read, RowsError};
use bridge_core::step::Transition;
use bridge_core::value::{Epoch, Timestamp};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// How often each transition was committed since the start, by its verb, and how long commits took, for `/metrics`.
#[derive(Debug)]
pub(crate) struct CommitCounters {
    counts: Mutex<BTreeMap<&'static str, u64>>,
    pub(crate) times: CommitTimes,
}

impl CommitCounters {
    fn new() -> Self {
        Self {
            counts: Mutex::default(),
            times: commit_times(),
        }
    }

    fn count(&self, name: &'static str) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(name).or_default();
        *count = count.saturating_add(1);
    }

    pub(crate) fn counts(&self) -> Vec<(&'static str, u64)> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|(name, count)| (*name, *count)).collect()
    }
}

/// A ledger whose commits are counted.
#[derive(Clone, Debug)]
pub(crate) struct Counted<L> {
    ledger: L,
    counters: Arc<CommitCounters>,
}

impl<L> Counted<L> {
    pub(crate) fn new(ledger: L) -> Self {
        let counters = Arc::new(CommitCounters::new());
        Self { ledger, counters }
    }

    pub(crate) fn inner(&self) -> &L {
        &self.ledger
    }

    pub(crate) fn counters(&self) -> Arc<CommitCounters> {
        Arc::clone(&self.counters)
    }
}

impl<L: Ledger> Ledger for Counted<L> {
    async fn transact<T: Transition>(
        &self,
        transition: T,
        now: Timestamp,
    ) -> Result<Committed<T::Outcome>, LedgerError> {
        let began = Instant::now();
        let committed = self.ledger.transact(transition, now).await?;
        self.counters.times.add(began.elapsed());
        self.counters.count(T::NAME);
        Ok(committed)
    }

    async fn read<V, F>(&self, query: F) -> Result<V, LedgerError>
    where
        V: Send + 'static,
        F: FnOnce(&dyn Read) -> Result<V, RowsError> + Send + 'static,
    {
        self.ledger.read(query).await
    }

    fn epoch(&self) -> Epoch {
        self.ledger.epoch()
    }

    async fn renew(&self) -> Result<Option<Lease>, LedgerError> {
        self.ledger.renew().await
    }
}
