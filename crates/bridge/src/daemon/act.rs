//! Acting: the one place that turns the core's actions into tasks, always after the commit that asked for them.

use super::Daemon;
use super::ids::now;
use bridge_core::port::{Agent, Ledger, LedgerError, Sink};
use bridge_core::step::{Action, Transition};
use bridge_front::Live;
use std::sync::Arc;

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Commits a transition, then does what it asks for.
    pub(crate) async fn commit<T: Transition>(
        self: &Arc<Self>,
        transition: T,
    ) -> Result<T::Outcome, LedgerError> {
        let committed = self.ledger.transact(transition, now()).await?;
        self.perform(committed.actions);
        Ok(committed.outcome)
    }

    /// Commits a transition whose refusal means that somebody else moved the message on: nothing is lost.
    pub(crate) async fn settle<T: Transition>(self: &Arc<Self>, transition: T) {
        match self.commit(transition).await {
            Ok(_) => {}
            Err(LedgerError::Refused(refused)) => {
                tracing::debug!(%refused, "a transition came too late");
            }
            Err(error) => {
                // The row stays where it is; the next start finds it and goes on from there.
                tracing::error!(%error, transition = T::NAME, "the ledger did not take a transition");
            }
        }
    }

    pub(crate) fn perform(self: &Arc<Self>, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Schedule | Action::ScheduleAt { .. } => self.wake.notify_one(),
                Action::Work { message_id } => {
                    let daemon = Arc::clone(self);
                    self.tasks
                        .spawn(async move { daemon.work(message_id).await });
                }
                Action::Reconcile { message_id } => {
                    let daemon = Arc::clone(self);
                    self.tasks
                        .spawn(async move { daemon.reconcile(message_id).await });
                }
                Action::Deliver { conversation_id } => self.deliver(conversation_id),
                // No channel of today wants to be told; the ack row says so.
                Action::Acknowledge { .. } => {}
                Action::Announce { message_id } => self.hub.publish(&message_id, Live::Changed),
            }
        }
    }
}
