//! The daemon of `drill`: our own binary with a CODEX_HOME in one private directory, which can be killed and started
//! again.

use crate::args::{DrillArgs, DrillSink, DrillTransport};
use anyhow::{Context, bail};
use bridge_core::value::ProcessStamp;
use bridge_daemon::term;
use bridge_host::process;
use bridge_host::process::child::{ChildOptions, ChildProcess, Orphans, kill_now};
use bridge_sim::SinkKind;
use bridge_sim::drill::{Scene, Stage};
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// How long the daemon may take to stop when everything is quiet.
const STOP_PATIENCE: Duration = Duration::from_secs(30);
/// How long processes that are to end may take to be gone.
const GONE_PATIENCE: Duration = Duration::from_secs(10);
const GONE_PAUSE: Duration = Duration::from_millis(20);
/// So many looks in a row must find nothing: a process that changes its parent while we look may be missed by one.
const GONE_LOOKS: u32 = 3;

/// Variables that would point the private daemon at the user's own setup.
const NOT_FOR_THE_DAEMON: [&str; 11] = [
    "CODEX_BRIDGE_CODEX_BIN",
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
    orphans: Orphans,
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
        let kind = match args.sink {
            DrillSink::Idempotent => SinkKind::Idempotent,
            DrillSink::Probeable => SinkKind::Probeable,
        };
        let scene = Scene::set(kind, seed)
            .await
            .context("start the model and the platform")?;
        let mut stage = Self {
            directory,
            daemon: None,
            orphans: Orphans::adopt_all()?,
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
        let transport = match args.transport {
            DrillTransport::Socket => "socket",
            DrillTransport::Stdio => "stdio",
        };
        let quoted = |path: &Path| serde_json::Value::from(path.display().to_string()).to_string();
        // A daemon that is restarted a hundred times on purpose needs a wider limit and shorter pauses, and few turns
        // at a time, or on a small machine each would last from one kill to the next. Peers may do here what owners
        // may. Chats get no notices about progress, because every message there is counted. Nothing else differs from
        // an ordinary daemon.
        let config = format!(
            "[daemon]\nturns_max = 2\nturns_reserved = 0\nturns_per_sender = 2\ndrain_secs = 10\n\n\
             [codex]\nbin = {bin}\nhome = {home}\ntransport = \"{transport}\"\nlinger_secs = 60\nrestarts_per_minute = 600\n\n\
             [turn]\nbackoff_base_ms = 100\nconfig_probe_secs = 1\ntimeout_secs = 60\nprogress_after_secs = 0\n\n\
             [tiers.peer]\nprofile = \"workspace-agent\"\nreads = \"disk\"\n\n{platform}",
            bin = quoted(codex),
            home = quoted(&self.path().join("home")),
            platform = scene.talks.settings(self.path(), "")?,
        );
        std::fs::write(self.path().join("codex-bridge.toml"), config)?;
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Stops the daemon in order, and looks that nothing is left of it.
    pub(super) async fn stop_daemon(&mut self) -> anyhow::Result<()> {
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
        match self.wait_gone().await {
            left if left.is_empty() => Ok(()),
            left => bail!("processes are left behind: {left:?}"),
        }
    }

    async fn wait_gone(&mut self) -> Vec<i32> {
        let mut looks = GONE_LOOKS;
        let mut left = Vec::new();
        for _ in 0..GONE_PATIENCE.as_millis() / GONE_PAUSE.as_millis() {
            left = self.orphans.living(None);
            looks = if left.is_empty() {
                looks - 1
            } else {
                GONE_LOOKS
            };
            if looks == 0 {
                break;
            }
            tokio::time::sleep(GONE_PAUSE).await;
        }
        left
    }

    /// Ends everything that still runs, however it is.
    pub(super) async fn clear(&mut self) {
        if let Err(error) = self.kill().await {
            tracing::debug!(%error, "the daemon of the drill could not be killed");
        }
        let mut looks = GONE_LOOKS;
        for _ in 0..GONE_PATIENCE.as_millis() / GONE_PAUSE.as_millis() {
            let left = self.orphans.living(None);
            looks = if left.is_empty() {
                looks - 1
            } else {
                GONE_LOOKS
            };
            if looks == 0 {
                return;
            }
            // With everything below them: what runs off from a parent that dies becomes ours only after that.
            let below = left.iter().flat_map(|pid| process::descendants(*pid));
            for stamp in below.chain(left.iter().copied()).filter_map(process::stamp) {
                kill_now(&stamp);
            }
            tokio::time::sleep(GONE_PAUSE).await;
        }
    }

    /// Removes the directory.
    pub(super) fn remove(self) -> anyhow::Result<()> {
        self.directory.close().context("remove the directory")
    }

    /// Keeps the directory for an investigation.
    pub(super) fn keep(self) -> PathBuf {
        self.directory.keep()
    }
}

impl Stage for DrillDaemon {
    fn start(&mut self) -> io::Result<()> {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.path().join("daemon.log"))?;
        let at = |name: &str| self.path().join(name).into_os_string();
        let options = ChildOptions {
            program: std::env::current_exe()?,
            args: vec![
                "--state-dir".into(),
                at("state"),
                "--config".into(),
                at("codex-bridge.toml"),
                "run".into(),
            ],
            // Codex keeps a lock of its sandbox in the temporary directory.
            env: vec![
                ("TMPDIR".into(), at("tmp")),
                // A login shell that is killed while it reads the user's profile leaves locks there.
                ("HOME".into(), at("person")),
                ("NO_COLOR".into(), "1".into()),
            ],
            without: NOT_FOR_THE_DAEMON.map(Into::into).to_vec(),
            log,
        };
        self.daemon = Some(ChildProcess::start(options)?);
        Ok(())
    }

    async fn ended(&mut self) -> io::Result<String> {
        match &mut self.daemon {
            Some(daemon) => Ok(daemon.ended().await?.to_string()),
            None => std::future::pending().await,
        }
    }

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
        let mut keepers = self.orphans.living(daemon);
        keepers.extend(daemon.map(process::children).unwrap_or_default());
        let codex = keepers
            .into_iter()
            .flat_map(process::children)
            .find_map(process::stamp);
        codex.is_some_and(|codex: ProcessStamp| kill_now(&codex))
    }

    fn work(&self) -> PathBuf {
        self.path().join("state/work")
    }

    fn tell(&self, words: &str) {
        term::complain(words);
    }
}
