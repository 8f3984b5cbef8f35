//! What storing a thread adds to a turn: the same turns on a daemon whose ledger is a file, which stores none, and on a
//! node of a fleet, in turn.

use super::database::TableSize;
use super::nodes::{Node, Scene};
use crate::stage::served::{Party, TICK_MS, Ticks};
use crate::stats::{Spread, median};
use crate::traces::life::Line;
use anyhow::{Context, ensure};
use jiff::Timestamp;
use std::time::Duration;

/// What is done behind an answer has this long until processor time is read.
const SETTLE: Duration = Duration::from_millis(500);

/// The turns of one daemon.
#[derive(Clone, Debug)]
pub(super) struct Side {
    /// From the end of the turn, as Codex says it, until its answer may be stored.
    pub(super) ends: Spread,
    /// Processor time of one turn, in ms.
    pub(super) ours: f64,
    pub(super) codex: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Shipping {
    pub(super) stored: Side,
    pub(super) plain: Side,
    /// What the end of a turn takes longer, the median over neighbours in time, in ms.
    pub(super) beyond: f64,
    pub(super) turns: u64,
    /// The server's processor time of a turn, in ms, leases included.
    pub(super) server: f64,
    /// Bytes that a thread begins with, that a turn adds, and that the database holds for each of them.
    pub(super) first_bytes: u64,
    pub(super) turn_bytes: f64,
    pub(super) kept_ratio: f64,
    pub(super) log_bytes: f64,
    pub(super) before: Vec<TableSize>,
    pub(super) after: Vec<TableSize>,
}

/// A daemon whose turns are measured.
struct Measured<'a> {
    node: &'a Node,
    party: Party,
    before: Ticks,
    ends: Vec<Duration>,
}

pub(super) async fn measure(
    scene: &Scene,
    stored: &Node,
    plain: &Node,
) -> anyhow::Result<Shipping> {
    let plan = &scene.ground.plan;
    for number in 0..plan.warm_rounds {
        for node in [stored, plain] {
            turn(node, &format!("warm {number}")).await?;
        }
    }
    tokio::time::sleep(SETTLE).await;
    let (database, postgres) = (&scene.database, &scene.database.postgres);
    let before = database.sizes().await?;
    let log_bytes = postgres.log_bytes().await?;
    let server = postgres.processor();
    let mut sides = [Measured::of(stored)?, Measured::of(plain)?];
    for number in 0..plan.shipped {
        let answer = format!("shipped {number}");
        let (first, second) = (number % 2, 1 - number % 2);
        for at in [first, second] {
            tokio::time::sleep(plan.gap).await;
            let side = sides.get_mut(at).context("a side is missing")?;
            let took = turn(side.node, &answer).await?;
            side.ends.push(took);
        }
    }
    tokio::time::sleep(SETTLE).await;
    let server = postgres.processor() - server;
    let log_bytes = postgres.log_bytes().await?.saturating_sub(log_bytes);
    let [stored, plain] = &sides;
    let pairs = stored.ends.iter().zip(&plain.ends);
    let beyond =
        pairs.map(|(stored, plain)| (stored.as_secs_f64() - plain.as_secs_f64()) * 1_000.0);
    let first_bytes = "SELECT coalesce(max(length), 0) FROM segment WHERE start = 0";
    let turn_bytes = "SELECT coalesce(percentile_disc(0.5) WITHIN GROUP (ORDER BY length), 0) FROM segment WHERE start > 0";
    let kept = "SELECT coalesce(round(10000 * sum(octet_length(body)) / sum(length)), 0)::bigint FROM segment";
    let turns = plan.shipped as u64;
    Ok(Shipping {
        beyond: median(&beyond.collect::<Vec<_>>()),
        stored: stored.side(),
        plain: plain.side(),
        turns,
        server: server / turns as f64,
        first_bytes: database.number(first_bytes).await?,
        turn_bytes: database.number(turn_bytes).await? as f64,
        kept_ratio: database.number(kept).await? as f64 / 10_000.0,
        log_bytes: log_bytes as f64 / turns as f64,
        before,
        after: database.sizes().await?,
    })
}

impl<'a> Measured<'a> {
    fn of(node: &'a Node) -> anyhow::Result<Self> {
        let party = Party::of(&node.daemon)?;
        ensure!(!party.codex.is_empty(), "no Codex below the daemon");
        let before = party.ticks();
        Ok(Self {
            node,
            party,
            before,
            ends: Vec::new(),
        })
    }

    fn side(&self) -> Side {
        let spent = self.party.ticks().since(self.before);
        let each = |ticks: u64| ticks as f64 * TICK_MS / self.ends.len() as f64;
        Side {
            ends: Spread::of(&self.ends),
            ours: each(spent.ours),
            codex: each(spent.codex),
        }
    }
}

/// One turn; gives how long its end took.
async fn turn(node: &Node, answer: &str) -> anyhow::Result<Duration> {
    let log = &node.daemon.log;
    let place = log.len();
    node.ask(&format!("echo:{answer}"), answer).await?;
    let at = |moment: &'static str| {
        move |line: &str| {
            let line = Line::read(line)?;
            (line.moment == moment).then_some(line.at)
        }
    };
    let ended: Timestamp = log.wait(place, "the end of a turn", at("ended")).await?;
    let completed = log.wait(place, "a turn that is completed", at("completed"));
    let took = ended.duration_since(completed.await?);
    Duration::try_from(took).context("a turn ended before it was completed")
}
