//! Codex threads that go with their conversations: stored while a turn runs, brought along when another node had one.

use crate::Daemon;
use crate::turn::Claimed;
use bridge_core::port::{
    Agent, AgentError, Ledger, LedgerError, Sink, ThreadSpec, TravellingThread,
};
use bridge_core::step::Unbind;
use bridge_core::value::{Class, Conversation, ConversationId, Failure, Message, ThreadId};
use std::sync::Arc;

/// Tries to store a thread whose file can't be read: a quarter of a minute.
const UNREADABLE_TRIES_MAX: u32 = 8;

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

    /// Stores what a turn added to its thread, while it runs. Where that fails the turn goes on: the next look stores it
    /// too.
    pub(crate) async fn store_thread(self: &Arc<Self>, claimed: &Claimed, thread: &ThreadId) {
        let _not_yet = self.try_store_thread(claimed, thread).await;
    }

    /// The same before an answer is written down: a node that takes over believes what is stored. While the database
    /// can't take the thread it can't take the answer either; a thread that can't be read is let go of, so that the next
    /// turn begins a new one with a recap, on any node. False when the daemon goes.
    pub(crate) async fn store_thread_whole(
        self: &Arc<Self>,
        claimed: &Claimed,
        thread: &ThreadId,
    ) -> bool {
        for tries in 1_u32.. {
            let Err(error) = self.try_store_thread(claimed, thread).await else {
                return true;
            };
            let passes = error.thread.is_none() && error.failure.class == Class::Transient;
            if !passes && tries >= UNREADABLE_TRIES_MAX {
                let why = format!(
                    "it could not be stored for other nodes: {}",
                    error.failure.reason
                );
                self.settle(Unbind {
                    message_id: claimed.message.message_id.clone(),
                    thread: thread.clone(),
                    why,
                })
                .await;
                return true;
            }
            if !self.pause(tries).await {
                return false;
            }
        }
        false
    }

    async fn try_store_thread(
        self: &Arc<Self>,
        claimed: &Claimed,
        thread: &ThreadId,
    ) -> Result<(), AgentError> {
        self.store_thread_of(&claimed.message, &claimed.conversation, thread)
            .await
    }

    /// The same for a conversation in which nothing runs, for any of its messages.
    pub(crate) async fn store_thread_of(
        self: &Arc<Self>,
        message: &Message,
        conversation: &Conversation,
        thread: &ThreadId,
    ) -> Result<(), AgentError> {
        if self.settings().start.node.is_none() || thread.is_unnamed() {
            return Ok(());
        }
        let message_id = &message.message_id;
        let stored = async {
            let spec = self.spec_of(message, conversation).await;
            let home = spec.map_err(AgentError::new)?.codex_home;
            let travelling = self.travelling(&conversation.conversation_id, thread, &home);
            let travelling = travelling
                .await
                .map_err(|error| AgentError::new(Failure::new(error.class(), error.to_string())))?;
            match travelling {
                Some(thread) => self.agent.store_thread(&thread, message_id).await,
                None => Ok(()),
            }
        };
        stored.await.inspect_err(|error| {
            let reason = crate::term::escape_line(&error.failure.reason).into_owned();
            tracing::warn!(%message_id, reason, "what a turn added to its thread is not stored yet; a node that took it over now would not know of it");
        })
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
