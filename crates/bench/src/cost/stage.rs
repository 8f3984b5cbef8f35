//! The ancestor on the stage of a drill: the same scene and the same faults as the bridge, another daemon.

use crate::ground::Ground;
use crate::stage::{Place, process};
use anyhow::Context;
use bridge_sim::drill::{DaemonStage, Scene, Stage};
use std::fs::OpenOptions;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use tokio::process::{Child, Command};

/// The sandbox that the bridge gives to an owner's turns, set by hand in CODEX_HOME. Nobody can be asked in a run of
/// `codex exec`, so its policy is the one that says so; the other settings are given to each run.
const SETTINGS: &str = "sandbox_mode = \"workspace-write\"\napproval_policy = \"never\"\n";

pub(super) struct AncestorStage {
    place: Place,
    codex: PathBuf,
    platform: String,
    workspaces: Vec<String>,
    daemon: Option<Child>,
}

impl AncestorStage {
    /// Sets it up and starts it.
    pub(super) fn set(ground: &Ground, scene: &Scene) -> anyhow::Result<Self> {
        let config = format!("{SETTINGS}{}", scene.model.codex_config());
        let served = scene.talks.served().iter();
        let mut stage = Self {
            place: Place::new(&config)?,
            codex: ground.codex.clone(),
            platform: scene.talks.platform.url(),
            workspaces: served
                .map(|own| format!("{}:{}", own.id, own.token))
                .collect(),
            daemon: None,
        };
        std::fs::create_dir_all(stage.directory())?;
        stage.start().context("start the ancestor")?;
        Ok(stage)
    }

    /// All runs work where the ancestor was started.
    fn directory(&self) -> PathBuf {
        self.work().join("all")
    }

    /// Ends it, and every run that is left.
    pub(super) async fn clear(&mut self) -> anyhow::Result<()> {
        self.kill().await?;
        process::end_all(|| process::working_in(self.place.path()))
            .await
            .context("end the runs of the ancestor")
    }
}

impl Stage for AncestorStage {
    fn start(&mut self) -> io::Result<()> {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.place.path().join("daemon.log"))?;
        let child = Command::new(std::env::current_exe()?)
            .arg("ancestor")
            .arg("--state")
            .arg(self.place.path())
            .arg("--platform")
            .arg(&self.platform)
            .args(self.workspaces.iter().flat_map(|own| ["--workspace", own]))
            .arg("--codex")
            .arg(&self.codex)
            .envs(self.place.env())
            .env_remove("OPENAI_API_KEY")
            .current_dir(self.directory())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?;
        self.daemon = Some(child);
        Ok(())
    }

    async fn ended(&mut self) -> io::Result<String> {
        match &mut self.daemon {
            Some(daemon) => {
                let status = daemon.wait().await?;
                Ok(format!("the ancestor ended by itself: {status}"))
            }
            None => std::future::pending().await,
        }
    }

    fn work(&self) -> PathBuf {
        self.place.path().join("work")
    }

    fn tell(&self, words: &str) {
        eprintln!("{words}");
    }
}

impl DaemonStage for AncestorStage {
    async fn kill(&mut self) -> io::Result<()> {
        match self.daemon.take() {
            Some(mut daemon) => daemon.kill().await,
            None => Ok(()),
        }
    }

    /// The run under way.
    fn kill_codex(&mut self) -> bool {
        let daemon = self.daemon.as_ref().and_then(Child::id);
        let daemon = daemon.and_then(|pid| i32::try_from(pid).ok());
        let run = daemon.and_then(|pid| process::children(pid).into_iter().next());
        run.is_some_and(process::end)
    }
}
