//! The files that come with a message of another agent or of the local channel: stored before its transition, because
//! the rows name them, and removed again when no row does.

use crate::api::service::DaemonService;
use crate::fleet::SharedFiles;
use bridge_channel::files::{Bundle, FileStore, FileStoreError, MESSAGE_MAX_FILES, PendingCopies};
use bridge_core::port::{Ledger, LedgerError};
use bridge_core::value::Attachment;
use bridge_front::{NewFile, SubmitError};

/// What a file is called that has no name.
const NAMELESS: &str = "file";

/// What was kept of a message that is not in the ledger yet.
#[derive(Debug)]
pub(crate) struct NewCopies {
    pending: PendingCopies,
    shared: SharedFiles,
}

impl<L: Ledger> DaemonService<L> {
    /// Keeps the files of a message, all or none: the sender still has them and learns it at once.
    pub(crate) async fn keep_files(
        &self,
        files: Vec<NewFile>,
    ) -> Result<(Vec<Attachment>, NewCopies), SubmitError> {
        let file_store = self.daemon.settings().start.file_store.clone();
        let (kept, pending) = keep(file_store, files).await?;
        match self.daemon.share_files(&kept).await {
            Ok(shared) => Ok((kept, NewCopies { pending, shared })),
            Err(error) => {
                remove(pending).await;
                Err(LedgerError::from(error).into())
            }
        }
    }

    /// Removes the files of a message that was refused.
    pub(crate) async fn remove_files(&self, copies: NewCopies) {
        remove(copies.pending).await;
        self.daemon.unshare_files(copies.shared).await;
    }
}

async fn keep(
    file_store: FileStore,
    files: Vec<NewFile>,
) -> Result<(Vec<Attachment>, PendingCopies), SubmitError> {
    let mut copies = PendingCopies::new(&file_store);
    if files.is_empty() {
        return Ok((Vec::new(), copies));
    }
    let kept = tokio::task::spawn_blocking(move || {
        let kept = keep_all(&file_store, files, &mut copies);
        (kept, copies)
    });
    let (kept, copies) = kept.await.map_err(|_| SubmitError::Stopping)?;
    match kept {
        Ok(kept) => Ok((kept, copies)),
        Err(error) => {
            remove(copies).await;
            Err(error)
        }
    }
}

async fn remove(copies: PendingCopies) {
    let removed = tokio::task::spawn_blocking(move || copies.remove()).await;
    if let Ok(Err(error)) = removed {
        tracing::error!(%error, "the files of a refused message could not be removed; they are swept up in a day");
    }
}

fn keep_all(
    file_store: &FileStore,
    files: Vec<NewFile>,
    copies: &mut PendingCopies,
) -> Result<Vec<Attachment>, SubmitError> {
    let mut bundle = Bundle::default();
    for file in files {
        let name = file.name.unwrap_or_else(|| NAMELESS.to_owned());
        let Some(room) = bundle.room(file_store) else {
            return Err(SubmitError::Unfit(format!(
                "the message has more than {MESSAGE_MAX_FILES} files, or too much in them; nothing was stored"
            )));
        };
        let mut stored = || {
            let mut draft = file_store.begin(room)?;
            draft.write(&file.bytes)?;
            draft.keep_pending(file.media_type.as_deref().unwrap_or_default(), copies)
        };
        match stored() {
            Ok(kept) => bundle.add(&name, kept),
            Err(error @ FileStoreError::TooLong { .. }) => {
                let name = bridge_channel::files::clean(&name);
                return Err(SubmitError::Unfit(format!(
                    "the file `{name}` is not taken: {error}; nothing was stored"
                )));
            }
            Err(error @ (FileStoreError::Io { .. } | FileStoreError::Differs { .. })) => {
                tracing::error!(%error, "a file of another agent could not be kept");
                let why =
                    "a file could not be kept on our disk; nothing was stored, send it again later";
                return Err(SubmitError::NoRoom(why.to_owned()));
            }
        }
    }
    Ok(bundle.into_files())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn files_are_kept_all_or_none() {
        let root = tempfile::tempdir().unwrap();
        let file_store = FileStore::open(root.path().join("files"), 10).unwrap();
        let file = |bytes: usize| NewFile {
            name: Some("../a b".to_owned()),
            media_type: None,
            bytes: vec![b'x'; bytes],
        };
        let store = |files| keep(file_store.clone(), files);
        let (kept, _copies) = store(vec![file(3), file(4)]).await.unwrap();
        assert_eq!(kept.len(), 2);
        assert_ne!(kept[0].name, kept[1].name);
        assert_eq!(file_store.read(&kept[0].digest).unwrap(), b"xxx");
        let (one, copies) = store(vec![file(5)]).await.unwrap();
        remove(copies).await;
        assert!(file_store.read(&one[0].digest).is_err());
        let refused = store(vec![file(5), file(11)]).await.unwrap_err();
        assert!(
            refused.to_string().contains("longer than 10 bytes"),
            "{refused}"
        );
        assert!(
            file_store.read(&one[0].digest).is_err(),
            "the first of two is removed"
        );
        let many = (0..=MESSAGE_MAX_FILES).map(|_| file(1)).collect();
        let refused = store(many).await;
        assert!(matches!(refused, Err(SubmitError::Unfit(_))));
    }
}
