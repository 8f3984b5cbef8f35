//! Deadlines that can't overflow: adding a duration to a point in time panics when the sum does not fit, and durations
//! come from flags, files and other machines.

use std::ops::Add;
use std::time::Duration;

/// Stands for a wait that a clock may not be able to count: longer than any process lives, and every clock has it.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// The time `wait` after `start`, on whichever clock `start` was read; a wait that is too long for one never ends.
#[allow(
    clippy::arithmetic_side_effects,
    reason = "the one place where a point in time and a bounded wait are added"
)]
pub fn after<I>(start: I, wait: Duration) -> I
where
    I: Add<Duration, Output = I>,
{
    start + wait.min(FOREVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f10_a_deadline_never_overflows() {
        let start = Duration::from_secs(7);
        assert_eq!(
            after(start, Duration::from_secs(5)),
            Duration::from_secs(12)
        );
        for huge in [Duration::MAX, Duration::from_secs(u64::MAX)] {
            assert_eq!(after(start, huge), start + FOREVER);
        }
    }
}
