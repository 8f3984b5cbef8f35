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

/// Fewer conversations than this have as many messages together as this number of them.
const FEW: u64 = 16;

/// One number of finished messages.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) behind: u64,
    /// Rounds in front of the history, each with its neighbour in time with none.
    pub(crate) pairs: Vec<(Round, Round)>,
    /// Size of the file with the history.
    pub(crate) bytes: u64,
}

impl Point {
    /// Messages per second in front of the history.
    pub(crate) fn rate(&self) -> f64 {
        self.median(|(with, _)| with.rate())
    }

    /// And with none.
    pub(crate) fn without(&self) -> f64 {
        self.median(|(_, without)| without.rate())
    }

    /// Neighbours are compared, because the machine's own speed changes from one second to the next.
    pub(crate) fn ratio(&self) -> f64 {
        self.median(|(with, without)| with.rate() / without.rate())
    }

    fn median(&self, of: fn(&(Round, Round)) -> f64) -> f64 {
        median(&self.pairs.iter().map(of).collect::<Vec<_>>())
    }
}

/// Leaves the file with the history for whoever wants to ask it something.
pub(crate) async fn measure(place: &Place, plan: &Plan, behind: u64) -> anyhow::Result<Point> {
    let path = place.file(&name(behind));
    fill(&path, behind).await?;
    let bytes = std::fs::metadata(&path)?.len();
    let lives = Lives::open(&path, behind, Reads::AsDaemon)?;
    warm_up(&lives, &path).await?;
    let each = each(plan, CONVERSATIONS);
    let mut pairs = Vec::new();
    for round in 0..plan.ledger_rounds {
        // The order changes, so that neither is always the first after a pause.
        pairs.push(if round % 2 == 0 {
            let with = crowd::round(&lives, &path, CONVERSATIONS, each).await?;
            (with, fresh(place, CONVERSATIONS, each).await?)
        } else {
            let without = fresh(place, CONVERSATIONS, each).await?;
            let with = crowd::round(&lives, &path, CONVERSATIONS, each).await?;
            (with, without)
        });
    }
    lives.close(&path).await?;
    Ok(Point {
        behind,
        pairs,
        bytes,
    })
}

pub(crate) fn name(behind: u64) -> String {
    format!("behind-{behind}.db")
}

/// Messages of one conversation in one round: more where few conversations would be done in no time.
pub(crate) fn each(plan: &Plan, conversations: u64) -> u64 {
    let rounds = u64::try_from(plan.ledger_rounds).unwrap_or(1).max(1);
    let each = (plan.lives / rounds / CONVERSATIONS).max(1);
    each.max(each * FEW / conversations.max(1))
}

/// One round on a new ledger.
pub(crate) async fn fresh(place: &Place, conversations: u64, each: u64) -> anyhow::Result<Round> {
    let path = place.file("fresh.db");
    let lives = Lives::open(&path, 0, Reads::AsDaemon)?;
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
