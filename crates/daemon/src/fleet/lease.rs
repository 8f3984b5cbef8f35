//! Holds this node's lease, and lets Codex live only as long as it.

use super::NodeSettings;
use crate::Daemon;
use crate::process::clock;
use bridge_core::port::{Agent, Ledger, LedgerError, Sink};
use bridge_core::value::{Class, Failure};
use bridge_host::keeper::BootInstant;
use std::sync::Arc;
use std::time::Duration;

/// The lease is renewed so many times before it would end.
const RENEWALS: u32 = 4;
/// Codex must be gone so long before others may take over: its keeper kills it with everything it started.
const MARGIN: Duration = Duration::from_secs(1);

/// What is not begun any more once the lease is over.
const OVER: &str = "the lease of this node is over, so another node may have its conversations; it goes on when the database gives a new one";

/// Until when a keeper may let Codex live, if the database gave this lease in answer to a question asked `before`.
pub(crate) fn codex_until(before: BootInstant, lease: Duration) -> BootInstant {
    before.plus(lease.saturating_sub(MARGIN))
}

/// Renews the lease again and again. Ends when the lease is lost: another node may have the conversations then.
pub(crate) async fn hold_lease<L: Ledger, A: Agent, S: Sink>(
    daemon: Arc<Daemon<L, A, S>>,
    node: NodeSettings,
) {
    let mut renew = tokio::time::interval(node.lease / RENEWALS);
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
                node.keepers.renew(codex_until(before, lease.length));
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

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Asked right before what no database can refuse: a reply that a platform takes, a text that Codex works on. After a
    /// commit, or a look at the platform, the lease may be over: the machine slept, or the database was out of reach.
    pub(crate) fn expect_lease(&self) -> Result<(), Failure> {
        let settings = self.settings();
        let node = settings.start.node.as_ref();
        if node.is_some_and(|node| node.keepers.until().is_past()) {
            return Err(Failure::new(Class::Transient, OVER));
        }
        Ok(())
    }
}
