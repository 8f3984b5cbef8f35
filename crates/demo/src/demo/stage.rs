//! The stage of the demo: a scripted model, a platform, a private CODEX_HOME, a daemon in this process, all in one
//! temporary directory; and its removal.

use super::molecule::Molecule;
use super::say;
use crate::client::DemoClient;
use anyhow::{Context, bail};
use bridge_daemon::config::{Config, Environment};
use bridge_daemon::term::Paint;
use bridge_daemon::{RunOptions, Stop, run};
use bridge_host::process;
use bridge_sim::{Options, ScriptedModel};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::PathBuf;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(super) struct Stage<C> {
    pub(super) model: ScriptedModel,
    pub(super) molecule: Molecule,
    pub(super) client: C,
    daemon: JoinHandle<anyhow::Result<()>>,
    stop: Stop,
    directory: TempDir,
}

impl<C: DemoClient> Stage<C> {
    /// Starts everything.
    pub(super) async fn set(
        codex: PathBuf,
        environment: &Environment,
        paint: Paint,
    ) -> anyhow::Result<Self> {
        let no_color = environment.no_color();
        let directory = tempfile::Builder::new()
            .prefix("codex-bridge-demo-")
            .tempdir()?;
        let model = ScriptedModel::start(Options::default())
            .await
            .context("start the model")?;
        let molecule = Molecule::start().await?;
        let home = directory.path().join("codex-home");
        std::fs::create_dir(&home)?;
        std::fs::write(home.join("config.toml"), model.codex_config())?;
        let state_dir = directory.path().join("state");
        let mut config = Config::default();
        config.codex.bin = Some(codex);
        config.codex.home = Some(home);
        let stop = Stop::default();
        let (ready, serving) = oneshot::channel();
        let mut options = RunOptions::new(state_dir.clone(), config, environment);
        options.molecule.push(molecule.served());
        // Codex keeps a lock of its sandbox in the temporary directory.
        let temporary = directory.path().join("tmp");
        std::fs::create_dir(&temporary)?;
        // An approved command is a login shell outside the sandbox: the profile of whoever tries this is not for it.
        let home = directory.path().join("home");
        std::fs::create_dir(&home)?;
        for (name, place) in [("TMPDIR", temporary), ("HOME", home)] {
            options.codex_env.retain(|(known, _)| known != name);
            options.codex_env.push((name.into(), place.into()));
        }
        let mut daemon = tokio::spawn(run(options, ready, stop.clone()));
        tokio::select! {
            ready = serving => drop(ready),
            ended = &mut daemon => {
                ended??;
                bail!("the daemon ended before it was ready");
            }
        }
        say(&format!(
            "{} a scripted model on loopback",
            paint.green("started")
        ));
        say(&format!(
            "{} a Molecule platform in a box, on loopback too",
            paint.green("started")
        ));
        say(&format!(
            "{} the daemon, its ledger in {}",
            paint.green("started"),
            state_dir.display()
        ));
        let client = C::connect(&state_dir, no_color)?;
        Ok(Self {
            model,
            molecule,
            client,
            daemon,
            stop,
            directory,
        })
    }

    /// A directory for a task to work in.
    pub(super) fn project(&self) -> anyhow::Result<PathBuf> {
        let project = self.directory.path().join("project");
        std::fs::create_dir(&project).context("make a directory for the task")?;
        Ok(project)
    }

    /// Kills the Codex process as a crash would, without a warning.
    pub(super) fn kill_codex(&self) -> anyhow::Result<()> {
        let ours = i32::try_from(std::process::id())?;
        let codex = process::children(ours)
            .into_iter()
            .flat_map(process::children)
            .next();
        let codex = codex.context("no Codex process is running")?;
        kill(Pid::from_raw(codex), Signal::SIGKILL)?;
        Ok(())
    }

    /// Stops everything and checks that nothing is left.
    pub(super) async fn strike(self) -> anyhow::Result<()> {
        self.stop.gently.cancel();
        self.daemon.await??;
        self.molecule.stop().await;
        self.model.stop().await;
        self.directory
            .close()
            .context("remove the demo's directory")?;
        let left = process::children(i32::try_from(std::process::id())?);
        if !left.is_empty() {
            bail!("processes are left behind: {left:?}");
        }
        Ok(())
    }
}
