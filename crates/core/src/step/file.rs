//! Files of messages and answers where several daemons share the ledger: stored there before a row names them, so that
//! every node can read what one took in.
//!
//! Every node that is about to name a file says so first, with [`StoreFile`], also when the file is stored already. A file
//! is removed only if nobody said so since it was looked at: so a file that no row names yet is not taken from under a node
//! that is about to name it, whichever node stored it.

use super::{RunError, Transition, Tx};
use crate::port::{Change, FleetChange};
use crate::value::{FileDigest, KeptFile, Timestamp};

/// Says that this node is about to name a file, and stores bytes behind those that are stored of it. Bytes for another
/// place are left out: another node was faster, and the caller learns where to go on.
#[derive(Clone, Debug)]
pub struct StoreFile {
    pub digest: FileDigest,
    /// The file as the caller last stored it; absent at first.
    pub known: Option<KeptFile>,
    /// The bytes behind it.
    pub bytes: Vec<u8>,
}

/// What is stored of a file now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStored {
    pub file: KeptFile,
    /// It was as the caller knew it: no other node is about to name it.
    pub untouched: bool,
}

impl Transition for StoreFile {
    type Outcome = FileStored;
    const NAME: &'static str = "store_file";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<FileStored, RunError> {
        let digest = self.digest;
        let found = tx.kept_file(&digest)?;
        let end = |file: Option<KeptFile>| file.map_or(0, |file| file.length);
        let offset = end(found);
        let more = u64::try_from(self.bytes.len()).unwrap_or(u64::MAX);
        let fits = offset == end(self.known) && more > 0;
        let file = KeptFile {
            digest,
            length: if fits {
                offset.saturating_add(more)
            } else {
                offset
            },
            kept_at: found.map_or(now, |found| found.kept_at.plus_ms(1).max(now)),
        };
        tx.change(Change::Fleet(FleetChange::KeepFile(file)))?;
        if fits {
            tx.change(Change::Fleet(FleetChange::NewFilePiece {
                digest,
                offset,
                bytes: self.bytes,
            }))?;
        }
        Ok(FileStored {
            file,
            untouched: found == self.known,
        })
    }
}

/// Removes files that no row names, as they were when that was looked at.
#[derive(Clone, Debug)]
pub struct DropFiles {
    pub files: Vec<KeptFile>,
}

impl Transition for DropFiles {
    /// How many are gone.
    type Outcome = usize;
    const NAME: &'static str = "drop_files";

    fn apply(self, tx: &mut Tx<'_>, _now: Timestamp) -> Result<usize, RunError> {
        let mut gone = 0;
        for file in self.files {
            if tx.kept_file(&file.digest)? == Some(file) {
                tx.change(Change::Fleet(FleetChange::DropFile(file)))?;
                gone += 1;
            }
        }
        Ok(gone)
    }
}
