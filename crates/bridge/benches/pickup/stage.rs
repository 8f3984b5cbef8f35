//! What is measured: a platform, a model, the built daemon with the real Codex, in one temporary directory; and what the
//! daemon's log says about when it claimed a row.

use anyhow::{Context, bail, ensure};
use bridge_sim::molecule::{MoleculeOptions, MoleculePlatform, Workspace};
use bridge_sim::{Options, ScriptedModel, codex_for_tests};
use jiff::Timestamp;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::HashMap;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStderr, Command};
use tokio::sync::watch;
use tokio::time::timeout;

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(60);
/// Shows when a row was claimed, to the microsecond, and little else.
const LOG: &str = "info,codex_bridge::daemon::schedule=debug";

/// What the daemon said so far.
#[derive(Debug, Default)]
struct Heard {
    ready: bool,
    /// When rows were claimed, by their ids.
    claimed: HashMap<String, Timestamp>,
}

/// How long one message took.
pub(crate) struct Taken {
    /// From its row being stored to the daemon having claimed it.
    pub(crate) claimed: Duration,
    /// From its row being stored to its answer being on the canvas.
    pub(crate) seen: Duration,
}

/// Everything that runs.
pub(crate) struct Stage {
    platform: MoleculePlatform,
    us: Workspace,
    daemon: Child,
    heard: watch::Receiver<Heard>,
    bubbles: usize,
    _model: ScriptedModel,
    _directory: TempDir,
}

impl Stage {
    /// Starts everything and waits until the daemon serves the workspace.
    pub(crate) async fn set(wake: bool, poll: Duration) -> anyhow::Result<Self> {
        let model = ScriptedModel::start(Options::default()).await?;
        let platform = MoleculePlatform::start(MoleculeOptions::default()).await?;
        let us = platform.add_workspace("alpha");
        let directory = tempfile::Builder::new().prefix("cb-bench-").tempdir()?;
        let (home, config) = (
            directory.path().join("home"),
            directory.path().join("codex-bridge.toml"),
        );
        std::fs::create_dir(&home)?;
        std::fs::write(home.join("config.toml"), model.codex_config())?;
        let settings = format!(
            "[molecule]\nwake = {wake}\npoll_secs = {}\n",
            poll.as_secs()
        );
        std::fs::write(&config, settings)?;
        let mut daemon = Command::new(env!("CARGO_BIN_EXE_codex-bridge"))
            .arg("--state-dir")
            .arg(directory.path().join("state"))
            .arg("--config")
            .arg(&config)
            .arg("run")
            .env("CODEX_HOME", &home)
            .env("CODEX_BRIDGE_CODEX_BIN", codex_for_tests()?)
            .env("CODEX_BRIDGE_LOG", LOG)
            .env("WORKSPACE_ID", &us.id)
            .env("PLATFORM_URL", platform.url())
            .env("MOLECULE_WORKSPACE_TOKEN", &us.token)
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("start the daemon")?;
        let stderr = daemon.stderr.take().context("the daemon has no stderr")?;
        let mut stage = Self {
            platform,
            us,
            daemon,
            heard: listen(stderr),
            bubbles: 0,
            _model: model,
            _directory: directory,
        };
        let ready = stage.heard.wait_for(|heard| heard.ready);
        let ready = timeout(PATIENCE, ready).await.map(drop);
        ready.context("the daemon is not ready")?;
        if wake {
            let listening = |platform: &MoleculePlatform| platform.listening(&stage.us) > 0;
            let heard = stage.platform.wait_until("a listener", listening).await;
            heard?;
        }
        Ok(stage)
    }

    /// A person writes, and waits for the answer.
    pub(crate) async fn says(&mut self, text: &str) -> anyhow::Result<Taken> {
        let (stored, began) = (Timestamp::now(), Instant::now());
        let row = self.platform.canvas_says(&self.us, text)?;
        self.bubbles += 1;
        let bubbles = self.platform.wait_for_bubbles(&self.us, self.bubbles);
        let bubbles = bubbles.await?;
        let seen = began.elapsed();
        ensure!(bubbles.len() == self.bubbles, "a bubble too many");
        let claimed = self
            .heard
            .wait_for(|heard| heard.claimed.contains_key(&row));
        let claimed = timeout(PATIENCE, claimed).await.context("never claimed")?;
        let claimed = claimed?.claimed.get(&row).copied();
        let claimed = claimed.context("never claimed")?.duration_since(stored);
        // Below zero only if the wall clock was set back in between.
        let claimed = Duration::try_from(claimed).context("the clock was set")?;
        Ok(Taken { claimed, seen })
    }

    /// Stops the daemon, and with it Codex.
    pub(crate) async fn strike(mut self) -> anyhow::Result<()> {
        let pid = self.daemon.id().context("the daemon has ended")?;
        kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGTERM)?;
        let ended = timeout(PATIENCE, self.daemon.wait()).await;
        let ended = ended.context("the daemon does not stop")??;
        if !ended.success() {
            bail!("the daemon ended with {ended}");
        }
        Ok(())
    }
}

/// Reads the log as it comes.
fn listen(stderr: ChildStderr) -> watch::Receiver<Heard> {
    let (said, heard) = watch::channel(Heard::default());
    tokio::spawn(async move {
        let mut lines = BufReader::new(stderr).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            said.send_if_modified(|heard| note(heard, &line));
        }
    });
    heard
}

/// Whether a line says something that is waited for.
fn note(heard: &mut Heard, line: &str) -> bool {
    if line.contains(" ready ") {
        heard.ready = true;
        return true;
    }
    let at = line.split_whitespace().next();
    let row = line.split("external_id=").nth(1);
    let row = row.and_then(|rest| rest.split_whitespace().next());
    match (at.map(str::parse::<Timestamp>), row) {
        (Some(Ok(at)), Some(row)) if line.contains(" claimed ") => {
            heard.claimed.insert(row.to_owned(), at);
            true
        }
        _ => false,
    }
}
