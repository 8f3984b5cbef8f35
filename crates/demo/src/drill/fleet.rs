//! The fleet of `drill --nodes`: several machines over one PostgreSQL of the drill's own.

use super::Ground;
use super::config::{DrillConfig, NodeConfig, scene};
use super::daemon::{NOT_FOR_THE_DAEMON, STOP_PATIENCE};
use crate::args::{DrillArgs, DrillTransport};
use crate::machine::Machine;
use crate::strays::Strays;
use anyhow::{Context, bail};
use bridge_daemon::term;
use bridge_sim::drill::{FleetStage, Frozen, Loss, Scene, Stage};
use bridge_sim::postgres::Server;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::task::JoinHandle;

const DATABASE: &str = "fleet";
/// How often it is looked whether a daemon ended by itself.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A daemon that goes on after its lease must have ended so soon.
const END_PATIENCE: Duration = Duration::from_secs(15);
/// A daemon that ends so soon after the database was restarted may do so because of that, and says so.
const DATABASE_GRACE: Duration = Duration::from_secs(15);

/// The machines, their database and their common storage, in one private directory.
#[derive(Debug)]
pub(super) struct DrillFleet {
    directory: TempDir,
    machines: Vec<DrillNode>,
    server: Arc<Server>,
    restart: Option<JoinHandle<Result<(), String>>>,
    /// When the database came back last.
    restarted: Option<Instant>,
    restarts: usize,
    leases_lost: usize,
    strays: Strays,
    settings: FleetSettings,
}

/// What all nodes are configured with.
#[derive(Debug)]
struct FleetSettings {
    codex: PathBuf,
    transport: DrillTransport,
    lease_secs: u64,
    platform: String,
    /// Configuration of a Codex, with this where the name of its home stands.
    codex_config: String,
}

/// Stands for the name of a home in the settings.
const HOME: &str = "NAME-OF-THE-HOME";

/// One place for a machine, and who has it.
#[derive(Debug)]
struct DrillNode {
    machine: Machine,
    number: usize,
    /// How many machines had the place before.
    before: usize,
    /// It should run: neither dead nor meant to be.
    wanted: bool,
    /// When it went on after its lease, until it has ended.
    thawed: Option<Instant>,
}

impl DrillNode {
    fn name(&self) -> String {
        match self.before {
            0 => format!("n{}", self.number),
            before => format!("n{}-{before}", self.number),
        }
    }
}

impl DrillFleet {
    /// Starts the database, the model, the platform and the daemons.
    pub(super) async fn prepare(
        codex: PathBuf,
        args: &DrillArgs,
        nodes: usize,
        seed: u64,
    ) -> anyhow::Result<(Self, Scene)> {
        let directory = tempfile::Builder::new()
            .prefix("codex-bridge-drill-")
            .tempdir()?;
        let server = tokio::task::spawn_blocking(|| {
            let server = Server::start()?;
            server.create_database(DATABASE, None)?;
            Ok::<_, bridge_sim::postgres::PostgresError>(server)
        });
        let server = server.await?.context("start a PostgreSQL for the fleet")?;
        let scene = scene(args, seed).await?;
        let work = directory.path().join("shared/work");
        std::fs::create_dir_all(work)?;
        let settings = FleetSettings {
            codex,
            transport: args.transport,
            lease_secs: args.lease_secs,
            platform: scene.talks.settings(directory.path(), "")?,
            codex_config: scene.model.codex_config_of(HOME),
        };
        let mut stage = Self {
            directory,
            machines: Vec::new(),
            server: Arc::new(server),
            restart: None,
            restarted: None,
            restarts: 0,
            leases_lost: 0,
            strays: Strays::adopt_all()?,
            settings,
        };
        for number in 1..=nodes {
            let machine = Machine::new(stage.path().join(format!("n{number}")))?;
            let node = DrillNode {
                machine,
                number,
                before: 0,
                wanted: true,
                thawed: None,
            };
            stage.configure(&node)?;
            stage.machines.push(node);
        }
        stage.start().context("start the daemons")?;
        Ok((stage, scene))
    }

    fn configure(&self, node: &DrillNode) -> io::Result<()> {
        let settings = &self.settings;
        let name = node.name();
        let config = DrillConfig {
            codex: &settings.codex,
            codex_home: &node.machine.codex_home(),
            transport: settings.transport,
            platform: &settings.platform,
            node: Some(NodeConfig {
                name: &name,
                lease_secs: settings.lease_secs,
                key_file: &self.path().join("ledger.key"),
                work: &self.path().join("shared/work"),
            }),
        };
        let codex_config = settings.codex_config.replace(HOME, &name);
        node.machine.configure(&config.text(), &codex_config)
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Processes whose daemon is gone.
    fn strays(&mut self) -> Vec<i32> {
        let machines = self.machines.iter();
        let daemons: Vec<i32> = machines.filter_map(|node| node.machine.pid()).collect();
        self.strays.living(&daemons)
    }

    /// Looks after a machine: gives what it did that it never should.
    async fn look(&mut self, at: usize) -> io::Result<Option<String>> {
        let disturbed = self.restart.is_some()
            || self
                .restarted
                .is_some_and(|restarted| restarted.elapsed() < DATABASE_GRACE);
        let Some(node) = self.machines.get_mut(at) else {
            return Ok(None);
        };
        let name = node.name();
        let Some(status) = node.machine.look().await? else {
            let late = node
                .thawed
                .is_some_and(|since| since.elapsed() > END_PATIENCE);
            if late {
                node.thawed = None;
                return Ok(Some(format!(
                    "node {name} went on after its lease and did not end; see {}",
                    node.machine.log().display()
                )));
            }
            return Ok(None);
        };
        let thawed = node.thawed.take().is_some();
        let lost = node.machine.said_lease_lost();
        if lost {
            self.leases_lost += 1;
        } else if !(disturbed && node.machine.ended_for_database()) {
            let after = if thawed {
                " after it had stood still"
            } else {
                ""
            };
            return Ok(Some(format!(
                "node {name} ended by itself{after}: {status}; see {}",
                node.machine.log().display()
            )));
        }
        self.start()?;
        Ok(None)
    }

    /// What became of the database's restart, if it is over.
    async fn look_at_database(&mut self) -> Option<String> {
        let restart = self.restart.take_if(|restart| restart.is_finished())?;
        self.restarted = Some(Instant::now());
        match restart.await {
            Ok(Ok(())) => {
                self.restarts += 1;
                None
            }
            Ok(Err(error)) => Some(format!("the database did not start again: {error}")),
            Err(error) => Some(format!("the database's restart broke off: {error}")),
        }
    }
}

impl Stage for DrillFleet {
    fn start(&mut self) -> io::Result<()> {
        let url = self.server.url_of(DATABASE);
        // Nodes are given the database in their environment.
        let without: Vec<&str> = NOT_FOR_THE_DAEMON
            .into_iter()
            .filter(|name| *name != "CODEX_BRIDGE_LEDGER_URL")
            .collect();
        for node in &mut self.machines {
            if node.wanted && node.machine.pid().is_none() {
                node.machine.start(&url, &without)?;
            }
        }
        Ok(())
    }

    async fn ended(&mut self) -> io::Result<String> {
        loop {
            for at in 0..self.machines.len() {
                if let Some(wrong) = self.look(at).await? {
                    return Ok(wrong);
                }
            }
            if let Some(wrong) = self.look_at_database().await {
                return Ok(wrong);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Its one directory is that of all conversations.
    fn work(&self) -> PathBuf {
        self.path().join("shared")
    }

    fn tell(&self, words: &str) {
        term::complain(words);
    }
}

impl FleetStage for DrillFleet {
    fn nodes(&self) -> usize {
        self.machines.len()
    }

    fn name(&self, node: usize) -> String {
        self.machines
            .get(node)
            .map(DrillNode::name)
            .unwrap_or_default()
    }

    fn serves(&self, node: usize) -> bool {
        let node = self.machines.get(node);
        node.is_some_and(|node| node.thawed.is_none() && node.machine.serves())
    }

    async fn kill_node(&mut self, node: usize, loss: Loss) -> io::Result<()> {
        let strays = self.strays();
        let Some(node) = self.machines.get_mut(node) else {
            return Ok(());
        };
        node.wanted = false;
        node.machine.die(&strays).await?;
        if loss == Loss::Nothing {
            return Ok(());
        }
        node.machine.lose_disk()?;
        if loss == Loss::DiskAndName {
            node.before += 1;
        }
        let at = node.number - 1;
        match self.machines.get(at) {
            Some(node) => self.configure(node),
            None => Ok(()),
        }
    }

    fn start_node(&mut self, node: usize) -> io::Result<()> {
        if let Some(node) = self.machines.get_mut(node) {
            node.wanted = true;
        }
        self.start()
    }

    fn freeze(&mut self, node: usize, what: Frozen) -> io::Result<()> {
        let strays = self.strays();
        if let Some(node) = self.machines.get_mut(node) {
            match what {
                Frozen::Daemon => node.machine.freeze_daemon(),
                Frozen::Machine => node.machine.freeze(&strays),
            }
        }
        Ok(())
    }

    fn thaw(&mut self, node: usize) {
        if let Some(node) = self.machines.get_mut(node) {
            node.thawed = Some(Instant::now());
            node.machine.thaw();
        }
    }

    fn restart_database(&mut self) {
        if self.restart.is_none() {
            let server = Arc::clone(&self.server);
            self.restart = Some(tokio::task::spawn_blocking(move || {
                server
                    .restart_immediate()
                    .map_err(|error| error.to_string())
            }));
        }
    }

    fn counted(&self) -> (usize, usize) {
        (self.leases_lost, self.restarts)
    }
}

impl Ground for DrillFleet {
    async fn stop_daemons(&mut self) -> anyhow::Result<()> {
        for node in &mut self.machines {
            let (name, runs) = (node.name(), node.machine.pid().is_some());
            node.wanted = false;
            match node.machine.stop(STOP_PATIENCE).await? {
                Some(status) if status.success() => {}
                Some(status) => bail!("node {name} stopped with {status}"),
                None if runs => bail!("node {name} did not stop"),
                None => {}
            }
        }
        match self.strays.gone().await {
            left if left.is_empty() => Ok(()),
            left => bail!("processes are left behind: {left:?}"),
        }
    }

    async fn clear(&mut self) {
        let strays = self.strays();
        for node in &mut self.machines {
            node.wanted = false;
            if let Err(error) = node.machine.die(&strays).await {
                tracing::debug!(%error, "a daemon of the drill could not be killed");
            }
        }
        self.strays.kill().await;
        if let Some(restart) = self.restart.take() {
            let _ended = restart.await;
        }
    }

    fn keep(self, history: &str) -> anyhow::Result<PathBuf> {
        std::fs::write(self.path().join("history.txt"), history).context("write the history")?;
        let dump = self.server.dump(DATABASE);
        let dump = dump.context("read what the database holds")?;
        std::fs::write(self.path().join("fleet.sql"), dump)
            .context("write what the database holds")?;
        drop(self.server);
        Ok(self.directory.keep())
    }

    fn remove(self) -> anyhow::Result<()> {
        drop(self.server);
        self.directory.close().context("remove the directory")
    }
}
