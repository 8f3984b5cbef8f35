//! The keeper's lease: how long Codex may live without word from its daemon.
//!
//! On a fleet another node may take a conversation over once this node's lease has ended, so Codex must be gone by then,
//! also when the daemon is frozen, dead or cut off from the database. The end is a point of the machine's clock and not
//! a number of seconds: a line that was long under way, or a reader that was frozen, would add its delay to those.
//! CLOCK_BOOTTIME, because it goes on while the machine sleeps, as the database's clock does.

use super::{KeeperAttachment, KeeperEvent, codex};
use crate::locked;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

/// How far ahead the end of a lease may be; more is a mistake, and Codex would outlive its node.
const LEASE_MAX: Duration = Duration::from_secs(3600);
/// How often a keeper that has just been started is tried until its socket is there.
const ATTACH_PAUSE: Duration = Duration::from_millis(10);
/// Name of the file that says that the lease had ended.
const ENDED_FILE: &str = "lease-ended";
/// What it says, and what is reported of such an end.
pub(crate) const ENDED: &str = "the lease of this node ended unrenewed (the daemon was frozen, dead or cut off from the database), so its keeper ended Codex with everything it had started";

/// A point of the clock that runs from the start of the machine, also while it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootInstant(Duration);

impl BootInstant {
    /// The present. Take it *before* the database is asked for a lease: what follows can only be later.
    #[must_use]
    pub fn now() -> Self {
        let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME);
        // Without a clock every lease is over.
        Self(now.map_or(Duration::MAX, Duration::from))
    }

    /// So much later.
    #[must_use]
    pub fn plus(self, later: Duration) -> Self {
        Self(self.0.saturating_add(later))
    }

    /// Whether this point is not ahead any more.
    #[must_use]
    pub fn is_past(self) -> bool {
        self <= Self::now()
    }

    /// As the keeper's command line and socket have it.
    #[must_use]
    pub fn as_millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }

    /// The reverse of [`Self::as_millis`].
    #[must_use]
    pub fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }
}

/// The daemon's end of the leases of all its keepers: one value that each of them is sent.
#[derive(Clone, Debug)]
pub struct KeeperLease {
    until: watch::Sender<BootInstant>,
}

impl KeeperLease {
    /// A lease until then.
    #[must_use]
    pub fn new(until: BootInstant) -> Self {
        Self {
            until: watch::Sender::new(until),
        }
    }

    /// Lets every Codex live until then. An earlier end than the present one changes nothing.
    pub fn renew(&self, until: BootInstant) {
        self.until.send_if_modified(|present| {
            let is_later = *present < until;
            *present = until.max(*present);
            is_later
        });
    }

    /// Its present end.
    #[must_use]
    pub fn until(&self) -> BootInstant {
        *self.until.borrow()
    }

    /// Tells a keeper every new end, until that keeper is gone or this daemon is.
    pub(crate) fn follow(&self, directory: PathBuf) {
        let mut until = self.until.subscribe();
        tokio::spawn(async move {
            let Some(mut keeper) = attach(&directory, &until).await else {
                return;
            };
            loop {
                let newest = *until.borrow_and_update();
                if let Err(error) = keeper.renew(newest).await {
                    tracing::debug!(%error, directory = %directory.display(), "a keeper was not sent a new lease");
                    return;
                }
                tokio::select! {
                    changed = until.changed() => if changed.is_err() { return },
                    () = keeper.gone() => return,
                }
            }
        });
    }
}

/// Attaches to a keeper that may not listen yet; `None` when it does not before the lease is over.
async fn attach(
    directory: &Path,
    until: &watch::Receiver<BootInstant>,
) -> Option<KeeperAttachment> {
    loop {
        if let Ok(keeper) = super::attach(directory).await {
            return Some(keeper);
        }
        let is_over = until.borrow().is_past();
        if is_over || !directory.is_dir() {
            return None;
        }
        tokio::time::sleep(ATTACH_PAUSE).await;
    }
}

/// The keeper's end.
pub(super) struct Lease {
    until: Mutex<BootInstant>,
    timer: TimerFd,
    ended: AtomicBool,
}

impl Lease {
    pub(super) fn begin(until: BootInstant) -> io::Result<Self> {
        let timer = TimerFd::new(ClockId::CLOCK_BOOTTIME, TimerFlags::TFD_CLOEXEC)?;
        let lease = Self {
            until: Mutex::new(until),
            timer,
            ended: AtomicBool::new(false),
        };
        lease.arm(until)?;
        Ok(lease)
    }

    /// Whether it ends later now. One that is over stays over: a renewal may have waited for us while we were frozen.
    pub(super) fn renew(&self, until: BootInstant) -> bool {
        let mut present = locked(&self.until);
        let now = BootInstant::now();
        if *present <= now || now.plus(LEASE_MAX) < until {
            return false;
        }
        let until = until.max(*present);
        if self.arm(until).is_err() {
            return false;
        }
        *present = until;
        true
    }

    fn arm(&self, until: BootInstant) -> io::Result<()> {
        // A time of zero would switch the timer off.
        let at = until.0.clamp(
            Duration::from_nanos(1),
            Duration::from_secs(u64::from(u32::MAX)),
        );
        let at = Expiration::OneShot(TimeSpec::from_duration(at));
        Ok(self.timer.set(at, TimerSetTimeFlags::TFD_TIMER_ABSTIME)?)
    }

    fn is_over(&self) -> bool {
        locked(&self.until).is_past()
    }

    /// Waits for its end. A clock that fails is an end too.
    fn wait(&self) {
        while self.timer.wait().is_ok() && !self.is_over() {}
    }

    /// Ends Codex when the lease does, on a thread of its own: nothing else that the keeper does may be in its way.
    pub(super) fn watch(self: &Arc<Self>, codex_pid: i32, events: SyncSender<KeeperEvent>) {
        let lease = Arc::clone(self);
        std::thread::spawn(move || {
            lease.wait();
            // At once: what it did from now on, nobody would accept, and its commands would go on doing.
            lease.ended.store(true, Ordering::Release);
            codex::kill_all(codex_pid);
            // A closed inbox means the keeper is past caring.
            let _closed = events.send(KeeperEvent::LeaseEnded);
        });
    }

    /// Leaves word for the daemon, when it was the lease that ended Codex.
    pub(super) fn leave_word(&self, directory: &Path) {
        if self.ended.load(Ordering::Acquire) {
            // On a full disk the daemon sees that Codex ended, and not why.
            let _full = std::fs::write(directory.join(ENDED_FILE), ENDED);
        }
    }
}

/// Why the Codex of this directory ended, if it was the lease.
pub(crate) fn ended(directory: &Path) -> Option<&'static str> {
    directory.join(ENDED_FILE).is_file().then_some(ENDED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ahead(seconds: u64) -> BootInstant {
        BootInstant::now().plus(Duration::from_secs(seconds))
    }

    #[test]
    fn lease_over_is_not_renewed() {
        let lease = Lease::begin(BootInstant::now()).unwrap();
        lease.wait();
        assert!(!lease.renew(ahead(60)));
        assert!(lease.is_over());
    }

    #[test]
    fn lease_only_grows() {
        let lease = Lease::begin(ahead(60)).unwrap();
        let later = ahead(120);
        assert!(lease.renew(later));
        assert!(lease.renew(ahead(1)), "it is alive");
        assert_eq!(*locked(&lease.until), later);
        assert!(!lease.renew(ahead(2 * LEASE_MAX.as_secs())), "a mistake");
        assert_eq!(*locked(&lease.until), later);
        let ours = KeeperLease::new(later);
        ours.renew(ahead(1));
        assert_eq!(ours.until(), later);
        let latest = ahead(180);
        ours.renew(latest);
        assert_eq!(ours.until(), latest);
    }

    #[test]
    fn boot_instant_survives_its_text() {
        let until = BootInstant::from_millis(1234);
        assert_eq!(BootInstant::from_millis(until.as_millis()), until);
        assert!(until < BootInstant::now() && until.is_past());
    }
}
