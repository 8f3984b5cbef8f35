//! The scheduler's loop: claim while something can be claimed, then sleep until woken or until something is due.

use crate::Daemon;
use crate::process::ids::now;
use bridge_core::port::{Agent, Ledger, LedgerError, Sink, TRACE};
use bridge_core::step::{ClaimOutcome, Claims};
use bridge_core::value::Timestamp;
use futures_util::future::join_all;
use std::sync::Arc;
use std::time::Duration;

/// Longest sleep: clocks jump, and rows are the truth.
const SLEEP_MAX: Duration = Duration::from_secs(60);
/// Pause after the ledger failed.
const FAULT_PAUSE: Duration = Duration::from_secs(1);

/// What a round of claims leaves the scheduler to do.
enum Round {
    /// Each found something: there may be more.
    Again,
    /// Nothing can be claimed before this.
    Rest { next_due: Option<Timestamp> },
    /// The ledger failed.
    Pause,
    /// Another daemon has the ledger.
    Fenced,
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    pub(crate) async fn schedule(self: Arc<Self>) {
        let mut claims = Claims::default();
        while !self.stopping.is_cancelled() && !self.damaged.is_cancelled() {
            let round = self.claim(claims.now()).await;
            self.pulse.round();
            claims.round(matches!(round, Round::Again));
            let sleep = match round {
                Round::Again => continue,
                Round::Rest { next_due } => {
                    let question = self.tend().await;
                    until([next_due, question].into_iter().flatten().min())
                }
                Round::Pause => FAULT_PAUSE,
                Round::Fenced => return self.fenced.cancel(),
            };
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = self.damaged.cancelled() => return,
                () = self.wake.notified() => {}
                () = tokio::time::sleep(sleep) => {}
            }
        }
    }

    /// Claims so often at once; they are decided one after the other and wait for the disk together.
    async fn claim(self: &Arc<Self>, times: usize) -> Round {
        let claims = (0..times).map(|_| self.commit(self.settings().claim(now())));
        let mut round = Round::Again;
        for claimed in join_all(claims).await {
            match claimed {
                Ok(ClaimOutcome::Claimed { message, .. }) => {
                    tracing::debug!(external_id = %message.external_id, message_id = %message.message_id, "claimed");
                    tracing::debug!(target: TRACE, at = "claimed", message_id = %message.message_id);
                }
                Ok(ClaimOutcome::Buried | ClaimOutcome::Held) => {}
                Ok(ClaimOutcome::Idle { next_due } | ClaimOutcome::Full { next_due }) => {
                    round = Round::Rest { next_due };
                }
                Err(error @ LedgerError::Fenced { .. }) => {
                    tracing::error!(%error, "this daemon must stop");
                    return Round::Fenced;
                }
                Err(error) => {
                    tracing::error!(%error, "the scheduler can't use the ledger");
                    return Round::Pause;
                }
            }
        }
        round
    }
}

fn until(due: Option<Timestamp>) -> Duration {
    let Some(due) = due else {
        return SLEEP_MAX;
    };
    let ms = due.since_ms(now()).max(1);
    Duration::from_millis(u64::try_from(ms).unwrap_or(1)).min(SLEEP_MAX)
}
