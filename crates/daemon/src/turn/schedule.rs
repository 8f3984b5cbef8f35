//! The scheduler's loop: claim while something can be claimed, then sleep until woken or until something is due.

use crate::Daemon;
use crate::process::clock::{now, until_due};
use bridge_core::port::{Agent, Ledger, LedgerError, Sink, TRACE};
use bridge_core::step::{ClaimOutcome, Claims};
use bridge_core::value::Timestamp;
use futures_util::future::join_all;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Pause after the ledger failed.
const FAULT_PAUSE_MS: i64 = 1_000;

/// What a round of claims leaves the scheduler to do.
enum ClaimRound {
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
            self.turns.rounds.fetch_add(1, Ordering::Relaxed);
            claims.round(matches!(round, ClaimRound::Again));
            let due = match round {
                ClaimRound::Again => continue,
                ClaimRound::Rest { next_due } => {
                    let request_due = self.expire_requests().await;
                    let loan_due = self.take_back_due().await;
                    next_due
                        .into_iter()
                        .chain(request_due)
                        .chain(loan_due)
                        .min()
                }
                ClaimRound::Pause => Some(now().plus_ms(FAULT_PAUSE_MS)),
                ClaimRound::Fenced => return self.fenced.cancel(),
            };
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = self.damaged.cancelled() => return,
                () = self.turns.wake.notified() => {}
                () = until_due(due) => {}
            }
        }
    }

    /// Claims so often at once; they are decided one after the other and wait for the disk together.
    async fn claim(self: &Arc<Self>, times: usize) -> ClaimRound {
        let claims = (0..times).map(|_| self.commit(self.settings().claim(now())));
        let mut round = ClaimRound::Again;
        for claimed in join_all(claims).await {
            match claimed {
                Ok(ClaimOutcome::Claimed { message, .. }) => {
                    tracing::debug!(external_id = %message.external_id, message_id = %message.message_id, "claimed");
                    tracing::debug!(target: TRACE, at = "claimed", message_id = %message.message_id);
                }
                Ok(ClaimOutcome::Buried | ClaimOutcome::Held) => {}
                Ok(ClaimOutcome::Idle { next_due } | ClaimOutcome::Full { next_due }) => {
                    round = ClaimRound::Rest { next_due };
                }
                Err(error @ LedgerError::Fenced { .. }) => {
                    tracing::error!(%error, "this daemon must stop");
                    return ClaimRound::Fenced;
                }
                Err(error) => {
                    tracing::error!(%error, "the scheduler can't use the database");
                    return ClaimRound::Pause;
                }
            }
        }
        round
    }
}
