//! Conversations that nobody used for long, where the operator says so: Codex deletes their threads, and the working
//! directories that were made for them go. What a crash leaves is found by the stand-in in the row, and done again.

use crate::Daemon;
use crate::process::ids::now;
use crate::turn::files::{blocking, of_disk, of_ledger};
use bridge_core::limits::PRUNE_BATCH;
use bridge_core::port::{Agent, Ledger, Sink};
use bridge_core::step::{PruneThreads, ThreadDeleted};
use bridge_core::value::{Conversation, Failure, ThreadId};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Begins the name of a directory on its way out.
const LEAVING: &str = ".pruned-";

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Prunes what is old enough; `false` where more is left for the next time.
    pub(crate) async fn prune_conversations(self: &Arc<Self>) -> bool {
        let mut whole = true;
        if let Some(kept) = self.settings().config.conversations_kept() {
            let before = now().plus_ms(kept.saturating_neg());
            match self.commit(PruneThreads { before }).await {
                Ok(taken) => whole = taken < PRUNE_BATCH,
                Err(error) => {
                    tracing::error!(%error, "old conversations could not be pruned");
                    return true;
                }
            }
        }
        match self.finish_pruning().await {
            Ok(0) => {}
            Ok(gone) => tracing::info!(
                gone,
                "histories of conversations that nobody used were deleted"
            ),
            Err(failure) => {
                tracing::warn!(reason = %failure.reason, "histories of old conversations could not be deleted; that is tried again");
            }
        }
        whole
    }

    /// Also where the operator has changed their mind since: what was taken from a row is of no use to anybody.
    async fn finish_pruning(self: &Arc<Self>) -> Result<usize, Failure> {
        let root = self.settings().start.work_root.clone();
        blocking(move || sweep(&root))
            .await?
            .map_err(|error| of_disk(&error))?;
        let pruned = self.ledger.read(|rows| rows.pruned(PRUNE_BATCH));
        let pruned = pruned.await.map_err(of_ledger)?;
        let mut gone = 0;
        for conversation in pruned {
            let stand_in = conversation.thread.clone();
            let Some((stand_in, thread)) =
                stand_in.and_then(|stand_in| stand_in.of_pruned().map(|thread| (stand_in, thread)))
            else {
                continue;
            };
            self.remove_workdir(&conversation, &stand_in).await?;
            let home = self.home_of(&conversation).await?;
            let deleted = self.agent.delete_thread(home.as_deref(), &thread).await;
            match deleted {
                // One that Codex does not know is gone.
                Err(error) if error.thread.is_none() => return Err(error.failure),
                Ok(()) | Err(_) => {}
            }
            let deleted = ThreadDeleted {
                conversation_id: conversation.conversation_id,
                thread: stand_in,
            };
            self.commit(deleted).await.map_err(of_ledger)?;
            gone += 1;
        }
        Ok(gone)
    }

    /// Takes away the directory that was made for a conversation. It is renamed first, so that a turn that begins in the
    /// next moment gets a new one.
    async fn remove_workdir(
        &self,
        conversation: &Conversation,
        stand_in: &ThreadId,
    ) -> Result<(), Failure> {
        let id = conversation.conversation_id.clone();
        let root = self.settings().start.work_root.clone();
        let own = root.join(id.as_str());
        if Path::new(&conversation.workdir) != own {
            return Ok(());
        }
        {
            let _alone = self.turns.workdirs.lock().await;
            let wanted = id.clone();
            let row = self.ledger.read(move |rows| rows.conversation(&wanted));
            let row = row.await.map_err(of_ledger)?;
            // A message has come meanwhile, and works there.
            if row.and_then(|row| row.thread).as_ref() != Some(stand_in) {
                return Ok(());
            }
            let leaving = root.join(format!("{LEAVING}{id}"));
            match std::fs::rename(&own, leaving) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(of_disk(&error));
                }
                Ok(()) | Err(_) => {}
            }
        }
        blocking(move || sweep(&root))
            .await?
            .map_err(|error| of_disk(&error))
    }

    /// The CODEX_HOME that has a conversation's thread; the usual one where it names none.
    async fn home_of(&self, conversation: &Conversation) -> Result<Option<String>, Failure> {
        let id = conversation.conversation_id.clone();
        let task = self.ledger.read(move |rows| rows.started_task(&id));
        let task = task.await.map_err(of_ledger)?;
        Ok(task.and_then(|task| self.settings().task_spec(&task, conversation).codex_home))
    }
}

/// Removes directories that are on their way out. Links in them are removed and not followed.
fn sweep(root: &PathBuf) -> io::Result<()> {
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        let leaves = entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(LEAVING.as_bytes());
        if leaves && entry.file_type()?.is_dir() {
            std::fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}
