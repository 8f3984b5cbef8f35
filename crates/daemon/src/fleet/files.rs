//! Files of messages and answers in a fleet: stored in the ledger before a row names them, and brought from there when
//! this node needs one that another node took in.
//!
//! Where one daemon has the ledger for itself nothing is stored: its files are in its state directory.

use crate::Daemon;
use crate::process::ids::now;
use crate::turn::files::{blocking, of_ledger};
use bridge_channel::files::{FileStore, FileStoreError, SWEEP_GRACE};
use bridge_core::limits::{FILE_PIECE_BYTES, FILES_DROPPED, FILES_SCAN_MAX};
use bridge_core::port::{Agent, Ledger, LedgerError, Read, RowsError, Sink};
use bridge_core::step::{DropFiles, StoreFile};
use bridge_core::value::{Attachment, Class, Failure, FileDigest, KeptFile, Timestamp};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Files of this node that are looked for in the database at once.
const FILES_COMPARED: usize = 1_000;

/// Files that this node stored for a message that is not in the ledger yet, and that no other node is about to name.
#[derive(Debug, Default)]
pub(crate) struct SharedFiles(Vec<KeptFile>);

/// Why a file could not be stored in the ledger.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ShareError {
    #[error("read our copy of a file, to store it in the database: {0}")]
    Disk(String),
    #[error("store a file in the database: {0}")]
    Ledger(#[from] LedgerError),
}

impl From<ShareError> for LedgerError {
    fn from(error: ShareError) -> Self {
        match error {
            ShareError::Disk(what) => Self::Unavailable { what },
            ShareError::Ledger(error) => error,
        }
    }
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Stores files in the ledger. What names them is committed after it, and within [`SWEEP_GRACE`], which is far longer
    /// than a lease.
    pub(crate) async fn share_files(
        self: &Arc<Self>,
        files: &[Attachment],
    ) -> Result<SharedFiles, ShareError> {
        let mut shared = SharedFiles::default();
        if self.settings().start.node.is_some() {
            for file in files {
                shared.0.extend(self.share(file.digest).await?);
            }
        }
        Ok(shared)
    }

    /// The same for files of an answer: while the ledger can't take them it can't take the answer either.
    pub(crate) async fn share_patiently(
        self: &Arc<Self>,
        files: &[Attachment],
    ) -> Result<(), ShareError> {
        for tries in 0_u32.. {
            let error = match self.share_files(files).await {
                Ok(_) => return Ok(()),
                Err(ShareError::Ledger(error)) if error.class() == Class::Transient => error,
                Err(error) => return Err(error),
            };
            tracing::error!(%error, "the database did not take a file of an answer");
            if !self.pause(tries).await {
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Stores one file; gives it as it is stored if no other node is about to name it.
    async fn share(self: &Arc<Self>, digest: FileDigest) -> Result<Option<KeptFile>, ShareError> {
        let (mut known, mut alone) = (None::<KeptFile>, true);
        loop {
            let offset = known.map_or(0, |known| known.length);
            let bytes =
                self.read_copy(move |files| files.read_piece(&digest, offset, FILE_PIECE_BYTES));
            let bytes = bytes.await?;
            if known.is_some() && bytes.is_empty() {
                return Ok(known.filter(|_| alone));
            }
            let stored = self.commit(StoreFile {
                digest,
                known,
                bytes,
            });
            let stored = stored.await?;
            alone &= stored.untouched;
            known = Some(stored.file);
        }
    }

    async fn read_copy<T: Send + 'static>(
        &self,
        read: impl FnOnce(FileStore) -> Result<T, FileStoreError> + Send + 'static,
    ) -> Result<T, ShareError> {
        let file_store = self.settings().start.file_store.clone();
        let done = blocking(move || read(file_store)).await;
        let done = done.map_err(|failure| ShareError::Disk(failure.reason))?;
        done.map_err(|error| ShareError::Disk(error.to_string()))
    }

    /// Removes files from the ledger that were stored for a message that was refused.
    pub(crate) async fn unshare_files(self: &Arc<Self>, shared: SharedFiles) {
        if shared.0.is_empty() {
            return;
        }
        if let Err(error) = self.commit(DropFiles { files: shared.0 }).await {
            tracing::warn!(%error, "files of a refused message are still in the database; they go in a day");
        }
    }

    /// Brings files to this node that another one took in.
    pub(crate) async fn bring_files(&self, files: &[Attachment]) -> Result<(), Failure> {
        let is_here = |file: &Attachment| self.settings().start.file_store.has(&file.digest);
        for file in files.iter().filter(|file| !is_here(file)) {
            // Another one may bring it meanwhile.
            let _flight = self.bringing.wait(file.digest).await;
            if !is_here(file) {
                self.bring(file).await?;
            }
        }
        Ok(())
    }

    async fn bring(&self, file: &Attachment) -> Result<(), Failure> {
        let digest = file.digest;
        let read = self.ledger.read(move |rows| rows.kept_file(&digest));
        let kept = read.await.map_err(of_ledger)?;
        if kept.is_none_or(|kept| kept.length != file.bytes) {
            let reason = format!(
                "the file `{}` is not on this machine, and the database does not have it",
                file.name
            );
            // A node whose ledger was a file before may be about to store it, and has more to store than tries would last.
            let class = match self.settings().start.node {
                Some(_) => Class::Capacity { until: None },
                None => Class::Permanent,
            };
            return Err(Failure::new(class, reason));
        }
        let (file_store, begun) = (self.settings().start.file_store.clone(), file.clone());
        let draft = blocking(move || file_store.begin_known(&begun)).await?;
        let mut draft = draft.map_err(|error| of_copy(&error))?;
        let mut offset = 0;
        while offset < file.bytes {
            let read = self
                .ledger
                .read(move |rows| rows.file_piece(&digest, offset));
            let piece = read.await.map_err(of_ledger)?.unwrap_or_default();
            if piece.is_empty() {
                break;
            }
            offset = offset.saturating_add(u64::try_from(piece.len()).unwrap_or(u64::MAX));
            let written = blocking(move || draft.write(&piece).map(|()| draft)).await?;
            draft = written.map_err(|error| of_copy(&error))?;
        }
        let kept = blocking(move || draft.keep_known(&digest)).await?;
        kept.map_err(|error| of_copy(&error))?;
        tracing::debug!(file = %digest, bytes = file.bytes, "a file was brought to this node");
        Ok(())
    }

    /// Stores the files that rows name, that are on this node and that the ledger does not have: those of a ledger that
    /// was a file before.
    pub(crate) async fn share_old_files(self: Arc<Self>) {
        let mut tries = 0;
        loop {
            let shared = tokio::select! {
                shared = self.try_share_old_files() => shared,
                () = self.stopping.cancelled() => return,
            };
            match shared {
                Ok(0) => return,
                Ok(shared) => {
                    return tracing::info!(
                        shared,
                        "files that only this node had are in the database now, for all nodes"
                    );
                }
                Err(ShareError::Ledger(error)) if error.class() == Class::Transient => {
                    tracing::warn!(%error, "files that only this node has are not all in the database yet");
                }
                Err(error) => {
                    return tracing::error!(%error, "files that only this node has could not be stored in the database; the next start tries it again, and until then other nodes can't use them");
                }
            }
            if !self.pause(tries).await {
                return;
            }
            tries = tries.saturating_add(1);
        }
    }

    pub(crate) async fn try_share_old_files(self: &Arc<Self>) -> Result<usize, ShareError> {
        let most = usize::try_from(FILES_SCAN_MAX).unwrap_or(usize::MAX);
        let mut here = self.read_copy(move |files| files.all(most)).await?;
        let digests: Vec<_> = here.iter().map(|(digest, _)| *digest).collect();
        let unnamed = self.ledger.read(move |rows| rows.unnamed_files(&digests));
        let unnamed: BTreeSet<_> = unnamed.await?.into_iter().collect();
        here.retain(|(digest, _)| !unnamed.contains(digest));
        let mut shared: usize = 0;
        for files in here.chunks(FILES_COMPARED) {
            let digests: Vec<_> = files.iter().map(|(digest, _)| *digest).collect();
            let kept = self.ledger.read(move |rows| rows.kept_files(&digests));
            let kept = kept.await?.into_iter();
            let kept: HashMap<_, _> = kept.map(|file| (file.digest, file.length)).collect();
            let is_missing = |(digest, length): &&(FileDigest, u64)| {
                kept.get(digest).is_none_or(|stored| stored < length)
            };
            for (digest, _) in files.iter().filter(is_missing) {
                match self.share(*digest).await {
                    Ok(_) => shared = shared.saturating_add(1),
                    Err(error @ ShareError::Disk(_)) => {
                        tracing::error!(%error, file = %digest, "other nodes can't use this file; the next start tries it again");
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(shared)
    }

    /// Removes files from the ledger that no row names, and that no node was about to name for [`SWEEP_GRACE`].
    pub(crate) async fn drop_old_files(self: &Arc<Self>) -> Result<usize, LedgerError> {
        let grace = i64::try_from(SWEEP_GRACE.as_millis()).unwrap_or(i64::MAX);
        let before = now().plus_ms(-grace);
        let (mut after, mut gone) = (None, 0);
        loop {
            let read = self.ledger.read(move |rows| unnamed(rows, before, after));
            let (files, next) = read.await?;
            for files in files.chunks(FILES_DROPPED) {
                let files = files.to_vec();
                gone += self.commit(DropFiles { files }).await?;
            }
            if next.is_none() {
                return Ok(gone);
            }
            after = next;
        }
    }
}

/// Old files that no row names among some that the ledger has, and where the next ones begin.
fn unnamed(
    rows: &dyn Read,
    before: Timestamp,
    after: Option<FileDigest>,
) -> Result<(Vec<KeptFile>, Option<FileDigest>), RowsError> {
    let mut old = rows.files_kept_before(before, after.as_ref(), FILES_SCAN_MAX)?;
    if old.is_empty() {
        return Ok((old, None));
    }
    let all = u32::try_from(old.len()).unwrap_or(u32::MAX);
    let next = old.last().filter(|_| all >= FILES_SCAN_MAX);
    let next = next.map(|last| last.digest);
    let digests: Vec<_> = old.iter().map(|file| file.digest).collect();
    let unnamed: BTreeSet<_> = rows.unnamed_files(&digests)?.into_iter().collect();
    old.retain(|file| unnamed.contains(&file.digest));
    Ok((old, next))
}

fn of_copy(error: &FileStoreError) -> Failure {
    let class = match error {
        // The bytes stay what they are.
        FileStoreError::Differs { .. } | FileStoreError::TooLong { .. } => Class::Permanent,
        FileStoreError::Io { .. } => Class::Transient,
    };
    Failure::new(class, error.to_string())
}
