//! Retention: finished rows leave the ledger after their time, a few at a time, so that nobody waits for it.

use super::Daemon;
use crate::process::ids::now;
use bridge_core::limits::PRUNE_BATCH;
use bridge_core::port::{Agent, Ledger, Sink};
use bridge_core::step::Prune;
use std::sync::Arc;
use std::time::Duration;

/// How often old rows are looked for.
const EVERY: Duration = Duration::from_secs(3_600);
/// Pause between two batches.
const BATCH_PAUSE: Duration = Duration::from_millis(200);

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    pub(crate) async fn prune(self: Arc<Self>) {
        loop {
            let prune = Prune {
                now: now(),
                keep: self.settings().config.keep(),
            };
            let pause = match self.commit(prune).await {
                Ok(gone) if gone >= PRUNE_BATCH => BATCH_PAUSE,
                Ok(gone) => {
                    if gone > 0 {
                        tracing::info!(gone, "old finished messages left the ledger");
                    }
                    self.sweep_files().await;
                    EVERY
                }
                Err(error) => {
                    tracing::error!(%error, "old rows could not be removed");
                    EVERY
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.stopping.cancelled() => return,
                () = self.damaged.cancelled() => return,
            }
        }
    }
}
