//! What every polling source needs: the wall clock, growing pauses, an allowance for bursts, and a quiet word about rows that nothing can be
//! kept of.

use bridge_core::deadline::after;
use bridge_core::limits::clip;
use bridge_core::retry::backoff_ms;
use bridge_core::value::Timestamp;
use serde_json::Value;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;
use uuid::Uuid;

/// First pause after a failure; doubles up to [`PAUSE_MAX_MS`].
const PAUSE_BASE_MS: i64 = 1_000;
const PAUSE_MAX_MS: i64 = 60_000;
/// How much of a row that nothing can be kept of is logged.
const LOGGED_MAX_CHARS: usize = 200;

/// Pauses that grow from 1 s to 60 s with jitter, and begin anew after a success.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// How long to wait now.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = backoff_ms(self.failures, PAUSE_BASE_MS, PAUSE_MAX_MS, jitter());
        self.failures = self.failures.saturating_add(1);
        Duration::from_millis(u64::try_from(pause).unwrap_or(1))
    }

    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Rows without an id: they can't be kept, are shown again for ever, and are said once in a while.
#[derive(Debug, Default)]
pub(crate) struct Unkept {
    seen: u64,
}

impl Unkept {
    pub(crate) fn note(&mut self, channel: &str, row: &Value, why: &str) {
        if self.seen.is_power_of_two() || self.seen == 0 {
            let row = clip(&row.to_string(), LOGGED_MAX_CHARS);
            tracing::warn!(
                channel,
                seen = self.seen + 1,
                why,
                row = row.escape_debug().to_string(),
                "the platform shows a row that nothing can be kept of"
            );
        }
        self.seen = self.seen.saturating_add(1);
    }
}

/// A random number in 0..=1000 for backoff.
fn jitter() -> u16 {
    let (high, _) = Uuid::new_v4().as_u64_pair();
    u16::try_from(high % 1001).unwrap_or(0)
}

/// The wall clock.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// So many at once, and then one more per span: a burst is not held up, a flood is spread.
#[derive(Debug)]
pub(crate) struct Allowance {
    at_once: u32,
    every: Duration,
    /// When everything that was taken so far is earned again.
    earned: Option<Instant>,
}

impl Allowance {
    pub(crate) fn new(at_once: u32, every: Duration) -> Self {
        Self {
            at_once,
            every,
            earned: None,
        }
    }

    /// Takes the next one; gives when it may be used.
    pub(crate) fn next(&mut self, now: Instant) -> Instant {
        let earned = self.earned.map_or(now, |earned| earned.max(now));
        let earned = after(earned, self.every);
        self.earned = Some(earned);
        let ahead = self.every.saturating_mul(self.at_once);
        earned.checked_sub(ahead).map_or(now, |may| may.max(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowance_spreads_calls_beyond_burst() {
        let every = Duration::from_millis(250);
        let mut allowance = Allowance::new(4, every);
        let start = Instant::now();
        let waits: Vec<Duration> = (0..6).map(|_| allowance.next(start) - start).collect();
        let free = [Duration::ZERO; 4];
        assert_eq!(waits[..4], free);
        assert_eq!(waits[4..], [every, every * 2]);
        let later = start + every * 20;
        assert_eq!(
            allowance.next(later),
            later,
            "a pause earns everything again"
        );
    }
}
