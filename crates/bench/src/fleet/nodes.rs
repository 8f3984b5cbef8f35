//! The installed daemons as nodes of one fleet: each with a state directory and a CODEX_HOME of its own, with their
//! database, their working directory and their key in common. The lease is the default.

use super::database::{Database, Postgres};
use crate::ground::Ground;
use crate::stage::daemon::{Daemon, DaemonOptions};
use crate::stage::served::codex_is_up;
use crate::stage::{PATIENCE, Place};
use crate::traces;
use anyhow::{Context, ensure};
use bridge_sim::{Options, ScriptedModel};
use std::process::Stdio;
use tempfile::TempDir;
use tokio::process::Child;
use tokio::time::timeout;

/// The conversation of all turns.
const CONVERSATION: &str = "main";
/// Counts statements.
const SETTINGS: [(&str, &str); 2] = [
    ("shared_preload_libraries", "pg_stat_statements"),
    ("pg_stat_statements.track_utility", "on"),
];

/// What daemons have in common, and their model.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) ground: Ground,
    pub(super) model: ScriptedModel,
    pub(super) database: Database,
    shared: TempDir,
}

/// A daemon, and where it is.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: &'static str,
    pub(super) place: Place,
    pub(super) daemon: Daemon,
}

/// A machine whose daemon does not run.
#[derive(Debug)]
pub(super) struct Stopped {
    name: &'static str,
    place: Place,
    engine: Engine,
}

/// What a daemon keeps its ledger in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    /// A file of its own, so that its threads need not be stored.
    Sqlite,
    Postgres,
}

impl Scene {
    pub(super) async fn set(ground: &Ground) -> anyhow::Result<Self> {
        let postgres = Postgres::start(&SETTINGS).await?;
        let database = postgres.database("fleet").await?;
        let shared = tempfile::Builder::new().prefix("cb-fleet-").tempdir()?;
        std::fs::create_dir(shared.path().join("work"))?;
        let options = Options {
            request_max_retries: 0,
            stream_max_retries: 0,
            ..Options::default()
        };
        Ok(Self {
            ground: ground.clone(),
            model: ScriptedModel::start(options).await?,
            database,
            shared,
        })
    }

    /// A machine with an empty disk.
    pub(super) fn machine(&self, name: &'static str, engine: Engine) -> anyhow::Result<Stopped> {
        let place = Place::new(&self.model.codex_config_of(name))?;
        Ok(Stopped {
            name,
            place,
            engine,
        })
    }

    /// Starts its daemon and waits until its Codex is up.
    pub(super) async fn start(&self, machine: Stopped) -> anyhow::Result<Node> {
        let Stopped {
            name,
            place,
            engine,
        } = machine;
        let shared = self.shared.path().display();
        let mut settings =
            format!("[tiers.owner]\nsandbox = \"workspace-write\"\nworkdir = \"{shared}/work\"\n");
        let mut env = Vec::new();
        if engine == Engine::Postgres {
            settings += &format!(
                "[fleet]\nnode = \"{name}\"\nshared_workdir = true\n\
                 [daemon]\nkey_file = \"{shared}/ledger.key\"\n"
            );
            env.push(("CODEX_BRIDGE_LEDGER_URL".to_owned(), self.database.url()));
        }
        let options = DaemonOptions {
            settings,
            env,
            log: Some(traces::LOG.to_owned()),
        };
        let daemon = Daemon::start(&self.ground, &place, options).await?;
        codex_is_up(&daemon).await?;
        Ok(Node {
            name,
            place,
            daemon,
        })
    }

    /// The lease that its nodes have, in seconds. Every commit begins it anew, so ask right behind one.
    pub(super) async fn lease_secs(&self) -> anyhow::Result<u64> {
        let left = "SELECT ceil((max(lease_until) - extract(epoch FROM clock_timestamp()) * 1000) / 1000)::bigint FROM node";
        self.database.number(left).await
    }
}

impl Node {
    /// A message, up to its answer.
    pub(super) async fn ask(&self, text: &str, answer: &str) -> anyhow::Result<()> {
        let child = self.says(text)?;
        let ended = timeout(PATIENCE, child.wait_with_output()).await;
        let ended = ended.context("send does not end")??;
        let said = String::from_utf8_lossy(&ended.stdout);
        ensure!(
            ended.status.success() && said.trim() == answer,
            "send ended with {} and said {said:?}: {}; the daemon's log ends with {:#?}",
            ended.status,
            String::from_utf8_lossy(&ended.stderr),
            self.daemon.log.tail()
        );
        Ok(())
    }

    /// A message of whose answer somebody else is told.
    pub(super) fn says(&self, text: &str) -> anyhow::Result<Child> {
        let mut command = self.daemon.command(&self.place);
        command
            .args(["send", "--conversation", CONVERSATION, text])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().context("start codex-bridge send")
    }

    /// The whole machine dies, and keeps its disk.
    pub(super) async fn dies(self) -> anyhow::Result<Stopped> {
        let Self {
            name,
            place,
            daemon,
        } = self;
        daemon.kill().await?;
        Ok(Stopped {
            name,
            place,
            engine: Engine::Postgres,
        })
    }
}
