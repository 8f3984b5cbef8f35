//! Whole lives of messages through the ledgers of several nodes over one server, with `pgbench` in turn. The nodes are
//! ledgers of this process, opened as daemons open theirs; each has its own scheduler and its own conversations.

use super::database::{Database, Postgres, TableSize};
use super::pgbench::Pgbench;
use crate::ledger::crowd;
use crate::plan::Plan;
use crate::stage::process::own_time;
use crate::stats::{median, millis};
use anyhow::{Context, ensure};
use bridge_core::value::NodeId;
use bridge_hot::life::Lives;
use bridge_store::key::KEY_BYTES;
use bridge_store::{KeyAge, LedgerKey, PostgresLedger, PostgresOptions, PostgresUrl};
use futures_util::future::try_join_all;
use std::time::{Duration, Instant};

/// Conversations of all nodes together, where there is a crowd.
const CROWD: u64 = 64;
/// Messages of each conversation before a round counts: it gets its home and its thread, statements are prepared.
const WARM_UP: u64 = 3;
/// Ids of one node's messages and those of the next are so far apart.
const SERIALS: u64 = 10_000_000;
/// A fleet waits while another one is measured; nothing renews its leases meanwhile.
const LEASE: Duration = Duration::from_secs(600);

/// One number of nodes with one number of conversations.
#[derive(Clone, Debug)]
pub(super) struct Width {
    pub(super) nodes: u64,
    /// All nodes' together; `pgbench` has as many clients.
    pub(super) conversations: u64,
    pub(super) rounds: Vec<Round>,
}

/// One round and the `pgbench` beside it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    messages: u64,
    took: Duration,
    spent: Counters,
    simple: f64,
}

/// What is counted while messages live, of all nodes together.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    transitions: f64,
    commits: f64,
    trips: f64,
    log_bytes: f64,
    /// Processor time of the nodes and of the server, in ms.
    ours: f64,
    server: f64,
}

/// What lives leave in a database.
#[derive(Clone, Debug)]
pub(super) struct Growth {
    pub(super) messages: u64,
    /// Tables before the first message, behind the last one, and written anew then.
    pub(super) before: Vec<TableSize>,
    pub(super) after: Vec<TableSize>,
    pub(super) packed: Vec<TableSize>,
}

/// All of it.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) widths: Vec<Width>,
    /// In the database of the smallest fleet.
    pub(super) growth: Growth,
    pub(super) version: String,
    pub(super) kind: &'static str,
}

impl Counters {
    fn since(self, before: Self) -> Self {
        Self {
            transitions: self.transitions - before.transitions,
            commits: self.commits - before.commits,
            trips: self.trips - before.trips,
            log_bytes: self.log_bytes - before.log_bytes,
            ours: self.ours - before.ours,
            server: self.server - before.server,
        }
    }
}

impl Round {
    pub(super) fn rate(&self) -> f64 {
        self.messages as f64 / self.took.as_secs_f64()
    }
}

impl Width {
    pub(super) fn is_crowd(&self) -> bool {
        self.conversations == CROWD
    }

    pub(super) fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        median(&self.rounds.iter().map(of).collect::<Vec<_>>())
    }

    pub(super) fn rate(&self) -> f64 {
        self.median(Round::rate)
    }

    /// Simple transactions per second.
    pub(super) fn simple(&self) -> f64 {
        self.median(|round| round.simple)
    }

    /// Simple transactions that a life costs. Neighbours in time are compared.
    pub(super) fn cost(&self) -> f64 {
        self.median(|round| round.simple / round.rate())
    }

    pub(super) fn transitions(&self) -> f64 {
        self.each(|spent| spent.transitions)
    }

    pub(super) fn commits(&self) -> f64 {
        self.each(|spent| spent.commits)
    }

    /// Of the nodes' writers.
    pub(super) fn trips(&self) -> f64 {
        self.each(|spent| spent.trips)
    }

    pub(super) fn log_bytes(&self) -> f64 {
        self.each(|spent| spent.log_bytes)
    }

    /// Processor time in the nodes, in ms.
    pub(super) fn ours(&self) -> f64 {
        self.each(|spent| spent.ours)
    }

    /// And in the server.
    pub(super) fn server(&self) -> f64 {
        self.each(|spent| spent.server)
    }

    /// For a life.
    fn each(&self, of: fn(&Counters) -> f64) -> f64 {
        self.median(|round| of(&round.spent) / round.messages as f64)
    }
}

pub(super) async fn measure(plan: &Plan) -> anyhow::Result<Measured> {
    let postgres = Postgres::start(&[]).await?;
    let pgbench = Pgbench::fill(&postgres).await?;
    let mut fleets = Vec::new();
    for nodes in &plan.nodes {
        fleets.push(Fleet::open(&postgres, *nodes).await?);
    }
    let first = fleets.first().context("no number of nodes")?;
    let before = first.database.sizes().await?;
    let mut widths = Vec::new();
    for (at, fleet) in fleets.iter().enumerate() {
        for conversations in [fleet.count(), CROWD] {
            let width = Width {
                nodes: fleet.count(),
                conversations,
                rounds: Vec::new(),
            };
            widths.push((at, width, fleet.warm_up(conversations).await?));
        }
    }
    for round in 0..plan.fleet_rounds {
        for (at, width, rate) in &mut widths {
            let fleet = fleets.get_mut(*at).context("a fleet is missing")?;
            let measured = fleet.round(
                &pgbench,
                width.conversations,
                *rate,
                round,
                plan.fleet_round,
            );
            let measured = measured.await?;
            *rate = measured.rate();
            width.rounds.push(measured);
        }
    }
    let growth = fleets
        .into_iter()
        .next()
        .context("no fleet")?
        .grown(before)
        .await?;
    Ok(Measured {
        widths: widths.into_iter().map(|(_, width, _)| width).collect(),
        growth,
        version: postgres.version().await?,
        kind: postgres.kind,
    })
}

/// So many nodes with a database of their own.
struct Fleet {
    database: Database,
    nodes: Vec<Lives<PostgresLedger>>,
}

impl Fleet {
    async fn open(postgres: &Postgres, nodes: u64) -> anyhow::Result<Self> {
        let database = postgres.database(&format!("nodes-{nodes}")).await?;
        let mut fleet = Self {
            database,
            nodes: Vec::new(),
        };
        for number in 0..nodes {
            let url = fleet.database.url();
            let opened = tokio::task::spawn_blocking(move || open(&url, number));
            let ledger = opened.await?.context("open a ledger as a node")?;
            fleet.nodes.push(Lives::over(ledger, number * SERIALS));
        }
        Ok(fleet)
    }

    fn count(&self) -> u64 {
        self.nodes.len() as u64
    }

    /// One node after the other, so that each conversation gets the home that it is meant to have; gives lives per second.
    async fn warm_up(&self, conversations: u64) -> anyhow::Result<f64> {
        let began = Instant::now();
        for (node, range) in self.shares(conversations) {
            crowd::live(node, range, WARM_UP).await?;
        }
        let lives = self.each(conversations) * self.count() * WARM_UP;
        Ok(lives as f64 / began.elapsed().as_secs_f64())
    }

    /// Conversations of one node.
    fn each(&self, conversations: u64) -> u64 {
        (conversations / self.count()).max(1)
    }

    /// Each node with its own conversations, which are others in a crowd than alone.
    fn shares(
        &self,
        conversations: u64,
    ) -> impl Iterator<Item = (&Lives<PostgresLedger>, std::ops::Range<u64>)> {
        let each = self.each(conversations);
        let first = if conversations == CROWD { 1_000 } else { 0 };
        let starts = (0..).map(move |number| first + number * each);
        let ranges = starts.map(move |start| start..start + each);
        self.nodes.iter().zip(ranges)
    }

    /// As many lives as take about `time` at the last rate. Which of the two goes first changes with every round.
    async fn round(
        &self,
        pgbench: &Pgbench,
        conversations: u64,
        rate: f64,
        round: usize,
        time: Duration,
    ) -> anyhow::Result<Round> {
        let each = (rate * time.as_secs_f64() / conversations as f64)
            .ceil()
            .max(1.0) as u64;
        if round.is_multiple_of(2) {
            let simple = pgbench.rate(conversations, time).await?;
            let lived = self.live(conversations, each).await?;
            return Ok(Round { simple, ..lived });
        }
        let lived = self.live(conversations, each).await?;
        let simple = pgbench.rate(conversations, time).await?;
        Ok(Round { simple, ..lived })
    }

    async fn live(&self, conversations: u64, each: u64) -> anyhow::Result<Round> {
        let before = self.counters().await?;
        let began = Instant::now();
        let nodes = self.shares(conversations);
        let lived = try_join_all(nodes.map(|(node, range)| crowd::live(node, range, each))).await?;
        let took = began.elapsed();
        let messages = self.each(conversations) * self.count() * each;
        let answered: u64 = lived.into_iter().sum();
        ensure!(
            answered == messages,
            "{answered} messages were answered, not {messages}"
        );
        Ok(Round {
            messages,
            took,
            spent: self.counters().await?.since(before),
            simple: 0.0,
        })
    }

    async fn counters(&self) -> anyhow::Result<Counters> {
        let sum = |of: fn(&Lives<PostgresLedger>) -> u64| {
            let all: u64 = self.nodes.iter().map(of).sum();
            all as f64
        };
        let postgres = &self.database.postgres;
        Ok(Counters {
            transitions: sum(Lives::transitions),
            commits: sum(|node| node.ledger().commits()),
            trips: sum(|node| node.ledger().round_trips()),
            log_bytes: postgres.log_bytes().await? as f64,
            ours: millis(own_time()?),
            server: postgres.processor(),
        })
    }

    /// What all its lives left.
    async fn grown(self, before: Vec<TableSize>) -> anyhow::Result<Growth> {
        let Self { database, nodes } = self;
        drop(nodes);
        let messages = database.number("SELECT count(*) FROM message").await?;
        let after = database.sizes().await?;
        database.pack().await?;
        let packed = database.sizes().await?;
        Ok(Growth {
            messages,
            before,
            after,
            packed,
        })
    }
}

/// A node's ledger, as a daemon opens it. It blocks.
pub(super) fn open(url: &str, number: u64) -> anyhow::Result<PostgresLedger> {
    let key = LedgerKey::from_bytes(&[1; KEY_BYTES], KeyAge::New)?;
    let node = NodeId::new(format!("node-{number}"));
    let options = PostgresOptions {
        lease: LEASE,
        ..PostgresOptions::default()
    };
    Ok(PostgresLedger::open(
        &PostgresUrl::new(url)?,
        &node,
        &key,
        options,
    )?)
}
