//! What a history costs: the rate with finished messages behind it against the rate with none, round by round in turn.

use super::crowd::{self, Round};
use super::place::Place;
use crate::plan::Plan;
use crate::stats::median;
use bridge_hot::fill::fill;
use bridge_hot::life::Lives;
use std::path::Path;

/// Messages of each conversation before a round counts: statements are compiled, threads bound, pages in memory.
const WARM_UP: u64 = 3;

/// Conversations whose messages live side by side in front of a history.
pub(crate) const CONVERSATIONS: u64 = 64;

/// The ledger of one round, and the one beside a history.
const FRESH: &str = "fresh.db";
const NEIGHBOUR: &str = "neighbour.db";

/// Fewer conversations than this have as many messages together as this number of them.
const FEW: u64 = 16;

/// One number of finished messages.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) behind: u64,
    /// Rounds in front of the history, each with its neighbour in time on a ledger that began empty.
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

/// Leaves the file with the history for whoever wants to ask it something. Its neighbour began empty and lives through
/// the same rounds, so that the history is all that differs.
pub(crate) async fn measure(place: &Place, plan: &Plan, behind: u64) -> anyhow::Result<Point> {
    let path = place.file(&name(behind));
    fill(&path, behind).await?;
    let bytes = std::fs::metadata(&path)?.len();
    let lives = Lives::open(&path, behind)?;
    warm_up(&lives, &path).await?;
    let beside_path = place.file(NEIGHBOUR);
    let beside = Lives::open(&beside_path, 0)?;
    warm_up(&beside, &beside_path).await?;
    let each = each(plan, CONVERSATIONS);
    let mut pairs = Vec::new();
    for round in 0..plan.ledger_rounds {
        let with = async || crowd::round(&lives, &path, CONVERSATIONS, each).await;
        let without = async || crowd::round(&beside, &beside_path, CONVERSATIONS, each).await;
        // The order changes, so that neither is always the first after a pause.
        pairs.push(if round % 2 == 0 {
            (with().await?, without().await?)
        } else {
            let first = without().await?;
            (with().await?, first)
        });
    }
    lives.close(&path).await?;
    beside.close(&beside_path).await?;
    remove(place, NEIGHBOUR)?;
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
    let path = place.file(FRESH);
    let lives = Lives::open(&path, 0)?;
    warm_up(&lives, &path).await?;
    let round = crowd::round(&lives, &path, conversations, each).await?;
    lives.close(&path).await?;
    remove(place, FRESH)?;
    Ok(round)
}

/// A ledger with its log.
fn remove(place: &Place, name: &str) -> std::io::Result<()> {
    for end in ["", "-wal", "-shm"] {
        match std::fs::remove_file(place.file(&format!("{name}{end}"))) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

async fn warm_up(lives: &Lives, path: &Path) -> anyhow::Result<()> {
    crowd::round(lives, path, CONVERSATIONS, WARM_UP).await?;
    Ok(())
}
