//! Time as the core sees it: milliseconds that somebody else read from a clock.
//!
//! No clock here, ever; durations are plain `i64` milliseconds.

/// Milliseconds since the Unix epoch.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// This instant moved by `ms`, saturating at the ends of time.
    #[must_use]
    pub fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to this instant; negative when the clock went back.
    #[must_use]
    pub fn since_ms(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// For people: the minute in UTC, such as `2026-11-16 10:05 UTC`.
    #[must_use]
    pub fn utc(self) -> String {
        let minutes = self.0.div_euclid(60_000);
        let (days, minute) = (minutes.div_euclid(1_440), minutes.rem_euclid(1_440));
        // Days are counted from the first of March of year 0, so that a leap day is the last of its year.
        let days = days + 719_468;
        let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let leaps = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
        let year_of_era = (day_of_era - leaps) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted + 2) / 5 + 1;
        let month = if shifted < 10 {
            shifted + 3
        } else {
            shifted - 9
        };
        let year = era * 400 + year_of_era + i64::from(month <= 2);
        let (hour, minute) = (minute / 60, minute % 60);
        format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_is_told_in_utc() {
        for (ms, text) in [
            (0, "1970-01-01 00:00 UTC"),
            (-1, "1969-12-31 23:59 UTC"),
            (951_782_400_000, "2000-02-29 00:00 UTC"),
            (951_868_799_999, "2000-02-29 23:59 UTC"),
            (951_868_800_000, "2000-03-01 00:00 UTC"),
            (1_794_823_559_000, "2026-11-16 10:05 UTC"),
            (4_107_542_399_000, "2100-02-28 23:59 UTC"),
            (4_107_542_400_000, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(Timestamp(ms).utc(), text);
        }
    }
}
