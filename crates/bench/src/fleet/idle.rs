//! Nodes with nothing to do: what their leases and looks cost the server.

use super::database::MAINTENANCE;
use super::nodes::Scene;
use std::time::{Duration, Instant};

/// What is done behind an answer has this long until it counts as idle.
const SETTLE: Duration = Duration::from_secs(2);

/// Of all nodes together.
#[derive(Clone, Debug)]
pub(super) struct Idle {
    pub(super) nodes: usize,
    pub(super) watched: Duration,
    statements: u64,
    transactions: u64,
    log_bytes: u64,
    /// Calls of the statements that are most often called, and their texts.
    pub(super) most: Vec<(u64, String)>,
}

impl Idle {
    fn each(&self, count: u64) -> f64 {
        count as f64 / self.watched.as_secs_f64() / self.nodes as f64
    }

    /// Per second and node.
    pub(super) fn statements(&self) -> f64 {
        self.each(self.statements)
    }

    pub(super) fn transactions(&self) -> f64 {
        self.each(self.transactions)
    }

    pub(super) fn log_bytes(&self) -> f64 {
        self.each(self.log_bytes)
    }

    pub(super) fn calls(&self, calls: u64) -> f64 {
        self.each(calls)
    }
}

pub(super) async fn measure(scene: &Scene, nodes: usize) -> anyhow::Result<Idle> {
    let postgres = &scene.database.postgres;
    let ours = format!(
        "dbid = (SELECT oid FROM pg_database WHERE datname = '{}')",
        scene.database.name
    );
    let begin = "CREATE EXTENSION IF NOT EXISTS pg_stat_statements";
    postgres.ask(MAINTENANCE, begin).await?;
    tokio::time::sleep(SETTLE).await;
    let count = async || -> anyhow::Result<[u64; 2]> {
        let statements =
            format!("SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE {ours}");
        let transactions = format!(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = '{}'",
            scene.database.name
        );
        let statements = postgres.ask(MAINTENANCE, &statements).await?;
        let transactions = postgres.ask(MAINTENANCE, &transactions).await?;
        Ok([
            super::database::number(&statements)?,
            super::database::number(&transactions)?,
        ])
    };
    postgres
        .ask(MAINTENANCE, "SELECT pg_stat_statements_reset()")
        .await?;
    let (began, log_bytes, before) = (Instant::now(), postgres.log_bytes().await?, count().await?);
    tokio::time::sleep(scene.ground.plan.idle).await;
    let (after, log_after, watched) =
        (count().await?, postgres.log_bytes().await?, began.elapsed());
    let most = format!(
        "SELECT calls, regexp_replace(left(query, 200), '\\s+', ' ', 'g') FROM pg_stat_statements WHERE {ours} \
         ORDER BY calls DESC, 2 LIMIT 12"
    );
    let most = postgres.ask(MAINTENANCE, &most).await?;
    let most = most.lines().filter_map(|line| {
        let (calls, text) = line.split_once('|')?;
        Some((calls.parse().ok()?, text.to_owned()))
    });
    Ok(Idle {
        nodes,
        watched,
        statements: after[0].saturating_sub(before[0]),
        transactions: after[1].saturating_sub(before[1]),
        log_bytes: log_after.saturating_sub(log_bytes),
        most: most.collect(),
    })
}
