//! What is put on stage to be measured: the built daemon, the real Codex by a minimal client, and what the kernel says
//! of a process. What is measured with them belongs to the parts.

pub(crate) mod app_server;
pub(crate) mod canvas;
pub(crate) mod daemon;
pub(crate) mod disk;
pub(crate) mod log;
pub(crate) mod process;
pub(crate) mod served;
pub(crate) mod socket;

use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// Longest wait for anything that should come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A private place with a CODEX_HOME that knows one model, a HOME, and a directory to work in.
#[derive(Debug)]
pub(crate) struct Place {
    directory: TempDir,
}

impl Place {
    /// `config` is the whole of CODEX_HOME's config.toml. It lies in the temporary directory, because the path of a
    /// socket must be short; what the daemon and Codex write there must cost what it costs their users.
    pub(crate) fn new(config: &str) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("cb-bench-").tempdir()?;
        disk::kind_of(
            directory.path(),
            "set TMPDIR to a directory on a disk, with a short path",
        )?;
        for name in ["home", "person", "tmp", "work"] {
            std::fs::create_dir(directory.path().join(name))?;
        }
        std::fs::write(directory.path().join("home/config.toml"), config)?;
        Ok(Self { directory })
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn codex_home(&self) -> std::path::PathBuf {
        self.path().join("home")
    }

    /// What a program of ours or of others gets as its environment here, beside PATH.
    pub(crate) fn env(&self) -> Vec<(&'static str, std::path::PathBuf)> {
        vec![
            ("CODEX_HOME", self.codex_home()),
            // A login shell of a person's own profile would take its own time.
            ("HOME", self.path().join("person")),
            ("TMPDIR", self.path().join("tmp")),
        ]
    }
}
