//! `demo --fleet`: three nodes over one PostgreSQL. A conversation runs on one of them; that node is killed in the middle
//! of a turn and its disk is lost; the conversation goes on elsewhere and remembers.

use super::{interrupted, say};
use crate::DemoClient;
use crate::drill::NOT_FOR_THE_DAEMON;
use crate::machine::Machine;
use crate::strays::Strays;
use anyhow::{Context, bail};
use bridge_daemon::config::Environment;
use bridge_daemon::term::{Paint, escape};
use bridge_sim::postgres::{PostgresError, Server};
use bridge_sim::{Options, ScriptedModel};
use bridge_store::{LentDatabase, PostgresUrl};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const DATABASE: &str = "fleet";
/// Short, so that nobody waits long; fleets that are no demo take more.
const LEASE_SECS: u64 = 3;
/// How long one message may take.
const PATIENCE: Duration = Duration::from_secs(120);
const START_PATIENCE: Duration = Duration::from_secs(30);
const STOP_PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The gate that a turn waits at while its node is killed.
const GATE: &str = "crash";
/// What the killed turn had written before.
const EFFECTS: &str = "journal.txt";

/// Where the nodes have their rows.
enum DemoDatabase {
    /// On a server of the demo's own.
    Own(Server),
    /// Named by its address.
    Lent(LentDatabase, String),
}

impl DemoDatabase {
    async fn find(environment: &Environment) -> anyhow::Result<Self> {
        let Some(url) = environment.demo_ledger_url() else {
            let server = tokio::task::spawn_blocking(|| {
                let server = Server::start()?;
                server.create_database(DATABASE, None)?;
                Ok::<_, PostgresError>(server)
            });
            let server = server.await?.context("start a PostgreSQL for the fleet (CODEX_BRIDGE_DEMO_LEDGER_URL names an empty database instead)")?;
            return Ok(Self::Own(server));
        };
        let taken = tokio::task::spawn_blocking(move || {
            let lent = LentDatabase::take(PostgresUrl::new(&url)?)?;
            anyhow::Ok(Self::Lent(lent, url))
        });
        taken.await?.context("CODEX_BRIDGE_DEMO_LEDGER_URL")
    }

    fn url(&self) -> String {
        match self {
            Self::Own(server) => server.url_of(DATABASE),
            Self::Lent(_, url) => url.clone(),
        }
    }

    fn words(&self, paint: Paint) -> String {
        match self {
            Self::Own(_) => format!("{} a PostgreSQL of its own", paint.green("started")),
            Self::Lent(lent, _) => {
                let place = lent.place();
                format!(
                    "{} the empty database {}",
                    paint.green("took"),
                    escape(&place)
                )
            }
        }
    }

    async fn end(self) -> anyhow::Result<()> {
        match self {
            Self::Own(server) => drop(server),
            Self::Lent(lent, _) => {
                let given_back = tokio::task::spawn_blocking(move || lent.give_back());
                given_back.await?.context("empty the database again")?;
            }
        }
        Ok(())
    }
}

/// Everything that the demo runs.
struct DemoFleet {
    database: DemoDatabase,
    model: ScriptedModel,
    machines: [Machine; 3],
    strays: Strays,
    directory: TempDir,
    no_color: bool,
}

/// Plays it; whatever happened, nothing is left behind.
pub(super) async fn play<C: DemoClient>(
    codex: PathBuf,
    environment: &Environment,
    paint: Paint,
) -> anyhow::Result<()> {
    let mut fleet = DemoFleet::start(&codex, environment).await?;
    let played = tokio::select! {
        played = fleet.chapters::<C>(paint) => played,
        () = interrupted() => Err(anyhow::anyhow!("interrupted")),
    };
    let stopped = fleet.stop(played.is_ok()).await;
    played?;
    stopped
}

impl DemoFleet {
    async fn start(codex: &Path, environment: &Environment) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("codex-bridge-demo-")
            .tempdir()?;
        let database = DemoDatabase::find(environment).await?;
        let model = ScriptedModel::start(Options::default())
            .await
            .context("start the model")?;
        std::fs::create_dir(directory.path().join("work"))?;
        let machine = |name| Machine::new(directory.path().join(name));
        let [one, two, three] = NODES;
        let fleet = Self {
            machines: [machine(one)?, machine(two)?, machine(three)?],
            strays: Strays::adopt_all()?,
            database,
            model,
            directory,
            no_color: environment.no_color(),
        };
        for (machine, name) in fleet.machines.iter().zip(NODES) {
            let config = fleet.config(codex, machine, name);
            machine.configure(&config, &fleet.model.codex_config_of(name))?;
        }
        Ok(fleet)
    }

    fn config(&self, codex: &Path, machine: &Machine, name: &str) -> String {
        let root = self.directory.path();
        let quoted = |path: &Path| serde_json::Value::from(path.display().to_string()).to_string();
        format!(
            "[daemon]\nkey_file = {key}\n\n[codex]\nbin = {codex}\nhome = {home}\n\n\
             [fleet]\nnode = \"{name}\"\nlease_secs = {LEASE_SECS}\nshared_workdir = true\n\n\
             [tiers.owner]\nsandbox = \"workspace-write\"\nworkdir = {work}\n",
            key = quoted(&root.join("ledger.key")),
            codex = quoted(codex),
            home = quoted(&machine.codex_home()),
            work = quoted(&root.join("work")),
        )
    }

    async fn chapters<C: DemoClient>(&mut self, paint: Paint) -> anyhow::Result<()> {
        say(&self.database.words(paint));
        say(&format!(
            "{} a scripted model on loopback",
            paint.green("started")
        ));
        self.start_nodes().await?;
        say(&format!(
            "{} three nodes over it: {}, each with a CODEX_HOME of its own and a lease of {LEASE_SECS} s",
            paint.green("started"),
            NODES.join(", ")
        ));
        let connect = |machine: &Machine| C::connect(&machine.state_dir(), self.no_color);
        let clients = [
            connect(&self.machines[0])?,
            connect(&self.machines[1])?,
            connect(&self.machines[2])?,
        ];
        say("");
        say(&paint.bold("1. A conversation is at home on one node"));
        let told = "My favourite colour is teal. echo:Noted: teal.";
        converse(&clients[0], paint, NODES[0], told).await?;
        let home = self.ran_on(told)?;
        let home_name = NODES[home];
        say(&format!(
            "  Its turn ran on {home_name}, and so do all that follow."
        ));
        let at = usize::from(home == 0);
        let near = NODES[at];
        say("");
        let title =
            format!("2. {home_name} dies in the middle of a turn (kill -9), and its disk is gone");
        say(&paint.bold(&title));
        let job = format!(
            "A long job. append:{EFFECTS}:done ;; hold:{GATE} echo:Finished, in spite of it."
        );
        let (model, directory) = (&self.model, &self.directory);
        let strays = self.strays.living(&pids(&self.machines));
        let dying = &mut self.machines[home];
        let kill = async {
            model.wait_held(GATE).await?;
            dying.die(&strays).await.context("kill the node")?;
            dying.lose_disk().context("remove the disk")?;
            for line in [
                format!("{home_name} is dead with its daemon, its Codex and its CODEX_HOME."),
                format!(
                    "When its lease has ended, at most {LEASE_SECS} s from now, another node takes the"
                ),
                "conversation over: it brings the thread from the database, sees that the"
                    .to_owned(),
                "turn was cut after it had run a command, and has Codex continue it.".to_owned(),
            ] {
                say(&format!("  {}", paint.yellow(&line)));
            }
            model.release(GATE);
            anyhow::Ok(())
        };
        tokio::try_join!(converse(&clients[at], paint, near, &job), kill)?;
        let next = self.ran_on("Finished, in spite of it.")?;
        let written = std::fs::read_to_string(directory.path().join("work").join(EFFECTS))?;
        say(&format!(
            "  It went on on {}; its command ran {} time.",
            NODES[next],
            written.lines().count()
        ));
        if next == home || written.lines().count() != 1 {
            bail!("the turn did not go on elsewhere as it should");
        }
        say("");
        say(&paint.bold("3. The conversation remembers, without the disk it lived on"));
        converse(&clients[at], paint, near, "What did I tell you? remember:").await?;
        say("");
        Ok(())
    }

    async fn start_nodes(&mut self) -> anyhow::Result<()> {
        let url = self.database.url();
        let without: Vec<&str> = NOT_FOR_THE_DAEMON
            .into_iter()
            .filter(|name| *name != "CODEX_BRIDGE_LEDGER_URL")
            .collect();
        for machine in &mut self.machines {
            machine.start(&url, &without).context("start a node")?;
        }
        let serving = async {
            for machine in &mut self.machines {
                while !machine.serves() {
                    if let Some(status) = machine.look().await? {
                        bail!("a node ended before it was ready: {status}");
                    }
                    tokio::time::sleep(LOOK_EVERY).await;
                }
            }
            anyhow::Ok(())
        };
        let served = tokio::time::timeout(START_PATIENCE, serving).await;
        served.context("the nodes did not start in time")?
    }

    /// The place of the node whose Codex was asked last about a message with these words.
    fn ran_on(&self, words: &str) -> anyhow::Result<usize> {
        let requests = self.model.requests();
        let asked = requests
            .iter()
            .rev()
            .find(|seen| seen.last().contains(words));
        let home = asked.and_then(|seen| seen.home.as_deref());
        let place = NODES.iter().position(|name| Some(*name) == home);
        place.context("the model was asked by no node")
    }

    /// Stops everything and checks that nothing is left.
    async fn stop(mut self, gently: bool) -> anyhow::Result<()> {
        let mut wrong = Vec::new();
        for machine in self.machines.iter_mut().filter(|_| gently) {
            if let Some(status) = machine.stop(STOP_PATIENCE).await?
                && !status.success()
            {
                wrong.push(format!("a node stopped with {status}"));
            }
        }
        let left = match gently {
            true => self.strays.gone().await,
            false => Vec::new(),
        };
        if !left.is_empty() {
            wrong.push(format!("processes are left behind: {left:?}"));
        }
        let strays = self.strays.living(&pids(&self.machines));
        for machine in &mut self.machines {
            machine.die(&strays).await?;
        }
        self.strays.kill().await;
        self.model.stop().await;
        if let Err(error) = self.database.end().await {
            wrong.push(format!("{error:#}"));
        }
        self.directory
            .close()
            .context("remove the demo's directory")?;
        match wrong.is_empty() {
            true => Ok(()),
            false => bail!("{}", wrong.join("; ")),
        }
    }
}

fn pids(machines: &[Machine]) -> Vec<i32> {
    machines.iter().filter_map(Machine::pid).collect()
}

/// Sends a message to a node and prints its answer.
async fn converse<C: DemoClient>(
    client: &C,
    paint: Paint,
    node: &str,
    text: &str,
) -> anyhow::Result<()> {
    say(&format!(
        "  {} {text}",
        paint.cyan(&format!("alice, over {node}:"))
    ));
    let answer = client.send("alice", text, PATIENCE).await?;
    say(&format!(
        "  {} {}",
        paint.green("codex to alice:"),
        escape(&answer)
    ));
    Ok(())
}
