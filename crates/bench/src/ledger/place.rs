//! Where the measured ledgers lie: on a disk, beside the built daemon. What is a disk is
//! `stage::disk`'s to say.

use crate::stage::disk;
use anyhow::Context;
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
        let kind = disk::kind_of(directory.path(), "build into a directory on a disk")?;
        Ok(Self { directory, kind })
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}
