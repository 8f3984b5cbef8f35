//! Our own copies of files, named after their content: `<state>/files/<aa>/<sha256>`.
//!
//! A copy is written beside, synced and moved into its place, so that whatever has its name is whole. Nothing in
//! here is executable, nothing is named by a sender, and what no row names any more is swept up.

use super::media_type::media_type;
use super::name::Names;
use super::pending::{Pending, PendingCopies};
use super::{MESSAGE_MAX_BYTES, MESSAGE_MAX_FILES};
use crate::locked;
use bridge_core::value::{Attachment, FileDigest};
use sha2::{Digest, Sha256};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use uuid::Uuid;

/// Where copies are written before they have their name.
const DRAFTS: &str = "drafts";
/// How long a copy is kept that no row names: its row may still be on its way.
pub const SWEEP_GRACE: Duration = Duration::from_secs(24 * 3_600);

/// Why a file is not kept.
#[derive(Debug, thiserror::Error)]
pub enum FileStoreError {
    /// The file is longer than allowed.
    #[error("it is longer than {max} bytes")]
    TooLong {
        /// What is allowed.
        max: u64,
    },
    /// What another node stored is not what its name says.
    #[error("the stored bytes of the file {expected} are others: they have the SHA-256 {found}")]
    Differs {
        expected: FileDigest,
        found: FileDigest,
    },
    /// Our own disk.
    #[error("keep a file in {}: {source}", path.display())]
    Io {
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// All copies.
#[derive(Clone, Debug)]
pub struct FileStore {
    root: PathBuf,
    max_bytes: u64,
    /// Held while a copy gets its name and while one is removed, so that no new copy is taken for an old one.
    pub(super) pending: Arc<Mutex<Pending>>,
}

impl FileStore {
    /// Opens it, makes it where it is missing, and removes what a crash left half written. The state directory must
    /// be locked. A file may have `max_bytes`, and never more than a message may have together.
    pub fn open(root: PathBuf, max_bytes: u64) -> Result<Self, FileStoreError> {
        let file_store = Self {
            root,
            max_bytes: max_bytes.min(MESSAGE_MAX_BYTES),
            pending: Arc::default(),
        };
        let drafts = file_store.root.join(DRAFTS);
        make_directory(&drafts).map_err(|source| failed(&drafts, source))?;
        for draft in fs::read_dir(&drafts).map_err(|source| failed(&drafts, source))? {
            let draft = draft.map_err(|source| failed(&drafts, source))?.path();
            fs::remove_file(&draft).map_err(|source| failed(&draft, source))?;
        }
        Ok(file_store)
    }

    /// Longest file.
    #[must_use]
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// What is in a copy.
    pub fn read(&self, digest: &FileDigest) -> Result<Vec<u8>, FileStoreError> {
        let path = self.path_of(digest);
        fs::read(&path).map_err(|source| failed(&path, source))
    }

    /// At most `most` bytes of a copy from an offset on.
    pub fn read_piece(
        &self,
        digest: &FileDigest,
        offset: u64,
        most: usize,
    ) -> Result<Vec<u8>, FileStoreError> {
        let path = self.path_of(digest);
        let mut piece = Vec::new();
        let read = File::open(&path).and_then(|mut file| {
            file.seek(SeekFrom::Start(offset))?;
            let most = u64::try_from(most).unwrap_or(u64::MAX);
            file.take(most).read_to_end(&mut piece)
        });
        read.map_err(|source| failed(&path, source))?;
        Ok(piece)
    }

    /// Begins a copy of at most `max` bytes.
    pub fn begin(&self, max: u64) -> Result<Draft, FileStoreError> {
        self.draft(max.min(self.max_bytes))
    }

    /// Begins a copy of a file that another node took in, by its own settings.
    pub fn begin_known(&self, file: &Attachment) -> Result<Draft, FileStoreError> {
        self.draft(file.bytes)
    }

    fn draft(&self, max: u64) -> Result<Draft, FileStoreError> {
        let path = self.root.join(DRAFTS).join(Uuid::new_v4().to_string());
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|source| failed(&path, source))?;
        Ok(Draft {
            file_store: self.clone(),
            path,
            file,
            digest: Sha256::new(),
            bytes: 0,
            max,
        })
    }

    /// Where our copy of a file is, or will be.
    #[must_use]
    pub fn path_of(&self, digest: &FileDigest) -> PathBuf {
        let name = digest.to_string();
        let shelf = name.get(..2).unwrap_or_default();
        self.root.join(shelf).join(&name)
    }

    /// Whether there is a copy.
    #[must_use]
    pub fn has(&self, digest: &FileDigest) -> bool {
        let found = fs::symlink_metadata(self.path_of(digest));
        found.is_ok_and(|found| found.is_file())
    }

    /// Copies that have been there for the grace time, about `most` of them. Which shelf is first changes with the
    /// hour, so that all get their turn.
    pub fn old(&self, now: SystemTime, most: usize) -> io::Result<Vec<FileDigest>> {
        let since = now.duration_since(SystemTime::UNIX_EPOCH);
        let first = since.map_or(0, |since| since.as_secs() / 3_600);
        let mut found = self.list(first, most)?;
        found.retain(|digest| is_old(&self.path_of(digest), now));
        Ok(found)
    }

    /// Copies and how long they are, about `most` of them.
    pub fn all(&self, most: usize) -> Result<Vec<(FileDigest, u64)>, FileStoreError> {
        let found = self.list(0, most);
        let found = found.map_err(|source| failed(&self.root, source))?;
        // One that can't be looked at is of no use to anybody.
        let length = |digest: FileDigest| {
            let found = fs::symlink_metadata(self.path_of(&digest)).ok()?;
            Some((digest, found.len()))
        };
        Ok(found.into_iter().filter_map(length).collect())
    }

    /// About `most` copies, those of a shelf and of the next ones first.
    fn list(&self, first: u64, most: usize) -> io::Result<Vec<FileDigest>> {
        let mut found = Vec::new();
        for shelf in (first..).take(256).map(|shelf| shelf % 256) {
            let shelf = self.root.join(format!("{shelf:02x}"));
            let entries = match fs::read_dir(&shelf) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            for entry in entries.take(most.saturating_sub(found.len())) {
                let name = entry?.file_name();
                found.extend(FileDigest::parse(&name.to_string_lossy()));
            }
        }
        Ok(found)
    }

    /// Removes a copy, unless it was written again meanwhile.
    pub fn sweep(&self, digest: &FileDigest, now: SystemTime) -> io::Result<bool> {
        let path = self.path_of(digest);
        let _held = locked(&self.pending);
        let swept = is_old(&path, now);
        if swept {
            fs::remove_file(&path)?;
        }
        Ok(swept)
    }
}

fn is_old(path: &Path, now: SystemTime) -> bool {
    let written = fs::symlink_metadata(path).and_then(|found| found.modified());
    written.is_ok_and(|written| {
        now.duration_since(written)
            .is_ok_and(|age| age >= SWEEP_GRACE)
    })
}

/// A copy that is being written; dropped, it is gone.
#[derive(Debug)]
pub struct Draft {
    file_store: FileStore,
    path: PathBuf,
    file: File,
    digest: Sha256,
    bytes: u64,
    max: u64,
}

/// A copy that has its place, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    pub(super) digest: FileDigest,
    media_type: String,
    bytes: u64,
}

impl Draft {
    /// Takes some more bytes.
    pub fn write(&mut self, piece: &[u8]) -> Result<(), FileStoreError> {
        let more = u64::try_from(piece.len()).unwrap_or(u64::MAX);
        let bytes = self.bytes.saturating_add(more);
        if bytes > self.max {
            return Err(FileStoreError::TooLong { max: self.max });
        }
        self.bytes = bytes;
        self.digest.update(piece);
        let written = self.file.write_all(piece);
        written.map_err(|source| failed(&self.path, source))
    }

    /// Takes all that a reader has.
    pub fn write_all_of(&mut self, reader: &mut impl Read) -> Result<(), FileStoreError> {
        let mut piece = vec![0; 64 << 10];
        loop {
            match reader.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(read) => self.write(piece.get(..read).unwrap_or_default())?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(failed(&self.path, source)),
            }
        }
    }

    /// Syncs it and gives it its name. What its sender claims it is counts only where its bytes do not say it.
    pub fn keep(self, claimed: &str) -> Result<StoredFile, FileStoreError> {
        self.keep_as(claimed, None)
    }

    /// The same for a message that may be refused.
    pub fn keep_pending(
        self,
        claimed: &str,
        copies: &mut PendingCopies,
    ) -> Result<StoredFile, FileStoreError> {
        self.keep_as(claimed, Some(copies))
    }

    /// The same for what another node stored: it must be what its name says.
    pub fn keep_known(mut self, expected: &FileDigest) -> Result<(), FileStoreError> {
        let found = FileDigest::new(self.digest.finalize_reset().into());
        if found != *expected {
            let expected = *expected;
            return Err(FileStoreError::Differs { expected, found });
        }
        let place = self.file_store.path_of(expected);
        let settled = self.settle(&place, None);
        settled.map_err(|source| failed(&place, source))
    }

    fn keep_as(
        mut self,
        claimed: &str,
        copies: Option<&mut PendingCopies>,
    ) -> Result<StoredFile, FileStoreError> {
        let digest = FileDigest::new(self.digest.finalize_reset().into());
        let place = self.file_store.path_of(&digest);
        let media_type = media_type(&mut self.file, claimed);
        let media_type = media_type.map_err(|source| failed(&place, source))?;
        let settled = self.settle(&place, copies);
        settled.map_err(|source| failed(&place, source))?;
        Ok(StoredFile {
            digest,
            media_type,
            bytes: self.bytes,
        })
    }

    fn settle(&mut self, place: &Path, copies: Option<&mut PendingCopies>) -> io::Result<()> {
        self.file.sync_all()?;
        let shelf = place.parent().unwrap_or(&self.file_store.root);
        make_directory(shelf)?;
        let pending = Arc::clone(&self.file_store.pending);
        let mut pending = locked(&pending);
        let existed = fs::symlink_metadata(place).is_ok();
        fs::rename(&self.path, place)?;
        pending.add(place, existed, copies);
        File::open(shelf)?.sync_all()?;
        File::open(&self.file_store.root)?.sync_all()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After `keep` it has another name.
        let _gone = fs::remove_file(&self.path);
    }
}

/// The files of one message or answer, within what one may have.
#[derive(Debug, Default)]
pub struct Bundle {
    files: Vec<Attachment>,
    names: Names,
    bytes: u64,
}

impl Bundle {
    /// How long the next file may be; none when no more may come.
    #[must_use]
    pub fn room(&self, file_store: &FileStore) -> Option<u64> {
        let left = MESSAGE_MAX_BYTES.saturating_sub(self.bytes);
        let open = self.files.len() < MESSAGE_MAX_FILES && left > 0;
        open.then(|| left.min(file_store.max_bytes()))
    }

    /// Adds a copy under the name that its sender gave it.
    pub fn add(&mut self, label: &str, kept: StoredFile) {
        self.bytes = self.bytes.saturating_add(kept.bytes);
        self.files.push(Attachment {
            name: self.names.give(label),
            media_type: kept.media_type,
            digest: kept.digest,
            bytes: kept.bytes,
        });
    }

    /// What it holds.
    #[must_use]
    pub fn into_files(self) -> Vec<Attachment> {
        self.files
    }
}

fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn failed(path: &Path, source: io::Error) -> FileStoreError {
    let path = path.to_owned();
    FileStoreError::Io { path, source }
}

#[cfg(test)]
mod tests;
