//! Durations and counts since the start that no row has, for `/metrics`.

use bridge_core::port::Change;
use bridge_core::value::{RequestDecision, Turn, TurnState};
use bridge_front::{HistogramView, Measured};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of commits, in microseconds: from a fast disk to one that is given up.
const COMMIT_BOUNDS: [u64; 12] = [
    1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_000_000,
    5_000_000,
];
/// Upper bounds of work and of waits for people, in microseconds: from an echo to an hour.
const WORK_BOUNDS: [u64; 12] = [
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    120_000_000,
    600_000_000,
    1_800_000_000,
    3_600_000_000,
];
const DECISIONS: [RequestDecision; 4] = [
    RequestDecision::Accept,
    RequestDecision::AcceptForSession,
    RequestDecision::Decline,
    RequestDecision::Cancel,
];

/// A histogram that many tasks add to.
#[derive(Debug)]
pub(crate) struct Histogram<const N: usize> {
    bounds: [u64; N],
    /// How many values fell into each, and not into the one before.
    buckets: [AtomicU64; N],
    above: AtomicU64,
    sum_us: AtomicU64,
}

impl<const N: usize> Histogram<N> {
    fn new(bounds: [u64; N]) -> Self {
        Self {
            bounds,
            buckets: [const { AtomicU64::new(0) }; N],
            above: AtomicU64::new(0),
            sum_us: AtomicU64::new(0),
        }
    }

    pub(crate) fn add(&self, value: Duration) {
        let value = u64::try_from(value.as_micros()).unwrap_or(u64::MAX);
        let mut buckets = self.bounds.iter().zip(&self.buckets);
        let fits = buckets.find(|(bound, _)| value <= **bound);
        let bucket = fits.map_or(&self.above, |(_, bucket)| bucket);
        bucket.fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(value, Ordering::Relaxed);
    }

    /// The same for milliseconds of a clock that may have gone back.
    fn add_ms(&self, value: i64) {
        self.add(Duration::from_millis(u64::try_from(value).unwrap_or(0)));
    }

    fn view(&self) -> HistogramView {
        let mut count = 0_u64;
        let buckets = self
            .bounds
            .iter()
            .zip(&self.buckets)
            .map(|(bound, bucket)| {
                count = count.saturating_add(bucket.load(Ordering::Relaxed));
                (Duration::from_micros(*bound).as_secs_f64(), count)
            });
        let buckets = buckets.collect();
        let sum = Duration::from_micros(self.sum_us.load(Ordering::Relaxed));
        HistogramView {
            buckets,
            sum: sum.as_secs_f64(),
            count: count.saturating_add(self.above.load(Ordering::Relaxed)),
        }
    }
}

/// What is measured.
#[derive(Debug)]
pub(crate) struct Measures {
    turn: Histogram<12>,
    answer: Histogram<12>,
    approval: Histogram<12>,
    approvals: [AtomicU64; DECISIONS.len()],
    input_tokens: AtomicU64,
    output_tokens: AtomicU64,
}

impl Default for Measures {
    fn default() -> Self {
        let work = || Histogram::new(WORK_BOUNDS);
        Self {
            turn: work(),
            answer: work(),
            approval: work(),
            approvals: Default::default(),
            input_tokens: AtomicU64::new(0),
            output_tokens: AtomicU64::new(0),
        }
    }
}

/// The histogram of commits.
pub(crate) type CommitTimes = Histogram<12>;

pub(crate) fn commit_times() -> CommitTimes {
    Histogram::new(COMMIT_BOUNDS)
}

impl Measures {
    /// Counts what was committed.
    pub(crate) fn note(&self, changes: &[Change]) {
        for change in changes {
            if let Change::Turn(turn) = change {
                self.turn_ended(turn);
            }
        }
    }

    fn turn_ended(&self, turn: &Turn) {
        let (TurnState::Ended, Some(ended_at)) = (turn.state, turn.ended_at) else {
            return;
        };
        self.turn.add_ms(ended_at.since_ms(turn.started_at));
        let tokens = |tokens: i64| u64::try_from(tokens).unwrap_or(0);
        let (input, output) = (turn.usage.input_tokens, turn.usage.output_tokens);
        self.input_tokens
            .fetch_add(tokens(input), Ordering::Relaxed);
        self.output_tokens
            .fetch_add(tokens(output), Ordering::Relaxed);
    }

    /// A message got its answer, so many milliseconds after it came.
    pub(crate) fn answered(&self, after_ms: i64) {
        self.answer.add_ms(after_ms);
    }

    /// A question of Codex was decided, so many milliseconds after it was asked.
    pub(crate) fn decided(&self, decision: RequestDecision, after_ms: i64) {
        self.approval.add_ms(after_ms);
        let mut counts = DECISIONS.iter().zip(&self.approvals);
        if let Some((_, count)) = counts.find(|(known, _)| **known == decision) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn view(&self, commits: &CommitTimes) -> Measured {
        let approvals = DECISIONS.iter().zip(&self.approvals);
        let approvals =
            approvals.map(|(decision, count)| (decision.as_str(), count.load(Ordering::Relaxed)));
        Measured {
            commit_seconds: commits.view(),
            turn_seconds: self.turn.view(),
            answer_seconds: self.answer.view(),
            approval_seconds: self.approval.view(),
            approvals: approvals.collect(),
            input_tokens: self.input_tokens.load(Ordering::Relaxed),
            output_tokens: self.output_tokens.load(Ordering::Relaxed),
            ..Measured::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histogram_counts_at_or_below_bounds() {
        let histogram = Histogram::new([1_000, 2_000]);
        for ms in [1, 2, 2, 3] {
            histogram.add(Duration::from_millis(ms));
        }
        let view = histogram.view();
        assert_eq!(view.buckets, [(0.001, 1), (0.002, 3)]);
        assert_eq!((view.count, view.sum), (4, 0.008));
    }

    #[test]
    fn clock_that_went_back_counts_as_nothing() {
        let measures = Measures::default();
        measures.answered(-5);
        measures.decided(RequestDecision::Decline, 1_500);
        let view = measures.view(&commit_times());
        assert_eq!(
            (view.answer_seconds.count, view.answer_seconds.sum),
            (1, 0.0)
        );
        assert_eq!(view.approvals[2], (RequestDecision::Decline.as_str(), 1));
    }
}
