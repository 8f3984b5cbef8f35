//! The daemon as the fronts see it.

use super::Daemon;
use super::ids;
use bridge_channel::local::{self, Inbound};
use bridge_channel::{Arrival, Assigned, Channels, Door};
use bridge_core::port::{Ledger, LedgerError};
use bridge_core::step::Received;
use bridge_front::{Desk, Health, Hub, NewMessage, SubmitError, Submitted};
use bridge_host::CodexAgent;
use std::sync::Arc;

/// The daemon with Codex behind it.
pub(super) type CodexDaemon<L> = Daemon<L, CodexAgent<L>, Channels>;

/// A handle for the fronts.
pub(super) struct DaemonDesk<L>(pub(super) Arc<CodexDaemon<L>>);

impl<L> Clone for DaemonDesk<L> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<L: Ledger> Door for DaemonDesk<L> {
    async fn take_in(&self, arrival: Arrival) -> Result<Received, LedgerError> {
        let settings = &self.0.settings;
        let conversation_id = ids::conversation_id();
        let assigned = Assigned {
            message_id: ids::message_id(),
            workdir: settings.workdir(arrival.tier, &conversation_id),
            conversation_id,
            mid_turn: settings.tier(arrival.tier).mid_turn,
        };
        let receive = arrival.receive(assigned);
        // On a task of its own: a caller that goes away after the commit must not take the wake-up with it.
        let committing = Arc::clone(&self.0);
        let committed = tokio::spawn(async move { committing.commit(receive).await }).await;
        committed.map_err(|_| LedgerError::Unavailable {
            what: "the daemon is stopping".to_owned(),
        })?
    }
}

impl<L: Ledger> Desk for DaemonDesk<L> {
    type Ledger = L;

    fn ledger(&self) -> &L {
        &self.0.ledger
    }

    fn hub(&self) -> &Hub {
        &self.0.hub
    }

    async fn submit(&self, message: NewMessage) -> Result<Submitted, SubmitError> {
        let daemon = &self.0;
        if daemon.stopping.is_cancelled() {
            return Err(SubmitError::Stopping);
        }
        let inbound = Inbound {
            text: message.text,
            conversation: message
                .conversation
                .unwrap_or_else(|| local::DEFAULT_CONVERSATION.to_owned()),
            external_id: message.key,
            sender: "local owner".to_owned(),
        };
        let arrival =
            local::arrive(inbound).map_err(|refusal| SubmitError::Unfit(refusal.to_string()))?;
        match self.take_in(arrival).await? {
            Received::New(message_id) => Ok(Submitted {
                message_id,
                duplicate: false,
            }),
            Received::Duplicate(message_id) => Ok(Submitted {
                message_id,
                duplicate: true,
            }),
            Received::Full => Err(SubmitError::Full),
        }
    }

    async fn health(&self) -> Health {
        let codex = self.0.agent.health();
        let stopping = self.0.stopping.is_cancelled();
        Health {
            ready: codex.ready && !stopping,
            detail: match (stopping, codex.ready) {
                (true, _) => "the daemon is stopping".to_owned(),
                (false, true) => "ready".to_owned(),
                (false, false) => codex.detail.clone(),
            },
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            codex: codex.detail,
        }
    }
}
