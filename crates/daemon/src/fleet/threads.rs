//! Codex threads that go with their conversations: stored while a turn runs, brought along when another node had one.

use crate::Daemon;
use crate::turn::Claimed;
use bridge_core::port::{Agent, Ledger, LedgerError, Sink, ThreadSpec, TravellingThread};
use bridge_core::value::{Conversation, ConversationId, Failure, ThreadId};
use std::sync::Arc;

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Brings the thread of a conversation to this node, before Codex is asked about it.
    pub(crate) async fn bring_thread(
        &self,
        conversation: &Conversation,
        thread: &ThreadId,
        spec: &ThreadSpec,
    ) -> Result<(), Failure> {
        let travelling = self
            .travelling(&conversation.conversation_id, thread, &spec.codex_home)
            .await
            .map_err(|error| Failure::new(error.class(), error.to_string()))?;
        match travelling {
            Some(thread) => {
                let brought = self.agent.bring_thread(&thread).await;
                brought.map_err(|error| error.failure)
            }
            None => Ok(()),
        }
    }

    /// Stores what a turn added to its thread. Where that fails the turn goes on: the next look stores it too.
    pub(crate) async fn store_thread(self: &Arc<Self>, claimed: &Claimed, thread: &ThreadId) {
        if self.settings().start.node.is_none() || thread.is_unnamed() {
            return;
        }
        if let Err(failure) = self.try_store_thread(claimed, thread).await {
            let message_id = &claimed.message.message_id;
            let reason = crate::term::escape_line(&failure.reason).into_owned();
            tracing::warn!(%message_id, reason, "what a turn added to its thread is not stored yet; a node that took it over now would not know of it");
        }
    }

    async fn try_store_thread(
        self: &Arc<Self>,
        claimed: &Claimed,
        thread: &ThreadId,
    ) -> Result<(), Failure> {
        let (message, conversation) = (&claimed.message, &claimed.conversation);
        let home = self.spec_of(message, conversation).await?.codex_home;
        let travelling = self
            .travelling(&conversation.conversation_id, thread, &home)
            .await
            .map_err(|error| Failure::new(error.class(), error.to_string()))?;
        let Some(thread) = travelling else {
            return Ok(());
        };
        let stored = self.agent.store_thread(&thread, &message.message_id).await;
        stored.map_err(|error| error.failure)
    }

    /// A thread as a fleet knows it; absent where one daemon has the ledger for itself, or no node has the conversation.
    async fn travelling(
        &self,
        id: &ConversationId,
        thread: &ThreadId,
        codex_home: &Option<String>,
    ) -> Result<Option<TravellingThread>, LedgerError> {
        if self.settings().start.node.is_none() {
            return Ok(None);
        }
        let id = id.clone();
        let home = self.ledger.read(move |rows| rows.home(&id)).await?;
        Ok(home.map(|home| TravellingThread {
            thread: thread.clone(),
            codex_home: codex_home.clone(),
            generation: home.generation,
        }))
    }
}
