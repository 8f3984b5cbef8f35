//! The life of a turn: claimed, started, followed to its end, and found again when its end was not seen.
//!
//! [`Turns`] owns what these tasks share. Rows are the truth; everything here is lost with the process and rebuilt by
//! [`recover`].

pub(crate) mod agents;
pub(crate) mod approvals;
pub(crate) mod files;
pub(crate) mod follow;
pub(crate) mod loans;
pub(crate) mod progress;
mod quota;
mod reconcile;
mod recover;
mod running;
mod schedule;
mod watchdog;
mod work;

pub(crate) use self::work::make_workdir;

pub(crate) use self::running::{RunningTurn, RunningTurns};

use self::agents::DetachedCalls;
use self::recover::InFlight;
use crate::one_at_a_time::OneAtATime;
use bridge_core::value::{Conversation, ConversationId, Message};
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{Notify, OwnedMutexGuard};

/// What the tasks of all turns share.
#[derive(Default)]
pub(crate) struct Turns {
    /// Wakes the scheduler.
    wake: Notify,
    /// Rounds of the scheduler so far. Each commits through the ledger's writer, so a count that moves says that the
    /// scheduler, the writer and the runtime's timers live.
    rounds: AtomicU64,
    /// The ledger failed under a transition, which may be committed all the same: rows in flight are rechecked.
    recheck: Notify,
    pub(crate) running: RunningTurns,
    /// Held while a turn moves into its working directory, and while retention takes one away.
    pub(crate) workdirs: tokio::sync::Mutex<()>,
    in_flight: InFlight,
    detached: DetachedCalls,
    noted_quotas: quota::NotedQuotas,
    /// Who may speak to the running turn of a conversation: a text must not overtake one that came before it, and a Codex
    /// that does not answer holds up its own conversation only.
    steering: OneAtATime<ConversationId>,
    pub(crate) loans: loans::Loans,
}

impl Turns {
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    pub(crate) fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }

    /// Has rows in flight that no task works on taken up again.
    pub(crate) fn recheck(&self) {
        self.recheck.notify_one();
    }

    /// Has a row in flight that no task works on taken up, unless a task is only about to begin.
    pub(crate) fn recheck_if_left(&self, message: &Message) {
        if message.life.state.name().in_flight() && !self.in_flight.contains(&message.message_id) {
            self.recheck();
        }
    }

    /// Waits until nobody else gives a text to the running turn of this conversation.
    pub(crate) async fn steer_order(&self, id: ConversationId) -> OwnedMutexGuard<()> {
        self.steering.wait(id).await
    }
}

/// The rows of a claimed message, read once and carried through its turn. Only `message.life` changes meanwhile: what
/// depends on it, such as a stop, is read again.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) message: Message,
    pub(crate) conversation: Conversation,
}
