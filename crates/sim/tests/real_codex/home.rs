//! A private home for the real Codex, and the flags that keep it off the network.
//! Nothing of the developer's own Codex or environment is read or written.
//! What the tests ask of it is in the tests.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use bridge_sim::{ScriptedModel, codex_for_tests};
use tempfile::TempDir;
use tokio::process::Command;

/// How long one run of Codex may take before the test fails.
pub(crate) const RUN_LIMIT: Duration = Duration::from_secs(120);

/// Codex would otherwise fetch plugins, send analytics, wait for ever for a model that is not
/// there, and start a login shell per thread.
const QUIET: [&str; 8] = [
    "-c",
    "features.plugins=false",
    "-c",
    "features.shell_snapshot=false",
    "-c",
    "features.unbounded_connection_retries=false",
    "-c",
    "analytics.enabled=false",
];

/// A CODEX_HOME and a working directory of their own.
pub(crate) struct Home {
    dir: TempDir,
}

impl Home {
    pub(crate) fn new(model: &ScriptedModel) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["codex", "work"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
        }
        std::fs::write(dir.path().join("codex/config.toml"), model.codex_config()).unwrap();
        Self { dir }
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// Codex with nothing of our own environment but the search path.
    pub(crate) fn codex(&self, subcommand: &str) -> Command {
        let mut command = Command::new(codex_for_tests().unwrap());
        command
            .arg(subcommand)
            .args(QUIET)
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("HOME", self.dir.path())
            .env("CODEX_HOME", self.dir.path().join("codex"))
            .current_dir(self.work())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }
}
