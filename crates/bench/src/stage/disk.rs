//! Whether files lie on a disk. A file system in memory would make every commit free, so it is refused. Which directory
//! is chosen belongs to whoever writes there.

use anyhow::Context;
use nix::sys::statfs::{self, FsType};
use std::path::Path;

const KINDS: [(FsType, &str); 5] = [
    (statfs::EXT4_SUPER_MAGIC, "ext4"),
    (statfs::XFS_SUPER_MAGIC, "xfs"),
    (statfs::BTRFS_SUPER_MAGIC, "btrfs"),
    (statfs::OVERLAYFS_SUPER_MAGIC, "overlayfs"),
    (statfs::NFS_SUPER_MAGIC, "nfs"),
];

/// What kind of file system this is on, in words; an error where that is memory. `instead` tells the reader what to do
/// then.
pub(crate) fn kind_of(path: &Path, instead: &str) -> anyhow::Result<&'static str> {
    let found = statfs::statfs(path)
        .with_context(|| format!("look what {} is on", path.display()))?
        .filesystem_type();
    words(found).with_context(|| {
        format!(
            "{} is in memory (tmpfs): a commit there costs nothing, so nothing is measured; {instead}",
            path.display()
        )
    })
}

/// Nothing for memory.
fn words(found: FsType) -> Option<&'static str> {
    if found == statfs::TMPFS_MAGIC {
        return None;
    }
    let known = KINDS.iter().find(|(kind, _)| *kind == found);
    Some(known.map_or("a file system of another kind", |(_, name)| name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_memory_is_refused() {
        assert_eq!(words(statfs::TMPFS_MAGIC), None);
        assert_eq!(words(statfs::EXT4_SUPER_MAGIC), Some("ext4"));
        assert_eq!(
            words(statfs::PROC_SUPER_MAGIC),
            Some("a file system of another kind")
        );
        assert!(kind_of(Path::new("/proc/none"), "").is_err());
    }
}
