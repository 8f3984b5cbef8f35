//! Where the measured ledgers lie: on a disk, beside the built daemon. A file system in memory would make every commit
//! free, so it is refused.

use anyhow::Context;
use nix::sys::statfs::{self, FsType};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A private directory on a disk.
#[derive(Debug)]
pub(crate) struct Place {
    directory: TempDir,
    /// What kind of file system it is on, in words.
    pub(crate) kind: &'static str,
}

impl Place {
    pub(crate) fn beside(program: &Path) -> anyhow::Result<Self> {
        let beside = program
            .canonicalize()
            .context("look for the built daemon")?;
        let beside = beside.parent().context("the built daemon lies nowhere")?;
        let directory = tempfile::Builder::new()
            .prefix("bench-ledger-")
            .tempdir_in(beside)
            .with_context(|| format!("make a directory in {}", beside.display()))?;
        let kind = kind_of(directory.path())?;
        Ok(Self { directory, kind })
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

const KINDS: [(FsType, &str); 5] = [
    (statfs::EXT4_SUPER_MAGIC, "ext4"),
    (statfs::XFS_SUPER_MAGIC, "xfs"),
    (statfs::BTRFS_SUPER_MAGIC, "btrfs"),
    (statfs::OVERLAYFS_SUPER_MAGIC, "overlayfs"),
    (statfs::NFS_SUPER_MAGIC, "nfs"),
];

fn kind_of(path: &Path) -> anyhow::Result<&'static str> {
    let found = statfs::statfs(path)?.filesystem_type();
    anyhow::ensure!(
        found != statfs::TMPFS_MAGIC,
        "{} is in memory (tmpfs): a commit there costs nothing, so nothing is measured; build into a directory on a disk",
        path.display()
    );
    let known = KINDS.iter().find(|(kind, _)| *kind == found);
    Ok(known.map_or("a file system of another kind", |(_, name)| name))
}
