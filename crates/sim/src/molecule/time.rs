//! The platform's clock: the wall clock, put forward by tests, and never showing the same microsecond twice.
//! Times travel as RFC 3339 with the zeros at the end of a fraction trimmed, which makes them unfit for comparing as text.

use std::time::Duration;

use jiff::Timestamp;

use crate::clock::now_us;

/// Microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Micros(pub(super) i64);

impl Micros {
    pub(super) fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(micros(span)))
    }

    pub(super) fn text(self) -> String {
        match Timestamp::from_microsecond(self.0) {
            Ok(time) => time.to_string(),
            Err(_) => Timestamp::UNIX_EPOCH.to_string(),
        }
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        let time: Timestamp = text.parse().ok()?;
        Some(Self(time.as_microsecond()))
    }
}

/// What time it is there.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// The time at which it stands; none when it goes with the wall clock.
    still: Option<i64>,
    ahead: i64,
    last: i64,
}

impl Clock {
    pub(super) fn new(stands_still: bool) -> Self {
        Self {
            still: stands_still.then(now_us),
            ..Self::default()
        }
    }

    pub(super) fn now(&self) -> Micros {
        let now = self.still.unwrap_or_else(now_us);
        Micros(now.saturating_add(self.ahead))
    }

    /// A time that nothing else got.
    pub(super) fn tick(&mut self) -> Micros {
        let now = self.now().0.max(self.last.saturating_add(1));
        self.last = now;
        Micros(now)
    }

    pub(super) fn advance(&mut self, span: Duration) {
        self.ahead = self.ahead.saturating_add(micros(span));
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trims_trailing_zeros_of_fractions() {
        let time = Micros::read("2026-11-15T20:00:13.572670Z").unwrap();
        assert_eq!(time.text(), "2026-11-15T20:00:13.57267Z");
        assert_eq!(Micros(time.0 - 572_670).text(), "2026-11-15T20:00:13Z");
    }

    #[test]
    fn clock_ticks_increase_and_advance() {
        let mut clock = Clock::default();
        let first = clock.tick();
        assert!((0..1_000).all(|_| clock.tick() > first));
        clock.advance(Duration::from_secs(90));
        assert!(clock.tick().before(Duration::from_secs(80)) > first);
        let mut still = Clock::new(true);
        let before = still.now();
        assert_eq!(still.now(), before);
        still.advance(Duration::from_micros(7));
        assert_eq!(still.now(), Micros(before.0 + 7));
    }
}
