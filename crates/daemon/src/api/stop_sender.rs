//! Stops everything of one sender, batch by batch, on a task of its own: a caller that hangs up stops nothing halfway.

use crate::api::service::DaemonService;
use bridge_core::channels;
use bridge_core::limits::{BACKLOG_MAX, STOP_MAX};
use bridge_core::port::{Ledger, LedgerError};
use bridge_core::step::{StopCause, StopSender};
use bridge_core::value::{Actor, ChannelId};
use bridge_front::{StopRequest, Stopped};

/// More batches than this never wait: a sender that goes on sending meanwhile does not keep this going.
const BATCHES_MAX: u32 = BACKLOG_MAX / STOP_MAX + 1;

impl<L: Ledger> DaemonService<L> {
    pub(crate) async fn stop_all_of(
        &self,
        stop: StopRequest,
        by: Actor,
    ) -> Result<Stopped, LedgerError> {
        let service = self.clone();
        let first = StopSender {
            sender: stop.sender,
            channels: match (stop.channel, stop.cause) {
                (Some(channel), _) => vec![channel],
                (None, StopCause::Revoked) => channels::OF_TOKENS.map(ChannelId::new).to_vec(),
                (None, StopCause::Operator) => Vec::new(),
            },
            by,
            cause: stop.cause,
            after: None,
        };
        let stopped = tokio::spawn(async move { service.stop_batches(first).await }).await;
        stopped.map_err(|_| LedgerError::Unavailable {
            what: "the daemon is stopping".to_owned(),
        })?
    }

    async fn stop_batches(&self, mut stop: StopSender) -> Result<Stopped, LedgerError> {
        let mut stopped = Stopped::default();
        for _ in 0..BATCHES_MAX {
            let batch = self.commit(stop.clone()).await?;
            stopped.cancelled = stopped.cancelled.saturating_add(batch.cancelled);
            stopped.running.extend(batch.running);
            stopped.joined.extend(batch.joined);
            stop.after = match batch.next {
                Some(next) => Some(next),
                None => break,
            };
        }
        Ok(stopped)
    }
}
