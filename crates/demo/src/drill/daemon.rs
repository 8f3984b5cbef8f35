//! The daemon of `drill`: our own binary with a CODEX_HOME in one private directory, which can be killed and started
//! again.

use super::Ground;
use super::config::{DrillConfig, scene};
use crate::args::DrillArgs;
use crate::machine::start_daemon;
use crate::strays::Strays;
use anyhow::{Context, bail};
use bridge_core::value::ProcessStamp;
use bridge_daemon::term;
use bridge_host::process;
use bridge_host::process::child::{ChildProcess, kill_now};
use bridge_sim::drill::{DaemonStage, Scene, Stage};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// How long the daemon may take to stop when everything is quiet.
pub(super) const STOP_PATIENCE: Duration = Duration::from_secs(30);
/// Variables that would point the private daemon at the user's own setup.
pub(crate) const NOT_FOR_THE_DAEMON: [&str; 13] = [
    "CODEX_BRIDGE_CODEX_BIN",
    "CODEX_BRIDGE_DEMO_LEDGER_URL",
    "CODEX_BRIDGE_LEDGER_URL",
    "CODEX_BRIDGE_STATE_DIR",
    "CODEX_CHANNEL_MOLECULE_STATE_DIR",
    "CODEX_HOME",
    "MOLECULE_ORG_ID",
    "MOLECULE_WORKSPACES",
    "MOLECULE_WORKSPACE_TOKEN",
    "MOLECULE_WORKSPACE_TOKEN_FILE",
    "OPENAI_API_KEY",
    "PLATFORM_URL",
    "WORKSPACE_ID",
];

#[derive(Debug)]
pub(super) struct DrillDaemon {
    directory: TempDir,
    daemon: Option<ChildProcess>,
    strays: Strays,
}

impl DrillDaemon {
    /// Starts the model, the platform and the daemon.
    pub(super) async fn prepare(
        codex: PathBuf,
        args: &DrillArgs,
        seed: u64,
    ) -> anyhow::Result<(Self, Scene)> {
        let directory = tempfile::Builder::new()
            .prefix("codex-bridge-drill-")
            .tempdir()?;
        let scene = scene(args, seed).await?;
        let mut stage = Self {
            directory,
            daemon: None,
            strays: Strays::adopt_all()?,
        };
        stage.write_config(&codex, args, &scene)?;
        stage.start().context("start the daemon")?;
        Ok((stage, scene))
    }

    fn write_config(&self, codex: &Path, args: &DrillArgs, scene: &Scene) -> anyhow::Result<()> {
        for name in ["home", "person", "tmp"] {
            std::fs::create_dir(self.path().join(name))?;
        }
        std::fs::write(
            self.path().join("home/config.toml"),
            scene.model.codex_config(),
        )?;
        let settings = DrillConfig {
            codex,
            codex_home: &self.path().join("home"),
            transport: args.transport,
            platform: &scene.talks.settings(self.path(), "")?,
            node: None,
        };
        std::fs::write(self.path().join("codex-bridge.toml"), settings.text())?;
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Stage for DrillDaemon {
    fn start(&mut self) -> io::Result<()> {
        let log = self.path().join("daemon.log");
        let daemon = start_daemon(self.path(), &log, &[], &NOT_FOR_THE_DAEMON)?;
        self.daemon = Some(daemon);
        Ok(())
    }

    async fn ended(&mut self) -> io::Result<String> {
        match &mut self.daemon {
            Some(daemon) => {
                let status = daemon.ended().await?;
                Ok(format!(
                    "the daemon ended by itself: {status}; see daemon.log"
                ))
            }
            None => std::future::pending().await,
        }
    }

    fn work(&self) -> PathBuf {
        self.path().join("state/work")
    }

    fn tell(&self, words: &str) {
        term::complain(words);
    }
}

impl DaemonStage for DrillDaemon {
    async fn kill(&mut self) -> io::Result<()> {
        match self.daemon.take() {
            Some(mut daemon) => daemon.kill().await,
            None => Ok(()),
        }
    }

    /// A Codex is a child of a keeper, and a keeper is a child of the daemon that started it, or ours since that one
    /// died.
    fn kill_codex(&mut self) -> bool {
        let daemon = self.daemon.as_ref().map(ChildProcess::pid);
        let mut keepers = self.strays.living(daemon.as_slice());
        keepers.extend(daemon.map(process::children).unwrap_or_default());
        let codex = keepers
            .into_iter()
            .flat_map(process::children)
            .find_map(process::stamp);
        codex.is_some_and(|codex: ProcessStamp| kill_now(&codex))
    }
}

impl Ground for DrillDaemon {
    async fn stop_daemons(&mut self) -> anyhow::Result<()> {
        let Some(mut daemon) = self.daemon.take() else {
            return Ok(());
        };
        match daemon.stop(STOP_PATIENCE).await? {
            Some(status) if status.success() => {}
            Some(status) => bail!("the daemon stopped with {status}"),
            None => bail!(
                "the daemon did not stop within {} s",
                STOP_PATIENCE.as_secs()
            ),
        }
        match self.strays.gone().await {
            left if left.is_empty() => Ok(()),
            left => bail!("processes are left behind: {left:?}"),
        }
    }

    async fn clear(&mut self) {
        if let Err(error) = self.kill().await {
            tracing::debug!(%error, "the daemon of the drill could not be killed");
        }
        self.strays.kill().await;
    }

    fn keep(self, history: &str) -> anyhow::Result<PathBuf> {
        std::fs::write(self.path().join("history.txt"), history).context("write the history")?;
        Ok(self.directory.keep())
    }

    fn remove(self) -> anyhow::Result<()> {
        self.directory.close().context("remove the directory")
    }
}
