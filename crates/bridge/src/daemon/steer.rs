//! A message for a turn that runs, and a turn that must end: what reaches a running turn from outside.

use super::Daemon;
use bridge_core::port::{Agent, Ledger, LedgerError, Sink, Steered};
use bridge_core::step::{Join, Leave};
use bridge_core::value::{Class, MessageId};
use std::sync::{Arc, PoisonError};

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Gives a waiting message to the running turn of its conversation. What the turn did not take waits for its
    /// own turn; after an unknown outcome the turn's end says what it heard.
    pub(crate) async fn join(self: Arc<Self>, message_id: MessageId) {
        // One after the other: a text that is told must not overtake one that came before it.
        let _order = self.joining.lock().await;
        let join = Join {
            message_id: message_id.clone(),
        };
        let steer = match self.commit(join).await {
            Ok(Some(steer)) => steer,
            Ok(None) | Err(LedgerError::Refused(_)) => return,
            Err(error) => {
                tracing::error!(%error, %message_id, "a message could not be given to a running turn");
                return;
            }
        };
        let refused = match self.agent.steer(&steer).await {
            Ok(Steered::Taken) => return,
            Ok(Steered::Refused { why }) => why,
            Err(fault) if fault.failure.class == Class::Ambiguous => return,
            Err(fault) => fault.failure.reason,
        };
        let why = crate::term::escape_line(&refused).into_owned();
        tracing::info!(%message_id, why, "the running turn did not take a message");
        self.settle(Leave { message_id }).await;
    }

    /// Ends the turn of a message that a person stopped. One that is not followed yet is stopped when it is.
    pub(crate) fn interrupt(&self, message_id: &MessageId) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = running.get(message_id) {
            running.stop.cancel();
        }
    }
}
