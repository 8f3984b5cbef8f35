//! A message for a turn that runs, and a turn that must end: what reaches a running turn from outside.

use crate::Daemon;
use crate::tasks::Joined;
use bridge_core::port::{Agent, Ledger, Sink};
use bridge_core::value::{ConversationId, MessageId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Who may speak to the running turn of a conversation: a text must not overtake one that came before it, and a Codex
/// that does not answer holds up its own conversation only.
#[derive(Debug, Default)]
pub(crate) struct Order(Mutex<HashMap<ConversationId, Arc<tokio::sync::Mutex<()>>>>);

impl Order {
    /// Waits for its turn in this conversation.
    pub(crate) async fn wait(&self, id: ConversationId) -> tokio::sync::OwnedMutexGuard<()> {
        let one = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Those that nobody holds or waits for are forgotten.
            all.retain(|_, one| Arc::strong_count(one) > 1);
            Arc::clone(all.entry(id).or_default())
        };
        one.lock_owned().await
    }
}

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
