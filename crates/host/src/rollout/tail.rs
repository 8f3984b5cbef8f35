//! Reads what Codex appended to a rollout file since it was last read.
//!
//! Codex only ever appends, or puts another file into its place. So it is enough to look whether it still is the same
//! file and what stands right before the new bytes; all of it is read again when it is another file, and once after a
//! restart. What it no longer begins with must be stored anew, as a whole.

use super::error::RolloutError;
use super::home::CodexHome;
use super::path::RolloutPath;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};

/// Bytes right before the new ones that are compared each time.
const OVERLAP: usize = 4096;
/// Read at a time when nothing is kept.
const BLOCK: usize = 64 * 1024;

/// How far a file was read: the length and the SHA-256 of everything before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RolloutMark {
    /// So many bytes.
    pub offset: u64,
    /// Of these; all zero where there are none.
    pub digest: [u8; 32],
}

/// Bytes to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutSegment {
    /// Where they begin.
    pub offset: u64,
    pub bytes: Vec<u8>,
    /// With these stored.
    pub mark: RolloutMark,
    /// Whether there is more that can be read at once.
    pub more: bool,
}

/// What became of a file since it was last read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutChange {
    /// Nothing that is whole.
    None,
    Appended(RolloutSegment),
    /// It does not begin with what was read: it was unpacked, compressed or exchanged. Its bytes must be read and stored
    /// anew, from the beginning, under the path that the home has for the thread now.
    Rewritten,
    /// It is not there any more.
    Gone,
}

/// Follows one file.
#[derive(Debug)]
pub struct RolloutTail {
    path: RolloutPath,
    mark: RolloutMark,
    known: Option<Known>,
}

/// What is known of the file that was read up to the mark.
#[derive(Debug)]
struct Known {
    device: u64,
    inode: u64,
    hasher: Sha256,
    /// The last bytes before the mark.
    overlap: Vec<u8>,
}

impl RolloutTail {
    /// Follows a file of which everything up to the mark is stored.
    #[must_use]
    pub fn new(path: RolloutPath, mark: RolloutMark) -> Self {
        Self {
            path,
            mark,
            known: None,
        }
    }

    /// Where the file was when it was last read: archiving a thread moves it.
    #[must_use]
    pub fn path(&self) -> &RolloutPath {
        &self.path
    }

    /// How much of it is stored.
    #[must_use]
    pub fn mark(&self) -> RolloutMark {
        self.mark
    }

    /// Reads what is new, at most `max` bytes and at least one. The same again until [`Self::stored`] was called.
    pub fn read(&mut self, home: &CodexHome, max: usize) -> Result<RolloutChange, RolloutError> {
        let file = match home.read(&self.path) {
            Err(error) if error.is_missing() => match home.file(self.path.rollout())? {
                None => return Ok(RolloutChange::Gone),
                Some(path) if path.is_compressed() != self.path.is_compressed() => {
                    return Ok(RolloutChange::Rewritten);
                }
                Some(path) => {
                    self.path = path;
                    home.read(&self.path)?
                }
            },
            found => found?,
        };
        let place = home.place(&self.path);
        let change = self.change(&file, max.max(1));
        change.map_err(RolloutError::io("read", &place))
    }

    fn change(&mut self, file: &File, max: usize) -> io::Result<RolloutChange> {
        if !self.is_same(file)? {
            return Ok(RolloutChange::Rewritten);
        }
        let offset = self.mark.offset;
        let mut bytes = read_at(file, offset, max)?;
        let end = offset.saturating_add(length(&bytes));
        let mut more = file.metadata()?.len() > end;
        if !self.path.is_compressed() {
            match bytes.iter().rposition(|byte| *byte == b'\n') {
                Some(last) => bytes.truncate(last.saturating_add(1)),
                // A line longer than a segment goes in parts, once all of it is there.
                None if more && has_newline(file, end)? => {}
                None => bytes.clear(),
            }
            more = more && !bytes.is_empty();
        }
        let Some(known) = self.known.as_ref().filter(|_| !bytes.is_empty()) else {
            return Ok(RolloutChange::None);
        };
        let mut hasher = known.hasher.clone();
        hasher.update(&bytes);
        let mark = RolloutMark {
            offset: offset.saturating_add(length(&bytes)),
            digest: hasher.finalize().into(),
        };
        Ok(RolloutChange::Appended(RolloutSegment {
            offset,
            bytes,
            mark,
            more,
        }))
    }

    /// The segment is stored; the next one begins behind it.
    pub fn stored(&mut self, segment: &RolloutSegment) {
        if segment.offset != self.mark.offset {
            return;
        }
        self.mark = segment.mark;
        if let Some(known) = &mut self.known {
            known.hasher.update(&segment.bytes);
            keep_last(&mut known.overlap, &segment.bytes);
        }
    }

    /// Whether the file still begins with what was read.
    fn is_same(&mut self, file: &File) -> io::Result<bool> {
        let found = file.metadata()?;
        if found.len() < self.mark.offset {
            return Ok(false);
        }
        if let Some(known) = &self.known
            && (known.device, known.inode) == (found.dev(), found.ino())
        {
            let before = self.mark.offset.saturating_sub(length(&known.overlap));
            return Ok(read_at(file, before, known.overlap.len())? == known.overlap);
        }
        let (hasher, overlap) = read_up_to(file, self.mark.offset)?;
        let digest: [u8; 32] = hasher.clone().finalize().into();
        let is_same = self.mark.offset == 0 || digest == self.mark.digest;
        self.known = is_same.then_some(Known {
            device: found.dev(),
            inode: found.ino(),
            hasher,
            overlap,
        });
        Ok(is_same)
    }
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// As many bytes as there are, up to `max`.
fn read_at(file: &File, offset: u64, max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let max = u64::try_from(max).unwrap_or(u64::MAX);
    At { file, offset }.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads from a place without moving the file's own.
struct At<'a> {
    file: &'a File,
    offset: u64,
}

impl Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.offset)?;
        self.offset = self.offset.saturating_add(u64::try_from(read).unwrap_or(0));
        Ok(read)
    }
}

fn has_newline(file: &File, offset: u64) -> io::Result<bool> {
    let mut rest = At { file, offset };
    let mut block = vec![0; BLOCK];
    loop {
        let read = rest.read(&mut block)?;
        let block = block.get(..read).unwrap_or_default();
        if block.is_empty() || block.contains(&b'\n') {
            return Ok(!block.is_empty());
        }
    }
}

/// The digest of the file up to there, and the last bytes before.
fn read_up_to(file: &File, end: u64) -> io::Result<(Sha256, Vec<u8>)> {
    let mut rest = At { file, offset: 0 }.take(end);
    let mut hasher = Sha256::new();
    let mut overlap = Vec::new();
    let mut block = vec![0; BLOCK];
    loop {
        let read = rest.read(&mut block)?;
        let block = block.get(..read).unwrap_or_default();
        if block.is_empty() {
            return Ok((hasher, overlap));
        }
        hasher.update(block);
        keep_last(&mut overlap, block);
    }
}

fn keep_last(overlap: &mut Vec<u8>, bytes: &[u8]) {
    let from = bytes.len().saturating_sub(OVERLAP);
    overlap.extend_from_slice(bytes.get(from..).unwrap_or_default());
    let surplus = overlap.len().saturating_sub(OVERLAP);
    overlap.drain(..surplus);
}
