//! The built daemon, as an operator would run it: a settings file, an environment, a log. However a measurement ends,
//! nothing of it stays behind.

use super::log::Log;
use super::{PATIENCE, Place, process};
use crate::ground::Ground;
use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// How long its keeper keeps Codex without it, in seconds. No daemon of the bench takes over the Codex of another, so
/// this only ends what is left of one that died by itself; while a daemon lives it does nothing.
const LINGER_SECS: u64 = 20;

/// How one is started.
#[derive(Clone, Debug, Default)]
pub(crate) struct DaemonOptions {
    /// The settings file, without a table `codex`.
    pub(crate) settings: String,
    /// What is added to its environment.
    pub(crate) env: Vec<(String, String)>,
    /// What the log lets through; `info` where nothing is said.
    pub(crate) log: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Daemon {
    child: Child,
    pub(crate) log: Log,
    /// From the start of the process to the line that says it is ready.
    pub(crate) ready_after: Duration,
    bridge: PathBuf,
    state: PathBuf,
}

impl Daemon {
    /// Starts it in this place (its state is `state` below it) and waits until it is ready.
    pub(crate) async fn start(
        ground: &Ground,
        place: &Place,
        options: DaemonOptions,
    ) -> anyhow::Result<Self> {
        let settings = place.path().join("codex-bridge.toml");
        let linger = format!("codex.linger_secs = {LINGER_SECS}\n");
        std::fs::write(&settings, linger + &options.settings)?;
        let state = place.path().join("state");
        let began = Instant::now();
        let mut child = Command::new(&ground.bridge)
            .arg("--state-dir")
            .arg(&state)
            .arg("--config")
            .arg(&settings)
            .arg("run")
            .envs(place.env())
            .env("CODEX_BRIDGE_CODEX_BIN", &ground.codex)
            .env("CODEX_BRIDGE_LOG", options.log.as_deref().unwrap_or("info"))
            .envs(options.env)
            .current_dir(place.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("start the daemon")?;
        let log = Log::listen(child.stderr.take().context("the daemon has no stderr")?);
        let mut daemon = Self {
            child,
            log,
            ready_after: Duration::ZERO,
            bridge: ground.bridge.clone(),
            state,
        };
        let is_ready = |line: &str| line.contains(" ready ").then_some(());
        let ready = daemon.log.wait(0, "a daemon that is ready", is_ready).await;
        daemon.ready_after = began.elapsed();
        ready.map(|()| daemon)
    }

    pub(crate) fn pid(&self) -> anyhow::Result<i32> {
        let pid = self.child.id().context("the daemon has ended")?;
        Ok(i32::try_from(pid)?)
    }

    pub(crate) fn state(&self) -> &Path {
        &self.state
    }

    /// One of our own commands against it.
    pub(crate) fn command(&self, place: &Place) -> Command {
        let mut command = Command::new(&self.bridge);
        command
            .arg("--state-dir")
            .arg(&self.state)
            .envs(place.env())
            .current_dir(place.path())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Ends it at once, with its keeper and Codex, as the end of the machine does.
    pub(crate) async fn kill(mut self) -> anyhow::Result<()> {
        let below = process::below(self.pid()?);
        self.child.kill().await.context("kill the daemon")?;
        let living = || {
            let living = below.iter().copied().filter(|pid| process::lives(*pid));
            living.collect()
        };
        process::end_all(living)
            .await
            .context("end what the daemon started")
    }

    /// Stops it, and with it Codex.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        kill(Pid::from_raw(self.pid()?), Signal::SIGTERM)?;
        let ended = timeout(PATIENCE, self.child.wait()).await;
        let ended = ended.context("the daemon does not stop")??;
        if !ended.success() {
            bail!("the daemon ended with {ended}");
        }
        Ok(())
    }
}

/// One that was neither stopped nor killed belongs to a measurement that failed. Its keeper has a session of its own
/// and would keep Codex, so they are ended with it.
impl Drop for Daemon {
    fn drop(&mut self) {
        let Ok(pid) = self.pid() else {
            return;
        };
        let below = process::below(pid);
        process::end(pid);
        for pid in below {
            process::end(pid);
        }
    }
}
