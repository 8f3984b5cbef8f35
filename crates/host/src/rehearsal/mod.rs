//! What would change with another Codex: the operator's own conversations, replayed in their shape on the old and on the
//! new one, each in a CODEX_HOME of its own and with a scripted model.
//!
//! Of a conversation only numbers come here: how long its texts were, how many commands ran, what was asked and how that
//! was decided. Nothing of the live state is read or written, and no account is used.

mod compare;
mod play;
mod shape;

use crate::keeper::launch::LaunchOptions;
use crate::self_check::{CheckError, Finding, Verdict, check};
use compare::changes;
use play::{Played, play};
pub use shape::{
    COMMANDS_MAX, CONVERSATIONS_DEFAULT, CONVERSATIONS_MAX, ConversationShape, TURNS_MAX, TurnShape,
};
use std::path::Path;
use std::time::Duration;

/// How long the replay on one Codex may take: 20 turns of 100 conversations take 15 minutes.
const REPLAY_DEADLINE: Duration = Duration::from_secs(30 * 60);

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum RehearsalError {
    #[error("{0}")]
    Check(#[from] CheckError),
    #[error(
        "the present Codex does not get through the replay, so the other can't be compared with it: {0}"
    )]
    Old(String),
    #[error("the replay did not end within {} min; replay fewer conversations", REPLAY_DEADLINE.as_secs() / 60)]
    Overrun,
}

/// What a replay cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayCost {
    pub version: String,
    /// Processor time of Codex and of what it started.
    pub cpu_ms: u64,
    /// The most memory that it had at once.
    pub peak_kib: u64,
    pub wall_ms: u64,
    /// Answers that it asked of the model.
    pub model_requests: u64,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rehearsal {
    /// The check of the new one.
    pub verdict: Verdict,
    pub old: ReplayCost,
    pub new: ReplayCost,
    /// Turns that were replayed on each.
    pub turns: u64,
    /// What would be otherwise, the worst first.
    pub changes: Vec<Finding>,
}

impl Rehearsal {
    /// Whether the new one can take the place of the old one.
    #[must_use]
    pub fn passed(&self) -> bool {
        let breaks = |finding: &Finding| finding.severity == crate::self_check::Severity::Breaks;
        self.verdict.passed() && !self.changes.iter().any(breaks)
    }
}

/// Checks `new`, replays the conversations on `old` and on `new`, and compares. All of it happens below `scratch`.
///
/// # Errors
///
/// There is nothing to compare with, or the machine does not let it end.
pub async fn rehearse(
    old: &LaunchOptions,
    new: &LaunchOptions,
    conversations: &[ConversationShape],
    scratch: &Path,
) -> Result<Rehearsal, RehearsalError> {
    let verdict = check(new, scratch).await?;
    let before = replay(old, conversations, scratch).await?;
    if let Some(why) = before.failure {
        return Err(RehearsalError::Old(why));
    }
    let after = replay(new, conversations, scratch).await?;
    Ok(Rehearsal {
        verdict,
        changes: changes(&before, &after),
        turns: before.turns(),
        old: before.cost,
        new: after.cost,
    })
}

async fn replay(
    launch: &LaunchOptions,
    conversations: &[ConversationShape],
    scratch: &Path,
) -> Result<Played, RehearsalError> {
    let played = tokio::time::timeout(REPLAY_DEADLINE, play(launch, conversations, scratch)).await;
    Ok(played.map_err(|_elapsed| RehearsalError::Overrun)??)
}
