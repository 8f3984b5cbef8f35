//! The scheduler's loop: claim while something can be claimed, then sleep until woken or until something is due.

use super::Daemon;
use super::ids::now;
use bridge_core::port::{Agent, Ledger, LedgerError, Sink, TRACE};
use bridge_core::step::ClaimOutcome;
use bridge_core::value::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// Longest sleep: clocks jump, and rows are the truth.
const SLEEP_MAX: Duration = Duration::from_secs(60);
/// Pause after the ledger failed.
const FAULT_PAUSE: Duration = Duration::from_secs(1);

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    pub(crate) async fn schedule(self: Arc<Self>) {
        while !self.stopping.is_cancelled() && !self.damaged.is_cancelled() {
            let claimed = self.commit(self.settings().claim(now())).await;
            self.pulse.round();
            let sleep = match claimed {
                Ok(ClaimOutcome::Claimed { message, .. }) => {
                    tracing::debug!(message_id = %message.message_id, external_id = %message.external_id, "claimed");
                    tracing::debug!(target: TRACE, at = "claimed", message_id = %message.message_id);
                    continue;
                }
                Ok(ClaimOutcome::Buried | ClaimOutcome::Held) => continue,
                Ok(ClaimOutcome::Idle { next_due } | ClaimOutcome::Full { next_due }) => {
                    let question = self.tend().await;
                    until([next_due, question].into_iter().flatten().min())
                }
                Err(error @ LedgerError::Fenced { .. }) => {
                    tracing::error!(%error, "this daemon must stop");
                    return self.fenced.cancel();
                }
                Err(error) => {
                    tracing::error!(%error, "the scheduler can't use the ledger");
                    FAULT_PAUSE
                }
            };
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = self.damaged.cancelled() => return,
                () = self.wake.notified() => {}
                () = tokio::time::sleep(sleep) => {}
            }
        }
    }
}

fn until(due: Option<Timestamp>) -> Duration {
    let Some(due) = due else {
        return SLEEP_MAX;
    };
    let ms = due.since_ms(now()).max(1);
    Duration::from_millis(u64::try_from(ms).unwrap_or(1)).min(SLEEP_MAX)
}
