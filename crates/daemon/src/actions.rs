//! Acting: the one place that turns the core's actions into tasks, always after the commit that asked for them.

use super::Daemon;
use crate::failpoint::{self, Side};
use crate::process::ids::{jitter, now};
use bridge_core::port::{Agent, Ledger, LedgerError, Sink};
use bridge_core::retry::backoff_ms;
use bridge_core::step::{Action, Transition};
use bridge_core::value::Class;
use bridge_front::LiveUpdate;
use std::sync::Arc;
use std::time::Duration;

/// First pause before a transition is offered to the ledger again; doubles up to [`SETTLE_MAX_MS`].
const SETTLE_BASE_MS: i64 = 100;
const SETTLE_MAX_MS: i64 = 5_000;

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Commits a transition, then does what it asks for.
    pub(crate) async fn commit<T: Transition>(
        self: &Arc<Self>,
        transition: T,
    ) -> Result<T::Outcome, LedgerError> {
        failpoint::pass(T::NAME, Side::Before);
        let clock = self.traces.clock();
        let committed = self.ledger.transact(transition, now()).await;
        let committed = committed.inspect_err(|error| {
            if !matches!(error, LedgerError::Refused(_)) {
                self.turns.recheck();
            }
        })?;
        self.work_log.note(&committed.changes);
        self.measures.note(&committed.changes);
        self.traces.committed(T::NAME, clock, &committed.changes);
        failpoint::pass(T::NAME, Side::After);
        self.perform(committed.actions);
        Ok(committed.outcome)
    }

    /// Commits a transition that must not be lost: while the ledger can't take it (a full disk), it waits and
    /// tries again. A refusal means that somebody else moved the message on.
    pub(crate) async fn settle<T: Transition + Clone>(self: &Arc<Self>, transition: T) {
        let _settled = self.insist(transition).await;
    }

    /// The same for those who need to know what came of it; nothing when somebody else moved the message on.
    pub(crate) async fn insist<T: Transition + Clone>(
        self: &Arc<Self>,
        transition: T,
    ) -> Option<T::Outcome> {
        for tries in 0_u32.. {
            let error = match self.commit(transition.clone()).await {
                Ok(outcome) => return Some(outcome),
                Err(LedgerError::Refused(refused)) => {
                    tracing::debug!(%refused, "a transition came too late");
                    return None;
                }
                Err(error) => error,
            };
            tracing::error!(%error, transition = T::NAME, "the database did not take a transition");
            if error.class() != Class::Transient {
                // The row stays where it is; the next start finds it and goes on from there.
                return None;
            }
            if !self.pause(tries).await {
                return None;
            }
        }
        None
    }

    /// Waits before the ledger is asked again; false when the daemon goes.
    pub(super) async fn pause(&self, tries: u32) -> bool {
        let pause = backoff_ms(tries, SETTLE_BASE_MS, SETTLE_MAX_MS, jitter());
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(u64::try_from(pause).unwrap_or(1))) => true,
            () = self.halt.cancelled() => false,
        }
    }

    pub(crate) fn perform(self: &Arc<Self>, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Schedule | Action::ScheduleAt { .. } => self.turns.wake(),
                Action::Work { message_id } => {
                    let daemon = Arc::clone(self);
                    self.spawn_for(message_id.clone(), daemon.work(message_id));
                }
                Action::Reconcile { message_id } => {
                    let daemon = Arc::clone(self);
                    self.spawn_for(message_id.clone(), daemon.reconcile(message_id));
                }
                Action::Deliver { conversation_id } => self.deliver(conversation_id),
                Action::Join { message_id } => {
                    let daemon = Arc::clone(self);
                    self.spawn_for(message_id.clone(), async move {
                        // Its row says whether it was taken or waits for its own turn.
                        let _joined = daemon.join_turn(message_id).await;
                    });
                }
                Action::Interrupt { message_id } => self.turns.running.interrupt(&message_id),
                Action::Answer { request_id } => {
                    let daemon = Arc::clone(self);
                    self.spawn_for(request_id.clone(), daemon.answer(request_id));
                }
                Action::Announce { message_id } => {
                    self.hub.publish(&message_id, LiveUpdate::Changed);
                    self.slots.changed(&message_id);
                }
            }
        }
    }
}
