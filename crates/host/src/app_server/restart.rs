//! When Codex may be started again: restart intensity and circuit. Pure; time is an argument.
//!
//! Crashes restart at once until there are too many; a process that dies right after its start is an
//! operator's problem, not one that more starts solve.

use std::collections::VecDeque;

/// Starts are counted within this time.
const WINDOW_MS: u64 = 60_000;
/// First pause when the circuit opens; doubles up to [`PAUSE_MAX_MS`].
const PAUSE_BASE_MS: u64 = 60_000;
const PAUSE_MAX_MS: u64 = 15 * 60_000;
/// A life shorter than this is a failed start.
const FAST_EXIT_MS: u64 = 2_000;
/// So many failed starts in a row mean a broken installation or configuration.
const FAST_EXITS_MAX: u32 = 2;
/// How soon a broken installation is tried again.
const BROKEN_PROBE_MS: u64 = 15_000;

/// Remembers starts and ends.
#[derive(Debug)]
pub(crate) struct Supervisor {
    /// Starts allowed within [`WINDOW_MS`].
    starts_max: usize,
    starts: VecDeque<u64>,
    fast_exits: u32,
    trips: u32,
    closed_until: u64,
}

/// Whether a start is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permit {
    /// Start.
    Go,
    /// Too many starts: wait.
    Cooling { until_ms: u64 },
    /// It does not stay up: an operator must look.
    Broken { until_ms: u64 },
}

impl Supervisor {
    /// Allows so many starts within a minute.
    pub(crate) fn new(starts_max: usize) -> Self {
        Self {
            starts_max,
            starts: VecDeque::new(),
            fast_exits: 0,
            trips: 0,
            closed_until: 0,
        }
    }

    /// Asks for a start at `now_ms`, and counts it when it is allowed.
    pub(crate) fn ask(&mut self, now_ms: u64) -> Permit {
        if now_ms < self.closed_until {
            let until_ms = self.closed_until;
            return if self.fast_exits >= FAST_EXITS_MAX {
                Permit::Broken { until_ms }
            } else {
                Permit::Cooling { until_ms }
            };
        }
        while self
            .starts
            .front()
            .is_some_and(|at| now_ms.saturating_sub(*at) > WINDOW_MS)
        {
            self.starts.pop_front();
        }
        if self.starts.len() >= self.starts_max {
            let pause = PAUSE_BASE_MS
                .saturating_mul(1 << self.trips.min(8))
                .min(PAUSE_MAX_MS);
            self.trips = self.trips.saturating_add(1);
            self.starts.clear();
            self.closed_until = now_ms.saturating_add(pause);
            return Permit::Cooling {
                until_ms: self.closed_until,
            };
        }
        self.starts.push_back(now_ms);
        Permit::Go
    }

    /// Records the end of a life.
    pub(crate) fn ended(&mut self, lived_ms: u64, now_ms: u64) {
        if lived_ms >= FAST_EXIT_MS {
            self.fast_exits = 0;
            if lived_ms > WINDOW_MS {
                self.trips = 0;
            }
            return;
        }
        self.fast_exits = self.fast_exits.saturating_add(1);
        if self.fast_exits >= FAST_EXITS_MAX {
            self.closed_until = now_ms.saturating_add(BROKEN_PROBE_MS);
        }
    }

    /// Whether the newest lives ended right after their start.
    pub(crate) fn broken(&self) -> bool {
        self.fast_exits >= FAST_EXITS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crash_loop_opens_circuit_with_backoff() {
        let mut supervisor = Supervisor::new(5);
        let mut now = 0;
        for pause in [60_000, 120_000, 240_000] {
            for _ in 0..5 {
                assert_eq!(supervisor.ask(now), Permit::Go);
                now += 3_000;
                supervisor.ended(3_000, now);
            }
            assert_eq!(
                supervisor.ask(now),
                Permit::Cooling {
                    until_ms: now + pause
                }
            );
            now += pause;
        }
    }

    #[test]
    fn fast_exits_mean_broken_until_stable_run() {
        let mut supervisor = Supervisor::new(5);
        assert_eq!(supervisor.ask(0), Permit::Go);
        supervisor.ended(100, 100);
        assert_eq!(supervisor.ask(200), Permit::Go);
        supervisor.ended(100, 300);
        assert!(supervisor.broken());
        assert_eq!(supervisor.ask(400), Permit::Broken { until_ms: 15_300 });
        assert_eq!(supervisor.ask(15_300), Permit::Go);
        supervisor.ended(5_000, 20_300);
        assert!(!supervisor.broken());
    }

    #[test]
    fn crashes_far_apart_never_open_it() {
        let mut supervisor = Supervisor::new(5);
        for n in 0..100 {
            assert_eq!(supervisor.ask(n * 20_000), Permit::Go);
            supervisor.ended(19_000, (n + 1) * 20_000);
        }
    }
}
