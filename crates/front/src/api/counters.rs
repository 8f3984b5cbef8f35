//! Counts since the start, for `/metrics`: what no row tells.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counters.
#[derive(Debug, Default)]
pub(super) struct Counters {
    panics: AtomicU64,
}

impl Counters {
    /// A handler panicked.
    pub(super) fn panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    #[cfg_attr(not(test), expect(dead_code, reason = "read by /metrics"))]
    pub(super) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }
}
