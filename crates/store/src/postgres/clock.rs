//! How far the database's clock is from ours: leases and fences go by the database's.

use super::session::FenceAnswer;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Answers that are looked at together.
const SAMPLES: usize = 32;

/// The offset, measured with every batch. Handles share it.
#[derive(Debug, Default)]
pub(super) struct ClockOffset {
    samples: Mutex<VecDeque<i64>>,
}

impl ClockOffset {
    pub(super) fn learn(&self, fence: Option<FenceAnswer>) {
        let Some(FenceAnswer { theirs, ours }) = fence else {
            return;
        };
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        samples.truncate(SAMPLES - 1);
        samples.push_front(theirs.saturating_sub(ours));
    }

    /// What to add to our clock in ms to get the database's. An answer is always late, so the largest of them is the best.
    pub(super) fn ms(&self) -> Option<i64> {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        samples.iter().copied().max()
    }
}
