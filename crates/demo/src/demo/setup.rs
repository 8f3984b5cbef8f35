//! Everything that the demo runs: a scripted model, a Molecule platform with a person and a peer agent, a private
//! CODEX_HOME and a daemon in this process, all in one temporary directory; and its removal.

use super::say;
use crate::DemoClient;
use anyhow::{Context, bail};
use bridge_channel::Secret;
use bridge_channel::molecule::{
    Delivery, FIRST_START, MAX_REPLY_CHARS, Origin, Origins, POLL, Settings, TokenSource,
};
use bridge_core::port::{OnUnknown, TurnTransport};
use bridge_core::value::Tier;
use bridge_daemon::config::{Config, Environment, Workspace};
use bridge_daemon::term::{Paint, escape};
use bridge_daemon::{RunOptions, Stop, run};
use bridge_host::process;
use bridge_sim::molecule::{MoleculeOptions, MoleculePlatform, Workspace as SimWorkspace};
use bridge_sim::{Options, ScriptedModel};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How long a reply on the platform may take.
const REPLY_PATIENCE: Duration = Duration::from_secs(120);

const STATE: &str = "state";
/// How long work that waits at a gate is no work that hangs: somebody may look at it all day.
const LOOKED_AT: Duration = Duration::from_secs(24 * 3_600);

pub(super) struct DemoSetup<C> {
    pub(super) model: ScriptedModel,
    pub(super) platform: DemoPlatform,
    pub(super) client: C,
    daemon: JoinHandle<anyhow::Result<()>>,
    stop: Stop,
    directory: TempDir,
}

impl<C: DemoClient> DemoSetup<C> {
    /// Starts everything.
    pub(super) async fn start(
        codex: PathBuf,
        environment: &Environment,
        paint: Paint,
    ) -> anyhow::Result<Self> {
        let no_color = environment.no_color();
        let directory = tempfile::Builder::new()
            .prefix("codex-bridge-demo-")
            .tempdir()?;
        let options = Options {
            stream_idle_timeout: LOOKED_AT,
            ..Options::default()
        };
        let model = ScriptedModel::start(options)
            .await
            .context("start the model")?;
        let platform = DemoPlatform::start().await?;
        let home = directory.path().join("codex-home");
        std::fs::create_dir(&home)?;
        std::fs::write(home.join("config.toml"), model.codex_config())?;
        let state_dir = directory.path().join(STATE);
        let mut config = Config::default();
        config.codex.bin = Some(codex);
        config.codex.home = Some(home);
        config.turn.idle_secs = LOOKED_AT.as_secs();
        config.turn.timeout_secs = LOOKED_AT.as_secs();
        let stop = Stop::default();
        let (ready, serving) = oneshot::channel();
        let mut options = RunOptions::new(state_dir.clone(), config, environment);
        options.molecule.push(platform.served());
        // Codex keeps a lock of its sandbox in the temporary directory.
        let temporary = directory.path().join("tmp");
        std::fs::create_dir(&temporary)?;
        // An approved command is a login shell outside the sandbox: it must not read the user's own profile.
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
            "{} the daemon, its database in {}",
            paint.green("started"),
            state_dir.display()
        ));
        let client = C::connect(&state_dir, no_color)?;
        Ok(Self {
            model,
            platform,
            client,
            daemon,
            stop,
            directory,
        })
    }

    /// What commands of another terminal need to know.
    pub(super) fn state_dir(&self) -> PathBuf {
        self.directory.path().join(STATE)
    }

    /// A directory for a task to work in.
    pub(super) fn project(&self, name: &str) -> anyhow::Result<PathBuf> {
        let project = self.directory.path().join(name);
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

    /// Waits for no turn when everything is stopped.
    pub(super) fn end_turns(&self) {
        self.stop.now.cancel();
    }

    /// Stops everything and checks that nothing is left.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        self.stop.gently.cancel();
        self.daemon.await??;
        self.platform.stop().await;
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

/// The platform: our workspace, in which a person writes at the canvas, and the one of a peer agent. Both see what the
/// platform shows them, not what the daemon says of itself.
pub(super) struct DemoPlatform {
    platform: MoleculePlatform,
    ours: SimWorkspace,
    scout: SimWorkspace,
}

impl DemoPlatform {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let options = MoleculeOptions {
            patience: REPLY_PATIENCE,
            ..MoleculeOptions::default()
        };
        let platform = MoleculePlatform::start(options)
            .await
            .context("start the platform")?;
        Ok(Self {
            ours: platform.add_workspace("codex"),
            scout: platform.add_workspace("scout"),
            platform,
        })
    }

    /// Our workspace, as the daemon is configured to serve it.
    pub(super) fn served(&self) -> Workspace {
        Workspace {
            settings: Settings {
                workspace: self.ours.id.clone(),
                platform_url: self.platform.url(),
                token: TokenSource::Value(Secret::new(self.ours.token.clone())),
                org_id: None,
                allow_http: false,
                origins: Origins::of([Origin::Canvas], Tier::Owner),
                first_start: FIRST_START,
                poll: POLL,
                wake: true,
                max_reply_chars: MAX_REPLY_CHARS,
                name: Some("codex".to_owned()),
                delivery: Delivery::Poll,
                on_unknown: OnUnknown::Hold,
            },
            via: TurnTransport::AppServer,
            token_from: "the demo".to_owned(),
        }
    }

    /// A person writes at the canvas, and the reply appears there.
    pub(super) async fn canvas_says(&self, paint: Paint, text: &str) -> anyhow::Result<()> {
        say(&format!("  {} {text}", paint.cyan("canvas:")));
        self.platform.canvas_says(&self.ours, text)?;
        let bubbles = self.platform.wait_for_bubbles(&self.ours, 1).await?;
        let reply = bubbles.last().context("a bubble came and went")?;
        let who = paint.green("codex on the canvas:");
        say(&format!("  {who} {}", escape(&reply.text)));
        Ok(())
    }

    /// A peer agent writes, and gets its reply as a message of its own.
    pub(super) async fn scout_says(&self, paint: Paint, text: &str) -> anyhow::Result<()> {
        say(&format!("  {} {text}", paint.cyan("agent scout:")));
        self.platform.peer_says(&self.scout, &self.ours, text)?;
        let inbox = self.platform.wait_for_inbox(&self.scout, 1).await?;
        let reply = inbox.last().context("a message came and went")?;
        let who = paint.green("codex to agent scout:");
        say(&format!("  {who} {}", escape(&reply.text)));
        Ok(())
    }

    pub(super) async fn stop(mut self) {
        self.platform.down().await;
    }
}
