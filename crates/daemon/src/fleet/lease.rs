//! Holds this node's lease, and lets Codex live only as long as it.

use crate::Daemon;
use crate::process::clock;
use bridge_core::port::{Agent, Ledger, LedgerError, Sink};
use bridge_host::keeper::{BootInstant, KeeperLease};
use std::sync::Arc;
use std::time::Duration;

/// The lease is renewed so many times before it would end.
const RENEWALS: u32 = 4;
/// Codex must be gone so long before others may take over: its keeper kills it with everything it started.
const MARGIN: Duration = Duration::from_secs(1);

/// Until when a keeper may let Codex live, if the database gave this lease in answer to a question asked `before`.
pub(crate) fn codex_until(before: BootInstant, lease: Duration) -> BootInstant {
    before.plus(lease.saturating_sub(MARGIN))
}

/// Renews the lease again and again. Ends when the lease is lost: another node may have the conversations then.
pub(crate) async fn hold_lease<L: Ledger, A: Agent, S: Sink>(
    daemon: Arc<Daemon<L, A, S>>,
    keepers: KeeperLease,
    lease: Duration,
) {
    let mut renew = tokio::time::interval(lease / RENEWALS);
    renew.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = daemon.halt.cancelled() => return,
            _ = renew.tick() => {}
        }
        // The clock is read before the database is asked, so what it answers ends later than we think.
        let before = BootInstant::now();
        match daemon.ledger.renew().await {
            Ok(Some(lease)) => {
                keepers.renew(codex_until(before, lease.length));
                clock::follow(lease.now);
            }
            Ok(None) => return,
            Err(error @ LedgerError::Fenced { .. }) => {
                tracing::error!(%error, "the lease of this node has ended: its Codex is ended, and this daemon stops");
                return daemon.fenced.cancel();
            }
            Err(error) => tracing::warn!(%error, "the lease of this node could not be renewed"),
        }
    }
}
