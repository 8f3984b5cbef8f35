//! A message for a turn that runs, and a turn that must end: what reaches a running turn from outside.

use super::Daemon;
use super::tasks::Joined;
use bridge_core::port::{Agent, Ledger, Sink};
use bridge_core::value::MessageId;
use std::sync::{Arc, PoisonError};

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Gives a waiting message to the running turn of its conversation; nobody waits for what becomes of it.
    pub(crate) async fn join(self: Arc<Self>, message_id: MessageId) {
        match self.join_turn(message_id).await {
            Joined::Taken | Joined::Waits(_) | Joined::Unknown => {}
        }
    }

    /// Ends the turn of a message that a person stopped. One that is not followed yet is stopped when it is.
    pub(crate) fn interrupt(&self, message_id: &MessageId) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = running.get(message_id) {
            running.stop.cancel();
        }
    }
}
