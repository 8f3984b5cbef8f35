//! The memory of a Codex and its threads: what it has, what it may have, and which threads are let go of for that.
//!
//! Codex keeps the pages of a thread that it let go of, and uses them for the next one: its resident memory follows the
//! most threads that were loaded at once. So room is made before the budget is reached, one thread for each that is
//! loaded; what is beyond the budget goes with the process, which is started anew when it has nothing loaded any more
//! (ADR 0086).

use crate::app_server::Session;
use crate::locked;
use crate::process::resident::Resident;
use crate::thread::release;
use bridge_core::value::{Class, IncarnationId};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// How long a reading of the memory counts.
const READ_EVERY: Duration = Duration::from_millis(500);
/// How often threads are looked at that nobody needed for long.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Threads that nobody needed for so long are let go of whatever the memory: as long as Codex itself keeps one without a
/// subscriber.
const IDLE_MAX: Duration = Duration::from_secs(30 * 60);
/// How long a thread is left alone that could not be let go of, because a command of it runs in the background, say.
const HELD_PAUSE: Duration = Duration::from_secs(60);
/// Threads that are tried before the others wait for the next time.
const TRIES_MAX: usize = 16;
/// A Codex younger than this is not replaced: a new one would need as much.
const RENEW_AGE: Duration = Duration::from_secs(10 * 60);

/// The memory of one Codex.
#[derive(Debug, Default)]
pub(crate) struct ThreadMemory {
    /// In bytes; without it threads go by their age alone.
    budget: Option<u64>,
    read: Mutex<Option<(Instant, Resident)>>,
    /// Threads that were loaded since room was made last.
    grown: AtomicU64,
    /// Wakes who makes room.
    growing: Notify,
    resumed: AtomicU64,
    released: AtomicU64,
    /// Makes room in the process that takes new turns. What a draining one has loaded ends with it.
    room: Mutex<Option<(IncarnationId, AbortOnDropHandle<()>)>>,
}

/// The memory of a Codex, for people and for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodexMemory {
    /// What it and its children have, in bytes; absent where none runs.
    pub resident: Option<u64>,
    /// What they may have; absent without a budget.
    pub budget: Option<u64>,
    pub threads_loaded: u64,
    /// Threads that were loaded again for a message, since the start of the daemon.
    pub threads_resumed: u64,
    /// Threads that were let go of.
    pub threads_released: u64,
}

impl CodexMemory {
    /// The sum of two.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        let sum = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
        Self {
            resident: sum(self.resident, other.resident),
            budget: sum(self.budget, other.budget),
            threads_loaded: self.threads_loaded.saturating_add(other.threads_loaded),
            threads_resumed: self.threads_resumed.saturating_add(other.threads_resumed),
            threads_released: self.threads_released.saturating_add(other.threads_released),
        }
    }
}

/// How full the budget is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pressure {
    None,
    /// One goes for one that comes.
    High,
    /// Two go for one, and it waits for the first.
    Higher,
    /// All go that can.
    Highest,
}

impl Pressure {
    /// Far below the budget, because turns need memory while they run, and threads are loaded faster than others go.
    fn of(resident: u64, budget: u64) -> Self {
        match resident.saturating_mul(100) {
            full if full >= budget.saturating_mul(95) => Self::Highest,
            full if full >= budget.saturating_mul(85) => Self::Higher,
            full if full >= budget.saturating_mul(70) => Self::High,
            _ => Self::None,
        }
    }

    /// How many threads are let go of after so many were loaded.
    fn surplus(self, loaded: u64) -> usize {
        let surplus = match self {
            Self::None => 0,
            Self::High => loaded,
            Self::Higher => loaded.saturating_mul(2),
            Self::Highest => return TRIES_MAX,
        };
        usize::try_from(surplus).unwrap_or(TRIES_MAX).min(TRIES_MAX)
    }
}

impl ThreadMemory {
    pub(crate) fn new(budget: Option<u64>) -> Self {
        Self {
            budget,
            ..Self::default()
        }
    }

    /// What is known of it without asking anybody.
    pub(crate) fn view(&self, session: Option<&Session>) -> CodexMemory {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let read = *locked(&self.read);
        let threads_loaded = session.map_or(0, |session| session.connection.threads.count());
        CodexMemory {
            resident: read
                .filter(|_| session.is_some())
                .map(|(_, resident)| resident.total()),
            budget: self.budget,
            threads_loaded: u64::try_from(threads_loaded).unwrap_or(u64::MAX),
            threads_resumed: count(&self.resumed),
            threads_released: count(&self.released),
        }
    }

    /// Before a thread is loaded. Usually room was made already; where the budget is nearly used up, the load waits for it.
    pub(crate) async fn admit(&self, session: &Session) {
        self.grown.fetch_add(1, Ordering::Relaxed);
        if self.pressure(session).await >= Pressure::Higher {
            self.release_oldest(session, Duration::ZERO).await;
        }
        self.growing.notify_one();
    }

    /// A thread that was loaded before was loaded again.
    pub(crate) fn resumed(&self) {
        self.resumed.fetch_add(1, Ordering::Relaxed);
    }

    /// Makes room as threads are loaded, until the session is gone.
    async fn keep_room(self: Arc<Self>, session: Weak<Session>) {
        let mut look = Instant::now();
        // Threads that have yet to go, because all that were loaded had turns.
        let mut owed = 0;
        loop {
            {
                let session = session.upgrade();
                let Some(session) = session.filter(|session| session.connection.is_open()) else {
                    return;
                };
                owed = self.make_room(&session, owed).await;
                if look.elapsed() >= LOOK_EVERY {
                    look = Instant::now();
                    self.make_look(&session).await;
                }
            }
            let pause = if owed > 0 { READ_EVERY } else { LOOK_EVERY };
            // The end of a pause is as good as a call.
            let _quiet = tokio::time::timeout(pause, self.growing.notified()).await;
        }
    }

    /// Gives how many threads have yet to go.
    async fn make_room(&self, session: &Session, owed: usize) -> usize {
        let loaded = self.grown.swap(0, Ordering::Relaxed);
        let pressure = self.pressure(session).await;
        if pressure == Pressure::None {
            return 0;
        }
        let owed = owed.saturating_add(pressure.surplus(loaded));
        let mut owed = owed.min(session.connection.threads.known());
        while owed > 0 && self.release_oldest(session, Duration::ZERO).await {
            owed = owed.saturating_sub(1);
        }
        owed
    }

    async fn make_look(&self, session: &Session) {
        while self.release_oldest(session, IDLE_MAX).await {}
    }

    /// Lets go of the thread that nobody needed for the longest time; `false` where there is none that can be.
    async fn release_oldest(&self, session: &Session, idle: Duration) -> bool {
        let connection = &session.connection;
        for _ in 0..TRIES_MAX {
            let followed = |thread: &_| connection.router.has(thread);
            // What an earlier daemon left has no subscriber, so Codex looks after its age itself.
            let left_over = match idle.is_zero() {
                true => connection.threads.left_over(followed),
                false => None,
            };
            if let Some(left) = &left_over
                && release::is_agents(session, left.thread()).await
            {
                continue;
            }
            let oldest =
                left_over.or_else(|| connection.threads.least_recently_used(idle, followed));
            let Some(oldest) = oldest else {
                return false;
            };
            let thread = oldest.thread();
            if release::runs_commands(session, thread).await {
                connection.threads.keep(thread, HELD_PAUSE);
                continue;
            }
            match release::release(session, thread).await {
                Ok(()) => {
                    self.released.fetch_add(1, Ordering::Relaxed);
                    tracing::debug!(%thread, "an idle thread was let go of");
                    return true;
                }
                Err(error) => {
                    connection.threads.keep(thread, HELD_PAUSE);
                    let held = matches!(error.failure.class, Class::Capacity { .. });
                    if !held {
                        tracing::warn!(%thread, %error, "an idle thread could not be let go of");
                    }
                }
            }
        }
        false
    }

    /// Whether this Codex has more than its budget and nothing that it could let go of: a new one needs less.
    pub(crate) fn wants_renewal(&self, session: &Session, age: Duration) -> bool {
        let (Some(budget), Some((_, resident))) = (self.budget, *locked(&self.read)) else {
            return false;
        };
        let connection = &session.connection;
        resident.codex >= budget
            && age >= RENEW_AGE
            && connection.threads.count() == 0
            && connection.router.is_empty()
    }

    /// From now on this process takes new turns, and room is made in it.
    pub(crate) fn serve(self: &Arc<Self>, session: &Arc<Session>) {
        let id = &session.incarnation.incarnation_id;
        let mut room = locked(&self.room);
        if room.as_ref().is_some_and(|(of, _)| of == id) {
            return;
        }
        *locked(&self.read) = None;
        self.grown.store(0, Ordering::Relaxed);
        let keep = Arc::clone(self).keep_room(Arc::downgrade(session));
        *room = Some((id.clone(), AbortOnDropHandle::new(tokio::spawn(keep))));
    }

    async fn pressure(&self, session: &Session) -> Pressure {
        let Some(budget) = self.budget else {
            self.resident(session).await;
            return Pressure::None;
        };
        match self.resident(session).await {
            Some(resident) => Pressure::of(resident.total(), budget),
            None => Pressure::None,
        }
    }

    async fn resident(&self, session: &Session) -> Option<Resident> {
        if let Some((at, resident)) = *locked(&self.read)
            && at.elapsed() < READ_EVERY
        {
            return Some(resident);
        }
        let keeper = session.incarnation.keeper.pid;
        let read = tokio::task::spawn_blocking(move || Resident::below(keeper));
        let resident = read.await.ok().flatten()?;
        *locked(&self.read) = Some((Instant::now(), resident));
        Some(resident)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_goes_the_fuller_the_budget() {
        const MIB: u64 = 1024 * 1024;
        for (resident, goes) in [
            (0, 0),
            (279, 0),
            (280, 3),
            (339, 3),
            (340, 6),
            (380, TRIES_MAX),
        ] {
            let pressure = Pressure::of(resident * MIB, 400 * MIB);
            assert_eq!(pressure.surplus(3), goes, "{resident} MiB");
        }
        assert_eq!(Pressure::High.surplus(u64::MAX), TRIES_MAX);
        assert_eq!(Pressure::of(1, 0), Pressure::Highest);
    }
}
