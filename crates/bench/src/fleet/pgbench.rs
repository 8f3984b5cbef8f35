//! `pgbench -N` on the same server: what a simple transaction costs there. It reads one row, updates it and inserts one.

use super::database::{Database, Postgres};
use anyhow::{Context, ensure};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Its accounts, in units of 100,000: 64 clients seldom meet at one.
const SCALE: &str = "10";
/// More threads would only take the server's processors.
const THREADS_MAX: u64 = 2;
/// How long a run may take beyond what it was told.
const PATIENCE: Duration = Duration::from_secs(120);

/// A filled database of its own.
#[derive(Clone, Debug)]
pub(super) struct Pgbench {
    database: Database,
}

impl Pgbench {
    pub(super) async fn fill(postgres: &Postgres) -> anyhow::Result<Self> {
        let database = postgres.database("pgbench").await?;
        let pgbench = Self { database };
        let fill = ["--initialize", "--quiet", "--scale", SCALE];
        pgbench.run(&fill.map(str::to_owned), PATIENCE).await?;
        Ok(pgbench)
    }

    /// Transactions per second of so many clients.
    pub(super) async fn rate(&self, clients: u64, seconds: Duration) -> anyhow::Result<f64> {
        let threads = clients.min(THREADS_MAX);
        let args = [
            "--no-vacuum".to_owned(),
            "--skip-some-updates".to_owned(),
            "--protocol=prepared".to_owned(),
            format!("--client={clients}"),
            format!("--jobs={threads}"),
            format!("--time={}", seconds.as_secs().max(1)),
        ];
        let said = self.run(&args, seconds + PATIENCE).await?;
        rate(&said).with_context(|| format!("a rate in {said:?}"))
    }

    async fn run(&self, args: &[String], most: Duration) -> anyhow::Result<String> {
        let program = self.database.postgres.program("pgbench");
        let child: Child = Command::new(&program)
            .args(args)
            .arg(self.database.url())
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| {
                let program = program.display();
                format!("start {program}, which comes with PostgreSQL's server")
            })?;
        let ended = timeout(most, child.wait_with_output()).await;
        let ended = ended.context("pgbench does not end")??;
        let said = String::from_utf8_lossy(&ended.stderr);
        ensure!(ended.status.success(), "pgbench failed: {said}");
        Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
    }
}

fn rate(said: &str) -> Option<f64> {
    let line = said.lines().find_map(|line| line.strip_prefix("tps = "))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_read_from_its_line() {
        let said = "latency average = 0.4 ms\ntps = 2950.75 (without initial connection time)\n";
        assert_eq!(rate(said), Some(2950.75));
        assert_eq!(rate("tps: none"), None);
    }
}
