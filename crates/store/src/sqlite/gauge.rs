//! LedgerHealth of the ledger: free disk space, duration of commits, size of the log, soundness of the file.
//!
//! It is cheap enough to be asked before every message. It reports pressure; the caller refuses intake.

use super::check::Soundness;
use super::files::log_of;
use bridge_core::port::{LedgerError, RowsError};
use nix::sys::statvfs::statvfs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The reserve is never more than this part of a disk, so that a small one can be used at all.
const DISK_LOW_PART: u64 = 10;

/// Limits beyond which nothing more should be taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Room that is kept for the answers of messages that were taken in already. On a small disk it is a tenth of it.
    pub disk_low_bytes: u64,
    /// A commit that takes longer than this is slow.
    pub slow_commit: Duration,
    /// How long after a slow commit nothing is taken in.
    pub slow_pause: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            disk_low_bytes: 64 * 1024 * 1024,
            slow_commit: Duration::from_secs(1),
            slow_pause: Duration::from_secs(5),
        }
    }
}

/// Why nothing more should be taken in now; the text is shown to the sender.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Pressure {
    /// The disk is nearly full.
    #[error("the disk of the database has only {} KiB left, and {} KiB are kept for messages that are being answered; nothing was stored. Make room, then send it again", free_bytes / 1024, low_bytes / 1024)]
    DiskLow {
        /// Free space.
        free_bytes: u64,
        /// What must be left.
        low_bytes: u64,
    },
    /// Commits take too long.
    #[error("the database is slow now (a commit takes {} ms and more); nothing was stored, send it again later", took.as_millis())]
    Slow {
        /// How long the newest slow commit took, or takes so far.
        took: Duration,
        /// When to ask again.
        retry_after: Duration,
    },
    /// The file is damaged.
    #[error(
        "the database is damaged ({why}); nothing was stored. Stop the daemon and run `codex-bridge recover`"
    )]
    Damaged {
        /// What was found.
        why: String,
    },
}

/// Soundness of the whole file, as far as it was checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LedgerHealth {
    /// It opened, and was not looked at since.
    #[default]
    Unchecked,
    /// It was checked and is sound.
    Sound,
    /// Something is wrong with it.
    Damaged {
        /// What was found.
        why: String,
    },
}

/// Figures for people who look after the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vitals {
    /// Room on its disk; absent if the system does not tell.
    pub free_bytes: Option<u64>,
    /// Below this nothing more is taken in.
    pub low_bytes: u64,
    /// Size of the log that waits to be moved into the database.
    pub log_bytes: u64,
    /// How long the newest commit took.
    pub last_commit: Option<Duration>,
    /// Whether the file is sound.
    pub health: LedgerHealth,
}

/// The gauge of one open ledger. Handles share it.
#[derive(Clone, Debug)]
pub struct Gauge {
    shared: Arc<GaugeState>,
}

#[derive(Debug)]
struct GaugeState {
    /// Absent where the ledger is on another program's disk.
    path: Option<PathBuf>,
    limits: Limits,
    commit_times: Mutex<CommitTimes>,
    health: watch::Sender<LedgerHealth>,
}

impl Gauge {
    pub(super) fn new(path: &Path, limits: Limits) -> Self {
        Self::of(Some(path.to_owned()), limits)
    }

    /// Of a ledger without a file of ours.
    pub(crate) fn without_file(limits: Limits) -> Self {
        Self::of(None, limits)
    }

    fn of(path: Option<PathBuf>, limits: Limits) -> Self {
        Self {
            shared: Arc::new(GaugeState {
                path,
                limits,
                commit_times: Mutex::default(),
                health: watch::Sender::default(),
            }),
        }
    }

    /// Whether one more message should be taken in.
    pub fn admit(&self) -> Result<(), Pressure> {
        if let LedgerHealth::Damaged { why } = &*self.shared.health.borrow() {
            return Err(Pressure::Damaged { why: why.clone() });
        }
        let (free_bytes, low_bytes) = self.room();
        if let Some(free_bytes) = free_bytes.filter(|free| *free < low_bytes) {
            return Err(Pressure::DiskLow {
                free_bytes,
                low_bytes,
            });
        }
        match self
            .commit_times()
            .slow(Instant::now(), &self.shared.limits)
        {
            Some(took) => Err(Pressure::Slow {
                took,
                retry_after: self.shared.limits.slow_pause,
            }),
            None => Ok(()),
        }
    }

    /// All figures.
    #[must_use]
    pub fn vitals(&self) -> Vitals {
        let (free_bytes, low_bytes) = self.room();
        let log = self.shared.path.as_deref().map(log_of);
        let log = log.and_then(|log| std::fs::metadata(log).ok());
        Vitals {
            free_bytes,
            low_bytes,
            log_bytes: log.map_or(0, |log| log.len()),
            last_commit: self.commit_times().last,
            health: self.shared.health.borrow().clone(),
        }
    }

    /// Resolves when the file is known to be damaged, and says how.
    pub async fn damaged(&self) -> String {
        let mut health = self.shared.health.subscribe();
        loop {
            if let LedgerHealth::Damaged { why } = &*health.borrow_and_update() {
                return why.clone();
            }
            if health.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// The outcome of a check of the whole file. A damaged file stays damaged.
    pub(super) fn checked(&self, found: &Soundness) {
        match found {
            Soundness::Damaged { findings } => self.damage(&findings.join("; ")),
            Soundness::Sound => {
                self.shared.health.send_if_modified(|health| {
                    let first = *health == LedgerHealth::Unchecked;
                    if first {
                        *health = LedgerHealth::Sound;
                    }
                    first
                });
            }
        }
    }

    /// Records the error of a read or a write: damage is often met before a check finds it. A row that this program does
    /// not understand is none: the file does what it should.
    pub(crate) fn observe(&self, error: &LedgerError) {
        match error {
            LedgerError::Rows(RowsError::Damaged { what, why }) => {
                self.damage(&format!("{what}: {why}"));
            }
            LedgerError::Rows(
                RowsError::Conflict { .. }
                | RowsError::Unreadable { .. }
                | RowsError::Backend { .. },
            )
            | LedgerError::Refused(_)
            | LedgerError::Fenced { .. }
            | LedgerError::Unavailable { .. } => {}
        }
    }

    fn damage(&self, why: &str) {
        self.shared.health.send_if_modified(|health| {
            let first = !matches!(health, LedgerHealth::Damaged { .. });
            if first {
                tracing::error!(why, "the database is damaged");
                *health = LedgerHealth::Damaged {
                    why: why.to_owned(),
                };
            }
            first
        });
    }

    pub(crate) fn commit_begins(&self) {
        self.commit_times().running_since = Some(Instant::now());
    }

    pub(crate) fn commit_ended(&self) {
        let limits = self.shared.limits;
        self.commit_times().ended(Instant::now(), &limits);
    }

    fn room(&self) -> (Option<u64>, u64) {
        let disk_low = self.shared.limits.disk_low_bytes;
        let Some(path) = &self.shared.path else {
            return (None, disk_low);
        };
        let directory = path.parent().filter(|at| !at.as_os_str().is_empty());
        match statvfs(directory.unwrap_or(Path::new("."))) {
            Ok(disk) => {
                let size = disk.blocks().saturating_mul(disk.fragment_size());
                let free = disk.blocks_available().saturating_mul(disk.fragment_size());
                (Some(free), disk_low.min(size / DISK_LOW_PART))
            }
            Err(_) => (None, disk_low),
        }
    }

    fn commit_times(&self) -> std::sync::MutexGuard<'_, CommitTimes> {
        let commit_times = self.shared.commit_times.lock();
        commit_times.unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long commits take.
#[derive(Debug, Default)]
struct CommitTimes {
    running_since: Option<Instant>,
    last: Option<Duration>,
    /// The newest slow one: when it ended and how long it took.
    slow: Option<(Instant, Duration)>,
}

impl CommitTimes {
    fn ended(&mut self, now: Instant, limits: &Limits) {
        let Some(began) = self.running_since.take() else {
            return;
        };
        let took = now.saturating_duration_since(began);
        self.last = Some(took);
        if took > limits.slow_commit {
            self.slow = Some((now, took));
        }
    }

    /// How long the newest slow commit took, while it counts.
    fn slow(&self, now: Instant, limits: &Limits) -> Option<Duration> {
        let running = self
            .running_since
            .map(|began| now.saturating_duration_since(began));
        let recent = self.slow.and_then(|(ended, took)| {
            let since = now.saturating_duration_since(ended);
            (since < limits.slow_pause).then_some(took)
        });
        running.filter(|took| *took > limits.slow_commit).or(recent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s10_slow_commit_closes_admission_temporarily() {
        let limits = Limits::default();
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let mut commit_times = CommitTimes::default();
        assert_eq!(commit_times.slow(start, &limits), None);
        commit_times.running_since = Some(start);
        assert_eq!(commit_times.slow(after(1_000), &limits), None);
        assert!(commit_times.slow(after(1_001), &limits).is_some());
        commit_times.ended(after(2_000), &limits);
        assert_eq!(commit_times.last, Some(Duration::from_secs(2)));
        assert_eq!(
            commit_times.slow(after(6_999), &limits),
            Some(Duration::from_secs(2))
        );
        assert_eq!(commit_times.slow(after(7_000), &limits), None);
        commit_times.running_since = Some(after(7_000));
        commit_times.ended(after(7_010), &limits);
        assert_eq!(commit_times.slow(after(7_011), &limits), None);
    }

    #[tokio::test]
    async fn damage_is_told_and_stays() {
        let directory = tempfile::tempdir().unwrap();
        let gauge = Gauge::new(&directory.path().join("ledger.db"), Limits::default());
        assert_eq!(gauge.admit(), Ok(()));
        gauge.checked(&Soundness::Sound);
        assert_eq!(gauge.vitals().health, LedgerHealth::Sound);
        gauge.observe(&LedgerError::Rows(RowsError::Unreadable {
            what: "message m0".to_owned(),
            why: "unknown word".to_owned(),
        }));
        assert_eq!(gauge.admit(), Ok(()), "one row is not the file");
        gauge.observe(&LedgerError::Rows(RowsError::Damaged {
            what: "message m1".to_owned(),
            why: "its text is another".to_owned(),
        }));
        assert_eq!(gauge.damaged().await, "message m1: its text is another");
        gauge.checked(&Soundness::Sound);
        assert!(matches!(gauge.admit(), Err(Pressure::Damaged { .. })));
    }
}
