//! Retention: finished rows leave the ledger after their time, a few at a time, so that nobody waits for it; then the
//! files that no row names any more are removed.

use crate::Daemon;
use crate::process::ids::now;
use crate::turn::files::{blocking, of_disk, of_ledger};
use bridge_core::limits::PRUNE_BATCH;
use bridge_core::port::{Agent, Ledger, Sink};
use bridge_core::step::Prune;
use bridge_core::value::Failure;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Old files that one sweep looks at; where there are more, each sweep begins at another place.
const SWEEP_MAX: usize = 50_000;
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
                        tracing::info!(gone, "old finished messages left the database");
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

    /// Removes copies that no row names.
    async fn sweep_files(&self) {
        match self.try_sweep_files().await {
            Ok(0) => {}
            Ok(swept) => tracing::info!(swept, "files that no message names any more were removed"),
            Err(failure) => {
                tracing::error!(reason = %failure.reason, "old files could not be removed");
            }
        }
    }

    async fn try_sweep_files(&self) -> Result<usize, Failure> {
        let now = SystemTime::now();
        let file_store = self.settings().start.file_store.clone();
        let old = blocking(move || file_store.old(now, SWEEP_MAX)).await?;
        let old = old.map_err(|error| of_disk(&error))?;
        if old.is_empty() {
            return Ok(0);
        }
        let unnamed = self
            .ledger
            .read(move |rows| rows.unnamed_files(&old))
            .await
            .map_err(of_ledger)?;
        let file_store = self.settings().start.file_store.clone();
        let swept = blocking(move || {
            unnamed.iter().try_fold(0, |swept, path| {
                file_store
                    .sweep(Path::new(path), now)
                    .map(|gone| swept + usize::from(gone))
            })
        });
        swept.await?.map_err(|error| of_disk(&error))
    }
}
