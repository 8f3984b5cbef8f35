//! Ranks and medians. No averages: one slow sample of a busy machine would move them.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// With fewer samples than this, p95 is the largest of them and is called so.
const P95_FROM: usize = 20;
/// The same for p99.
const P99_FROM: usize = 100;

/// The ranks of one way of doing something, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) samples: usize,
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

impl Spread {
    pub(crate) fn of(times: &[Duration]) -> Self {
        let ms: Vec<f64> = times.iter().map(|time| millis(*time)).collect();
        Self {
            samples: ms.len(),
            p50: rank(&ms, 50),
            p95: rank(&ms, 95),
            p99: rank(&ms, 99),
            max: rank(&ms, 100),
        }
    }

    pub(crate) fn at(&self, tail: Tail) -> f64 {
        match tail {
            Tail::P95 => self.p95,
            Tail::P99 => self.p99,
            Tail::Max => self.max,
        }
    }
}

/// A figure of the slow end of a spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    P95,
    P99,
    Max,
}

impl Tail {
    /// What so many samples are enough for.
    pub(crate) fn of(samples: usize) -> &'static [Self] {
        match samples {
            P99_FROM.. => &[Self::P95, Self::P99],
            P95_FROM.. => &[Self::P95, Self::Max],
            _ => &[Self::Max],
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::P95 => "p95",
            Self::P99 => "p99",
            Self::Max => "max",
        }
    }
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// The smallest value that so many of a hundred do not exceed; 0 of nothing.
pub(crate) fn rank(values: &[f64], share: usize) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let place = (values.len() * share).div_ceil(100).saturating_sub(1);
    values.get(place).copied().unwrap_or_default()
}

pub(crate) fn median(values: &[f64]) -> f64 {
    rank(values, 50)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_samples_and_none_of_nothing() {
        let values: Vec<f64> = (1..=100).map(f64::from).rev().collect();
        assert_eq!(
            [50, 95, 99, 100].map(|share| rank(&values, share)),
            [50.0, 95.0, 99.0, 100.0]
        );
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(rank(&[7.0], 1), 7.0);
        assert_eq!(rank(&[], 50), 0.0);
    }

    #[test]
    fn a_spread_is_in_milliseconds() {
        let spread = Spread::of(&[Duration::from_micros(1_500), Duration::from_secs(1)]);
        assert_eq!((spread.samples, spread.p50, spread.max), (2, 1.5, 1_000.0));
    }

    #[test]
    fn tail_percentile_requires_enough_samples() {
        let spread = |samples: u64| {
            let times: Vec<Duration> = (1..=samples).map(Duration::from_millis).collect();
            Spread::of(&times)
        };
        for (samples, tails) in [
            (100, &[Tail::P95, Tail::P99]),
            (99, &[Tail::P95, Tail::Max]),
            (20, &[Tail::P95, Tail::Max]),
        ] {
            let spread = spread(samples);
            assert_eq!(Tail::of(spread.samples), tails, "{samples}");
            assert!(spread.at(tails[0]) < spread.max);
        }
        assert_eq!(Tail::of(19), [Tail::Max]);
        assert_eq!(spread(99).p99, spread(99).max, "99 samples have no p99");
        assert_eq!(spread(19).p95, spread(19).max, "19 samples have no p95");
    }
}
