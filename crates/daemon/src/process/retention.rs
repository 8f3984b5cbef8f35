//! Retention: finished rows leave the ledger after their time, a few at a time, so that nobody waits for it; then the
//! files that no row names any more are removed.

use crate::Daemon;
use crate::process::ids::now;
use crate::turn::files::{blocking, of_disk, of_ledger};
use bridge_core::limits::{FILES_SCAN_MAX, PRUNE_BATCH};
use bridge_core::port::{Agent, Ledger, Sink};
use bridge_core::step::Prune;
use bridge_core::value::Failure;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

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
                    self.sweep_ledger().await;
                    if self.prune_conversations().await {
                        EVERY
                    } else {
                        BATCH_PAUSE
                    }
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

    /// Removes files from the ledger that no row names.
    async fn sweep_ledger(self: &Arc<Self>) {
        match self.drop_old_files().await {
            Ok(0) => {}
            Ok(gone) => tracing::info!(
                gone,
                "files that no message names any more left the database"
            ),
            Err(error) => tracing::error!(%error, "old files could not leave the database"),
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
        // Where there are more, each sweep begins at another place.
        let most = usize::try_from(FILES_SCAN_MAX).unwrap_or(usize::MAX);
        let old = blocking(move || file_store.old(now, most)).await?;
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
            unnamed.iter().try_fold(0, |swept, digest| {
                let gone = file_store.sweep(digest, now)?;
                Ok(swept + usize::from(gone))
            })
        });
        swept.await?.map_err(|error: io::Error| of_disk(&error))
    }
}
