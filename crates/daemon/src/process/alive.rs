//! The daemon's own heartbeat for a service manager: it is fed while the loop that everything hangs on moves.
//!
//! What is told over the socket, and whether anybody listens, is in [`crate::notify`].

use crate::Daemon;
use crate::notify::Notifier;
use bridge_core::port::{Agent, Ledger, Sink};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

/// Counts the scheduler's rounds. Each of them commits through the ledger's writer, so a count that moves says that
/// the scheduler, the writer and the runtime's timers live.
#[derive(Debug, Default)]
pub(crate) struct Pulse(AtomicU64);

impl Pulse {
    pub(crate) fn round(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn rounds(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Tells the service manager that the daemon lives, until it is dropped; at once where nobody asked for it.
    pub(crate) async fn keep_alive(self: Arc<Self>, notifier: Notifier) {
        let Some(every) = notifier.beat() else { return };
        let mut tick = tokio::time::interval(every);
        // Beats that were missed are not made up for: they would hide that they were missed.
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut seen = None;
        loop {
            tick.tick().await;
            let rounds = self.pulse.rounds();
            if self.scheduler_rests() || seen != Some(rounds) {
                notifier.alive();
                notifier.status(&self.in_a_line());
            } else {
                tracing::error!(
                    seconds = every.as_secs(),
                    "the scheduler does not move; the service manager is not told that the daemon lives"
                );
            }
            seen = Some(rounds);
            self.wake.notify_one();
        }
    }

    /// Whether the scheduler has ended because it should: a stop lets turns finish, a damaged ledger is only read.
    fn scheduler_rests(&self) -> bool {
        self.stopping.is_cancelled() || self.damaged.is_cancelled()
    }

    fn in_a_line(&self) -> String {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let turns = running.len();
        drop(running);
        let doing = match (self.damaged.is_cancelled(), self.stopping.is_cancelled()) {
            (true, _) => "the ledger is damaged, run `codex-bridge recover`",
            (false, true) => "stopping",
            (false, false) => "serving",
        };
        format!("{doing}; turns at work: {turns}")
    }
}
