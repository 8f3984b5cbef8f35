//! Counts since the start, for `/metrics`: what no row tells.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The counters.
#[derive(Debug, Default)]
pub(super) struct Counters {
    panics: AtomicU64,
    connections: Arc<AtomicU64>,
    /// By status.
    responses: Mutex<BTreeMap<u16, u64>>,
}

/// One connection, as long as it is open.
#[derive(Debug)]
pub(super) struct Open(Arc<AtomicU64>);

impl Counters {
    /// A handler panicked.
    pub(super) fn panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// A call was answered.
    pub(super) fn answered(&self, status: u16) {
        let mut responses = self
            .responses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *responses.entry(status).or_default() += 1;
    }

    /// A connection was opened.
    pub(super) fn opened(&self) -> Open {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Open(Arc::clone(&self.connections))
    }

    pub(super) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    pub(super) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    pub(super) fn responses(&self) -> Vec<(u16, u64)> {
        let responses = self
            .responses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        responses
            .iter()
            .map(|(status, count)| (*status, *count))
            .collect()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
