//! How many bytes a sender may store within a day. Pure; what it stored is counted by the hour, in rows of its own that
//! the transitions write, so that one look at most reads one day of hours, whatever the sender sent.

use crate::limits;
use crate::value::Timestamp;

/// What may be stored for one sender, as the door found it when the message came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StorageBudget {
    /// So many bytes within a day; absent for those who may store what they like.
    pub bytes_per_day: Option<u64>,
    /// A message beyond it can be refused. A row of a feed can't: it is kept as an excerpt.
    pub refusable: bool,
    /// Bytes that are stored beside the text and the files.
    pub beside: u64,
}

/// What a sender stored within one hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredHour {
    /// When the hour began.
    pub hour: Timestamp,
    pub bytes: u64,
}

/// A message that its sender's budget has no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.words())]
pub struct OverBudget {
    /// What may be stored within a day.
    pub bytes_per_day: u64,
    /// When there is room for it; never, if it alone is larger.
    pub until: Option<Timestamp>,
}

impl OverBudget {
    fn words(&self) -> String {
        let max = self.bytes_per_day;
        match self.until {
            Some(until) => format!(
                "its sender has used up its {max} bytes for 24 hours (`bytes_per_day`); there is room for it at {}",
                until.utc()
            ),
            None => format!(
                "it is larger than the {max} bytes that its sender may store within 24 hours (`bytes_per_day`)"
            ),
        }
    }
}

impl StorageBudget {
    /// Whether so many bytes more are too many at `now`, after what was stored in these hours, oldest first.
    #[must_use]
    pub fn over(&self, stored: &[StoredHour], bytes: u64, now: Timestamp) -> Option<OverBudget> {
        let max = self.bytes_per_day?;
        let counted = || {
            let counts = |hour: &&StoredHour| hour.hour >= counted_from(now);
            stored.iter().filter(counts)
        };
        let mut sum = counted().fold(bytes, |sum, hour| sum.saturating_add(hour.bytes));
        if sum <= max {
            return None;
        }
        let until = counted().find_map(|hour| {
            sum = sum.saturating_sub(hour.bytes);
            (sum <= max).then(|| forgotten(hour.hour))
        });
        Some(OverBudget {
            bytes_per_day: max,
            until,
        })
    }
}

/// The hour that a time is in.
#[must_use]
pub fn hour_of(at: Timestamp) -> Timestamp {
    Timestamp(at.0.saturating_sub(at.0.rem_euclid(limits::STORED_HOUR_MS)))
}

/// The first hour that still counts.
#[must_use]
pub fn counted_from(now: Timestamp) -> Timestamp {
    hour_of(now.plus_ms(-limits::BUDGET_WINDOW_MS))
}

/// When an hour does not count any more.
fn forgotten(hour: Timestamp) -> Timestamp {
    hour.plus_ms(limits::STORED_HOUR_MS)
        .plus_ms(limits::BUDGET_WINDOW_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = limits::STORED_HOUR_MS;

    #[test]
    fn f4_room_comes_when_enough_is_forgotten() {
        let stored = [(1, 40), (2, 30), (3, 20)].map(|(hour, bytes)| StoredHour {
            hour: Timestamp(hour * HOUR),
            bytes,
        });
        let budget = StorageBudget {
            bytes_per_day: Some(100),
            ..StorageBudget::default()
        };
        let until = |bytes| {
            let over = budget.over(&stored, bytes, Timestamp(4 * HOUR));
            over.map(|over| over.until.map(|until| until.0 / HOUR))
        };
        assert_eq!(until(10), None);
        assert_eq!(until(11), Some(Some(26)));
        assert_eq!(until(51), Some(Some(27)));
        assert_eq!(until(100), Some(Some(28)));
        assert_eq!(until(101), Some(None));
        assert_eq!(until(u64::MAX), Some(None));
        let now = Timestamp(4 * HOUR);
        assert_eq!(StorageBudget::default().over(&stored, u64::MAX, now), None);
        let later = Timestamp(27 * HOUR);
        assert_eq!(
            budget.over(&stored, 80, later),
            None,
            "two hours are forgotten"
        );
    }

    #[test]
    fn f4_an_hour_counts_for_a_day() {
        let hour = Timestamp(100 * HOUR);
        assert_eq!(hour_of(Timestamp(101 * HOUR - 1)), hour);
        let counts = |now: i64| hour >= counted_from(Timestamp(now));
        assert!(counts(125 * HOUR - 1));
        assert!(!counts(125 * HOUR));
        assert_eq!(forgotten(hour), Timestamp(125 * HOUR));
    }
}
