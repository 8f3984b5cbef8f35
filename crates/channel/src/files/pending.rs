//! Copies of messages that are not in the ledger yet, so that a message that is refused leaves none behind.
//!
//! Copies are named after their content, so that messages may share one. A copy is removed if it was not there before
//! the first of the messages that brought it at the same time, and all of them were refused.

use super::FileStore;
use crate::locked;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The copies of all messages that are not in the ledger yet, by path.
#[derive(Debug, Default)]
pub(super) struct Pending(HashMap<PathBuf, SharedCopy>);

#[derive(Debug)]
struct SharedCopy {
    /// So many messages brought it.
    messages: usize,
    /// Nobody else needs it.
    removable: bool,
}

/// The copies of one message that is not in the ledger yet. Dropped, they stay.
#[derive(Debug)]
pub struct PendingCopies {
    file_store: FileStore,
    paths: BTreeSet<PathBuf>,
}

impl Pending {
    /// A copy gets its name; `existed` if another one had it.
    pub(super) fn add(&mut self, path: &Path, existed: bool, of: Option<&mut PendingCopies>) {
        let Some(of) = of else {
            // This caller never reports a refusal, so the copy stays.
            if let Some(copy) = self.0.get_mut(path) {
                copy.removable = false;
            }
            return;
        };
        if !of.paths.insert(path.to_owned()) {
            return;
        }
        let copy = self.0.entry(path.to_owned()).or_insert(SharedCopy {
            messages: 0,
            removable: !existed,
        });
        copy.messages += 1;
    }

    /// One of the messages is decided. Whether the copy has to go.
    fn release(&mut self, path: &Path, refused: bool) -> bool {
        let Some(copy) = self.0.get_mut(path) else {
            return false;
        };
        copy.removable &= refused;
        copy.messages = copy.messages.saturating_sub(1);
        if copy.messages > 0 {
            return false;
        }
        self.0.remove(path).is_some_and(|copy| copy.removable)
    }
}

impl PendingCopies {
    /// None yet.
    #[must_use]
    pub fn new(file_store: &FileStore) -> Self {
        Self {
            file_store: file_store.clone(),
            paths: BTreeSet::new(),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// The message was refused: removes what nobody else needs.
    pub fn remove(mut self) -> io::Result<()> {
        self.release(true)
    }

    fn release(&mut self, refused: bool) -> io::Result<()> {
        let mut pending = locked(&self.file_store.pending);
        let mut result = Ok(());
        for path in std::mem::take(&mut self.paths) {
            if pending.release(&path, refused)
                && let Err(error) = fs::remove_file(&path)
            {
                result = Err(error);
            }
        }
        result
    }
}

impl Drop for PendingCopies {
    fn drop(&mut self) {
        // Nothing is removed, so nothing can fail.
        let _released = self.release(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::FILE_MAX_BYTES;
    use tempfile::TempDir;

    fn file_store() -> (TempDir, FileStore) {
        let root = tempfile::tempdir().unwrap();
        let file_store = FileStore::open(root.path().join("files"), FILE_MAX_BYTES).unwrap();
        (root, file_store)
    }

    fn bring(file_store: &FileStore, bytes: &[u8]) -> (PathBuf, PendingCopies) {
        let mut copies = PendingCopies::new(file_store);
        let path = bring_into(file_store, bytes, &mut copies);
        (path, copies)
    }

    fn bring_into(file_store: &FileStore, bytes: &[u8], copies: &mut PendingCopies) -> PathBuf {
        let mut draft = file_store.begin(u64::MAX).unwrap();
        draft.write(bytes).unwrap();
        let kept = draft.keep_pending("text/plain", copies).unwrap();
        file_store.path_of(&kept.digest)
    }

    fn keep(file_store: &FileStore, bytes: &[u8]) {
        let mut draft = file_store.begin(u64::MAX).unwrap();
        draft.write(bytes).unwrap();
        draft.keep("text/plain").unwrap();
    }

    #[test]
    fn f4_a_refused_message_leaves_no_copy() {
        let (_root, file_store) = file_store();
        let (path, mut copies) = bring(&file_store, b"one");
        let same = bring_into(&file_store, b"one", &mut copies);
        let other = bring_into(&file_store, b"two", &mut copies);
        assert_eq!(path, same);
        copies.remove().unwrap();
        assert!(!path.exists() && !other.exists());
        let (path, copies) = bring(&file_store, b"one");
        drop(copies);
        assert!(path.exists(), "it was not refused");
        assert!(file_store.pending.lock().unwrap().0.is_empty());
    }

    #[test]
    fn f4_a_shared_copy_goes_last() {
        let (_root, file_store) = file_store();
        let (path, one) = bring(&file_store, b"one");
        let (_, two) = bring(&file_store, b"one");
        one.remove().unwrap();
        assert!(path.exists());
        two.remove().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn f4_a_copy_that_others_need_stays() {
        let (_root, file_store) = file_store();
        let (path, one) = bring(&file_store, b"one");
        let (_, two) = bring(&file_store, b"one");
        drop(two);
        one.remove().unwrap();
        assert!(path.exists(), "another message has it");
        let (_, again) = bring(&file_store, b"one");
        again.remove().unwrap();
        assert!(path.exists(), "it was there before");
        let (path, three) = bring(&file_store, b"three");
        keep(&file_store, b"three");
        three.remove().unwrap();
        assert!(path.exists(), "a channel brought it too");
    }
}
