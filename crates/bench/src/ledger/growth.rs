//! What a history costs: the rate with finished messages behind it against the rate with none, round by round in turn.

use super::crowd::{self, Round};
use super::place::Place;
use crate::plan::Plan;
use crate::stats::median;
use bridge_hot::fill::fill;
use bridge_hot::life::{Lives, Reads};
use std::path::Path;

/// Messages of each conversation before a round counts: statements are compiled, threads bound, pages in memory.
const WARM_UP: u64 = 3;

/// Conversations whose messages live side by side in front of a history.
pub(crate) const CONVERSATIONS: u64 = 64;

/// One number of finished messages.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) behind: u64,
    /// Messages per second, of rounds in front of the history and of their neighbours in time with none.
    pub(crate) rate: f64,
    pub(crate) without: f64,
    /// Size of the file with the history.
    pub(crate) bytes: u64,
    pub(crate) rounds: usize,
}

impl Point {
    pub(crate) fn ratio(&self) -> f64 {
        self.rate / self.without
    }
}

/// Leaves the file with the history for whoever wants to ask it something.
pub(crate) async fn measure(place: &Place, plan: &Plan, behind: u64) -> anyhow::Result<Point> {
    let path = place.file(&name(behind));
    fill(&path, behind).await?;
    let bytes = std::fs::metadata(&path)?.len();
    let lives = Lives::open(&path, behind, Reads::None)?;
    warm_up(&lives, &path).await?;
    let each = each(plan);
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for round in 0..plan.ledger_rounds {
        // The order changes, so that neither is always the first after a pause.
        if round % 2 == 0 {
            with.push(
                crowd::round(&lives, &path, CONVERSATIONS, each)
                    .await?
                    .rate(),
            );
            without.push(fresh(place, CONVERSATIONS, each).await?.rate());
        } else {
            without.push(fresh(place, CONVERSATIONS, each).await?.rate());
            with.push(
                crowd::round(&lives, &path, CONVERSATIONS, each)
                    .await?
                    .rate(),
            );
        }
    }
    lives.close(&path).await?;
    Ok(Point {
        behind,
        rate: median(&with),
        without: median(&without),
        bytes,
        rounds: plan.ledger_rounds,
    })
}

pub(crate) fn name(behind: u64) -> String {
    format!("behind-{behind}.db")
}

/// Messages of one conversation in one round.
pub(crate) fn each(plan: &Plan) -> u64 {
    let rounds = u64::try_from(plan.ledger_rounds).unwrap_or(1).max(1);
    (plan.lives / rounds / CONVERSATIONS).max(1)
}

/// One round on a new ledger.
pub(crate) async fn fresh(place: &Place, conversations: u64, each: u64) -> anyhow::Result<Round> {
    let path = place.file("fresh.db");
    let lives = Lives::open(&path, 0, Reads::None)?;
    warm_up(&lives, &path).await?;
    let round = crowd::round(&lives, &path, conversations, each).await?;
    lives.close(&path).await?;
    for file in ["fresh.db", "fresh.db-wal", "fresh.db-shm"] {
        match std::fs::remove_file(place.file(file)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(round)
}

async fn warm_up(lives: &Lives, path: &Path) -> anyhow::Result<()> {
    crowd::round(lives, path, CONVERSATIONS, WARM_UP).await?;
    Ok(())
}
