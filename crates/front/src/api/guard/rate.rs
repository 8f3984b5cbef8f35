//! Rate limits: token buckets per caller, and per address for refused tokens (threats 22, 32).
//!
//! Written by hand because the number of buckets is bounded, and the fullest one is evicted: a flood of new names must
//! not reset the bucket of a caller that has used its up.

use crate::api::limits::{
    CALLS_BURST, CALLS_PER_SECOND, FAILURES_BURST, FAILURES_PER_SECOND, RATED_MAX,
};
use crate::lock;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// The rates of recent callers.
#[derive(Debug)]
pub(in crate::api) struct Rates {
    calls: Buckets,
    failures: Buckets,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            calls: Buckets::new(CALLS_BURST, CALLS_PER_SECOND),
            failures: Buckets::new(FAILURES_BURST, FAILURES_PER_SECOND),
        }
    }
}

impl Rates {
    /// Counts a call; returns how long to wait if it is refused.
    pub(super) fn call(&self, who: &str) -> Option<Duration> {
        self.calls.take(who)
    }

    /// Counts a refused token; returns how long to wait before the next try.
    pub(super) fn failure(&self, who: &str) -> Option<Duration> {
        self.failures.take(who)
    }
}

#[derive(Debug)]
struct Buckets {
    burst: f64,
    per_second: f64,
    by_name: Mutex<HashMap<String, Bucket>>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Buckets {
    fn new(burst: u32, per_second: f64) -> Self {
        Self {
            burst: f64::from(burst),
            per_second,
            by_name: Mutex::default(),
        }
    }

    fn take(&self, who: &str) -> Option<Duration> {
        let now = Instant::now();
        let mut by_name = lock(&self.by_name);
        if by_name.len() >= RATED_MAX && !by_name.contains_key(who) {
            self.forget(&mut by_name, now);
        }
        let bucket = by_name.entry(who.to_owned()).or_insert(Bucket {
            left: self.burst,
            at: now,
        });
        *bucket = Bucket {
            left: self.left(*bucket, now),
            at: now,
        };
        if bucket.left >= 1.0 {
            bucket.left -= 1.0;
            return None;
        }
        let missing = 1.0 - bucket.left;
        Some(Duration::from_secs_f64(missing / self.per_second))
    }

    fn left(&self, bucket: Bucket, now: Instant) -> f64 {
        let passed = now.duration_since(bucket.at).as_secs_f64();
        passed.mul_add(self.per_second, bucket.left).min(self.burst)
    }

    /// Makes room: drops full buckets, which carry no information, and otherwise the fullest one.
    fn forget(&self, by_name: &mut HashMap<String, Bucket>, now: Instant) {
        by_name.retain(|_, bucket| self.left(*bucket, now) < self.burst);
        if by_name.len() >= RATED_MAX {
            let fullest = by_name
                .iter()
                .max_by(|(_, one), (_, two)| {
                    self.left(**one, now).total_cmp(&self.left(**two, now))
                })
                .map(|(name, _)| name.clone());
            fullest.and_then(|name| by_name.remove(&name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn threat_32_throttles_auth_failures_per_client() {
        let rates = Rates::default();
        for _ in 0..FAILURES_BURST {
            assert_eq!(rates.failure("one"), None);
        }
        let wait = rates.failure("one").unwrap();
        assert_eq!(wait.as_secs(), 5);
        assert_eq!(rates.failure("two"), None);
        tokio::time::advance(wait).await;
        assert_eq!(rates.failure("one"), None);
        assert!(rates.failure("one").is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn threat_22_what_is_remembered_is_bounded() {
        let buckets = Buckets::new(2, 1.0);
        for n in 0..RATED_MAX + 100 {
            assert_eq!(buckets.take(&format!("caller {n}")), None);
        }
        assert!(buckets.by_name.lock().unwrap().len() <= RATED_MAX);
        buckets.take("greedy");
        buckets.take("greedy");
        assert!(buckets.take("greedy").is_some());
        for n in 0..RATED_MAX {
            buckets.take(&format!("other {n}"));
        }
        assert!(
            buckets.take("greedy").is_some(),
            "a flood does not wash a debt away"
        );
    }
}
