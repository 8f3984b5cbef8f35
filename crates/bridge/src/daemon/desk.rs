//! The daemon as the fronts see it.

use super::Daemon;
use super::ids;
use bridge_channel::local::{self, Inbound};
use bridge_channel::{Arrival, Assigned, Channels, Door};
use bridge_core::port::{Ledger, LedgerError};
use bridge_core::step::{
    Cancel, CancelOutcome, Claim, Discard, Received, Redrive, RedriveOutcome, Transition,
};
use bridge_core::value::{MessageId, Timestamp};
use bridge_front::{Desk, Health, Hub, NewMessage, SubmitError, Submitted};
use bridge_host::CodexAgent;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The daemon with Codex behind it.
pub(super) type CodexDaemon<L> = Daemon<L, CodexAgent<L>, Channels>;

/// A handle for the fronts and the channels.
pub(super) struct DaemonDesk<L> {
    daemon: Arc<CodexDaemon<L>>,
    /// The ledger's file, to tell its size.
    file: Option<PathBuf>,
}

impl<L> Clone for DaemonDesk<L> {
    fn clone(&self) -> Self {
        Self {
            daemon: Arc::clone(&self.daemon),
            file: self.file.clone(),
        }
    }
}

impl<L: Ledger> DaemonDesk<L> {
    pub(super) fn new(daemon: &Arc<CodexDaemon<L>>) -> Self {
        Self {
            daemon: Arc::clone(daemon),
            file: None,
        }
    }

    pub(super) fn with_file(self, file: PathBuf) -> Self {
        let file = Some(file);
        Self { file, ..self }
    }

    /// Commits on a task of its own: a caller that goes away after the commit must not take what follows with it.
    async fn commit<T: Transition>(&self, transition: T) -> Result<T::Outcome, LedgerError> {
        let daemon = Arc::clone(&self.daemon);
        let committed = tokio::spawn(async move { daemon.commit(transition).await }).await;
        committed.map_err(|_| LedgerError::Unavailable {
            what: "the daemon is stopping".to_owned(),
        })?
    }
}

impl<L: Ledger> Door for DaemonDesk<L> {
    async fn take_in(&self, arrival: Arrival) -> Result<Received, LedgerError> {
        let settings = &self.daemon.settings;
        let conversation_id = ids::conversation_id();
        let assigned = Assigned {
            message_id: ids::message_id(),
            workdir: settings.workdir(arrival.tier, &conversation_id),
            conversation_id,
            mid_turn: settings.tier(arrival.tier).mid_turn,
        };
        self.commit(arrival.receive(assigned)).await
    }
}

impl<L: Ledger> Desk for DaemonDesk<L> {
    type Ledger = L;

    fn ledger(&self) -> &L {
        &self.daemon.ledger
    }

    fn hub(&self) -> &Hub {
        &self.daemon.hub
    }

    async fn submit(&self, message: NewMessage) -> Result<Submitted, SubmitError> {
        let daemon = &self.daemon;
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

    fn now(&self) -> Timestamp {
        ids::now()
    }

    fn claim(&self) -> Claim {
        self.daemon.settings.claim(ids::now())
    }

    fn ledger_bytes(&self) -> Option<u64> {
        let file = self.file.as_ref()?;
        // What was not yet moved into the file lies beside it.
        let wal = file.with_extension("db-wal");
        let size = |path: &Path| path.metadata().map(|found| found.len());
        Some(size(file).ok()?.saturating_add(size(&wal).unwrap_or(0)))
    }

    async fn cancel(&self, message_id: MessageId, by: &str) -> Result<CancelOutcome, LedgerError> {
        let by = by.to_owned();
        self.commit(Cancel { message_id, by }).await
    }

    async fn redrive(
        &self,
        message_id: MessageId,
        by: &str,
    ) -> Result<RedriveOutcome, LedgerError> {
        let by = by.to_owned();
        self.commit(Redrive { message_id, by }).await
    }

    async fn discard(&self, message_id: MessageId, by: &str) -> Result<bool, LedgerError> {
        let by = by.to_owned();
        self.commit(Discard { message_id, by }).await
    }

    async fn health(&self) -> Health {
        let codex = self.daemon.agent.health();
        let stopping = self.daemon.stopping.is_cancelled();
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
