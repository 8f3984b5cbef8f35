//! What a kit is run against: the scripted model that knows its ids, and the built daemon with the pinned Codex, all in
//! one temporary directory, on loopback and without tokens.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::ci::{cargo, run_command};

/// How long the daemon may take until it serves.
const START_MAX: Duration = Duration::from_secs(60);
/// How long it may take to stop.
const STOP_MAX: Duration = Duration::from_secs(90);
/// How often we look.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Builds what a stand starts.
pub(super) fn build(root: &Path) -> anyhow::Result<()> {
    run_command(cargo(root).args(["build", "-p", "codex-bridge", "-p", "bridge-sim", "--bins"]))
}

/// A model and a daemon. Both end with it.
pub(super) struct Stand {
    directory: PathBuf,
    plugins: PathBuf,
    model: Child,
    daemon: Child,
    address: String,
    webhook_port: u16,
}

impl Stand {
    pub(super) fn start(root: &Path, codex: &Path) -> anyhow::Result<Self> {
        let built = root.join("target/debug");
        let place = format!("cb-a2a-{}", std::process::id());
        let directory = std::env::temp_dir().join(place);
        fs::create_dir_all(directory.join("person"))?;
        let webhook_port = free_port()?;
        let config = directory.join("codex-bridge.toml");
        fs::write(&config, settings(webhook_port))?;
        let mut model = Command::new(built.join("scripted-model"))
            .arg("--home")
            .arg(directory.join("home"))
            .arg("--kit")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the scripted model")?;
        let said = model.stdout.take().context("the model has no output")?;
        BufReader::new(said).read_line(&mut String::new())?;
        let log = fs::File::create(directory.join("daemon.log"))?;
        let daemon = Command::new(built.join("codex-bridge"))
            .arg("--state-dir")
            .arg(directory.join("state"))
            .arg("--config")
            .arg(&config)
            .arg("run")
            .env("CODEX_HOME", directory.join("home"))
            .env("CODEX_BRIDGE_CODEX_BIN", codex)
            .env("HOME", directory.join("person"))
            .env_remove("OPENAI_API_KEY")
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .context("cannot start the daemon")?;
        let mut stand = Self {
            directory,
            plugins: root.join("xtask/a2a"),
            model,
            daemon,
            address: String::new(),
            webhook_port,
        };
        stand.address = stand.listening()?;
        eprintln!(
            "the daemon listens on {}; its log is {}",
            stand.address,
            stand.directory.join("daemon.log").display()
        );
        Ok(stand)
    }

    /// Where the daemon is.
    pub(super) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where pytest finds our plugin.
    pub(super) fn plugins(&self) -> &Path {
        &self.plugins
    }

    /// The port at which the daemon may tell of tasks.
    pub(super) fn webhook_port(&self) -> u16 {
        self.webhook_port
    }

    fn listening(&mut self) -> anyhow::Result<String> {
        let file = self.directory.join("state/listen");
        let until = Instant::now() + START_MAX;
        while Instant::now() < until {
            if let Some(status) = self.daemon.try_wait()? {
                bail!("the daemon ended with {status}: {}", self.log());
            }
            let said = fs::read_to_string(&file).unwrap_or_default();
            if !said.trim().is_empty() {
                return Ok(said.trim().to_owned());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        bail!("the daemon does not listen: {}", self.log())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.join("daemon.log")).unwrap_or_default()
    }

    /// Stops both as an operator would, so that Codex ends too.
    pub(super) fn stop(mut self) -> anyhow::Result<()> {
        let pid = self.daemon.id().to_string();
        run_command(Command::new("kill").args(["-TERM", &pid]))?;
        let until = Instant::now() + STOP_MAX;
        while Instant::now() < until {
            if self.daemon.try_wait()?.is_some() {
                drop(self.model.stdin.take());
                self.model.wait()?;
                let log = self.directory.join("daemon.log");
                let kept = self.plugins.join("../../target/tools/a2a-kit-daemon.log");
                fs::copy(log, kept)?;
                fs::remove_dir_all(&self.directory)?;
                return Ok(());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        bail!("the daemon does not stop: {}", self.log())
    }
}

impl Drop for Stand {
    /// Whatever went wrong, nothing of it stays.
    fn drop(&mut self) {
        for child in [&mut self.daemon, &mut self.model] {
            let _gone = child.kill();
            let _reaped = child.wait();
        }
    }
}

/// Peers may write, because the kit wants files made, and as often as they like: one agent that sends hundreds of
/// messages is stopped otherwise. What they may read stays as it is.
fn settings(webhook_port: u16) -> String {
    format!(
        "[http]\nlisten = \"127.0.0.1:0\"\n\n\
         [a2a]\nauth = \"none\"\nallow_origins = [\"http://localhost:{webhook_port}\", \
         \"http://127.0.0.1:{webhook_port}\"]\n\n\
         [tiers.peer]\nsandbox = \"workspace-write\"\napproval_policy = \"never\"\nturns_per_day = 100000\n"
    )
}

/// A port that is free now; the kit's receiver takes it later.
fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
