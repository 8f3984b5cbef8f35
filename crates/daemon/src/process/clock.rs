//! The ledger's clock: the wall clock, or the database's, as it was at the start, moved on by a clock that never jumps.
//!
//! Due times are compared with it, so a wall clock that jumps neither expires everything at once nor makes due work
//! wait. It counts while the machine sleeps, and never goes behind a time that the ledger has already seen. A node of a
//! fleet goes by the database's clock.

use bridge_core::port::{Ledger, LedgerError};
use bridge_core::value::Timestamp;
#[cfg(not(test))]
use nix::time::{ClockId, clock_gettime};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Longest sleep of a loop that waits for something due.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// The database's clock is followed when it is so much ahead: answers of a busy server differ by less.
const BEHIND_MAX_MS: i64 = 250;

static CLOCK: OnceLock<LedgerClock> = OnceLock::new();
/// How far the clock was moved on since its start.
static MOVED_MS: AtomicI64 = AtomicI64::new(0);

/// A steady clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LedgerClock {
    /// The ledger's time at the start.
    base_ms: i64,
    /// The steady reading at the start.
    steady_ms: i64,
}

impl LedgerClock {
    /// Starts at that time, or where the ledger is when that clock went back since.
    fn start(present_ms: i64, newest: Option<Timestamp>, steady_ms: i64) -> Self {
        let base_ms = newest.map_or(present_ms, |newest| newest.0.max(present_ms));
        Self { base_ms, steady_ms }
    }

    /// A node of a fleet never looks at its machine's clock: one that is ahead would end what all nodes wait for, and be in
    /// every row.
    async fn of<L: Ledger>(ledger: &L, theirs: Option<Timestamp>) -> Result<Self, LedgerError> {
        let newest = ledger.read(|rows| rows.newest_time()).await?;
        let present_ms = theirs.map_or_else(wall_ms, |theirs| theirs.0);
        Ok(Self::start(present_ms, newest, steady_ms()))
    }

    fn at(self, steady_ms: i64) -> Timestamp {
        let gone = steady_ms.saturating_sub(self.steady_ms).max(0);
        Timestamp(self.base_ms.saturating_add(gone))
    }
}

/// Starts the clock: at the database's time where nodes share it, and not behind the newest time of the ledger.
pub(crate) async fn start<L: Ledger>(
    ledger: &L,
    theirs: Option<Timestamp>,
) -> Result<(), LedgerError> {
    let clock = LedgerClock::of(ledger, theirs).await?;
    CLOCK.get_or_init(|| clock);
    Ok(())
}

/// The time for the ledger.
pub(crate) fn now() -> Timestamp {
    CLOCK
        .get_or_init(|| LedgerClock::start(wall_ms(), None, steady_ms()))
        .at(steady_ms())
        .plus_ms(MOVED_MS.load(Ordering::Relaxed))
}

/// Goes on where the database's clock is. It is never moved back: what is due would come twice.
pub(crate) fn follow(theirs: Timestamp) {
    let behind = behind(now(), theirs);
    if behind > 0 {
        MOVED_MS.fetch_add(behind, Ordering::Relaxed);
    }
}

/// How far our clock must be moved on.
fn behind(ours: Timestamp, theirs: Timestamp) -> i64 {
    let behind = theirs.since_ms(ours);
    if behind > BEHIND_MAX_MS { behind } else { 0 }
}

/// Sleeps until this clock reaches `due`, for [`SLEEP_MAX`] at most: a wake-up may be lost, rows are not.
pub(crate) async fn until_due(due: Option<Timestamp>) {
    let ms = due.map(|due| u64::try_from(due.since_ms(now())).unwrap_or(0).max(1));
    let sleep = ms.map_or(SLEEP_MAX, Duration::from_millis);
    tokio::time::sleep(sleep.min(SLEEP_MAX)).await;
}

fn wall_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// In tests the steady clock is tokio's, which can be paused and moved.
#[cfg(test)]
fn steady_ms() -> i64 {
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    let start = *START.get_or_init(std::time::Instant::now);
    let gone = tokio::time::Instant::now()
        .into_std()
        .saturating_duration_since(start);
    i64::try_from(gone.as_millis()).unwrap_or(i64::MAX)
}

/// Milliseconds since the machine's boot, sleep included.
#[cfg(not(test))]
fn steady_ms() -> i64 {
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or_else(
        |_| wall_ms(),
        |time| {
            time.tv_sec()
                .saturating_mul(1000)
                .saturating_add(time.tv_nsec() / 1_000_000)
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_core::value::{NodeId, NodeInfo};
    use bridge_testkit::MemoryLedger;

    const HOUR_MS: i64 = 3_600_000;

    /// T1, T2: the wall clock is read once, so a jump while the daemon lives changes nothing.
    #[test]
    fn t1_t2_clock_ignores_wall_jumps() {
        let clock = LedgerClock::start(10 * HOUR_MS, None, 5_000);
        assert_eq!(clock.at(5_000), Timestamp(10 * HOUR_MS));
        assert_eq!(clock.at(6_500), Timestamp(10 * HOUR_MS + 1_500));
    }

    /// T2: a start with a wall clock that went back goes on where the ledger is.
    #[test]
    fn t2_clock_never_starts_behind_ledger() {
        let newest = Some(Timestamp(10 * HOUR_MS));
        let clock = LedgerClock::start(9 * HOUR_MS, newest, 0);
        assert_eq!(clock.at(1_000), Timestamp(10 * HOUR_MS + 1_000));
        let ahead = LedgerClock::start(11 * HOUR_MS, newest, 0);
        assert_eq!(ahead.at(0), Timestamp(11 * HOUR_MS));
    }

    /// T3: the machine slept eight hours; what was due meanwhile is due now.
    #[test]
    fn t3_sleep_counts() {
        let clock = LedgerClock::start(0, None, 1_000);
        assert_eq!(clock.at(1_000 + 8 * HOUR_MS), Timestamp(8 * HOUR_MS));
    }

    /// This machine's clock is years ahead of the database's.
    #[tokio::test]
    async fn nodes_ignore_their_machines_clock() {
        let single = MemoryLedger::new();
        single.set_clock(Timestamp(10 * HOUR_MS)).unwrap();
        let node = single.join(&NodeId::new("n"), NodeInfo::default(), HOUR_MS);
        let node = node.unwrap();
        let now = node.renew().await.unwrap().unwrap().now;
        let clock = LedgerClock::of(&node, Some(now)).await.unwrap();
        assert_eq!(clock.base_ms, 10 * HOUR_MS);
        let alone = LedgerClock::of(&single, None).await.unwrap();
        assert!(alone.base_ms > 1_700_000_000_000, "{alone:?}");
    }

    #[test]
    fn follows_the_database_forward_alone() {
        let ours = Timestamp(HOUR_MS);
        for (theirs, moved) in [(HOUR_MS, HOUR_MS), (100, 0), (-HOUR_MS, 0)] {
            assert_eq!(behind(ours, ours.plus_ms(theirs)), moved, "{theirs}");
        }
    }

    #[test]
    fn the_real_clock_moves_on() {
        let first = now();
        assert!(first.0 > 1_700_000_000_000, "{first:?}");
        assert!(now() >= first);
    }
}
