//! How often each transition was committed since the start, for `/metrics`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The counts, by the transition's verb.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<BTreeMap<&'static str, u64>>);

impl Tally {
    pub(super) fn count(&self, name: &'static str) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(name).or_default() += 1;
    }

    pub(super) fn counts(&self) -> Vec<(&'static str, u64)> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|(name, count)| (*name, *count)).collect()
    }
}
