//! The database's clock, as this process knows it: every node of a fleet goes by it, whatever its machine's clock says.

use super::session::FenceAnswer;
use bridge_core::value::Timestamp;
use nix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Answers that are looked at together.
const SAMPLES: usize = 32;

/// Our own clock in ms: it never jumps, and it goes on while the machine sleeps, as the database's does.
pub(super) fn steady_ms() -> i64 {
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(0, |time| {
        time.tv_sec()
            .saturating_mul(1000)
            .saturating_add(time.tv_nsec() / 1_000_000)
    })
}

/// The database's clock, measured with every batch. Handles share it.
#[derive(Debug, Default)]
pub(super) struct DatabaseClock {
    samples: Mutex<VecDeque<i64>>,
}

impl DatabaseClock {
    pub(super) fn learn(&self, fence: Option<FenceAnswer>) {
        let Some(FenceAnswer { theirs, ours }) = fence else {
            return;
        };
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        samples.truncate(SAMPLES - 1);
        samples.push_front(theirs.saturating_sub(ours));
    }

    /// What it shows now. An answer is always late, so the one that was furthest ahead is the best.
    pub(super) fn now(&self) -> Option<Timestamp> {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let ahead = samples.iter().copied().max()?;
        Some(Timestamp(steady_ms().saturating_add(ahead)))
    }
}
