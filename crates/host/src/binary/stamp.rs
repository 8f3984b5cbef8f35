//! Which file a Codex process was started from, kept beside its sockets: another file may lie at that path by now, and
//! the next daemon may be told another path.

use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Its name in the directory of one life of Codex.
const STAMP_FILE: &str = "started-from.json";

/// A file as it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BinaryStamp {
    pub(crate) path: PathBuf,
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl BinaryStamp {
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let found = path.metadata()?;
        Ok(Self {
            path: path.to_owned(),
            device: found.dev(),
            inode: found.ino(),
            bytes: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
        })
    }

    /// Keeps it for the next daemon.
    pub(crate) fn write(&self, life: &Path) -> io::Result<()> {
        let text = serde_json::to_vec(self)?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(life.join(STAMP_FILE))?.write_all(&text)
    }

    /// What is known of a life that an earlier daemon began.
    pub(crate) fn read(life: &Path) -> Option<Self> {
        let text = std::fs::read(life.join(STAMP_FILE)).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaced_file_has_another_stamp() {
        let life = tempfile::tempdir().unwrap();
        let codex = life.path().join("codex");
        std::fs::write(&codex, "old").unwrap();
        let stamp = BinaryStamp::of(&codex).unwrap();
        stamp.write(life.path()).unwrap();
        assert_eq!(BinaryStamp::read(life.path()), Some(stamp.clone()));
        assert_eq!(BinaryStamp::of(&codex).unwrap(), stamp);
        std::fs::write(life.path().join("new"), "new").unwrap();
        std::fs::rename(life.path().join("new"), &codex).unwrap();
        assert_ne!(BinaryStamp::of(&codex).unwrap(), stamp);
    }
}
