//! Holds this node's lease, and lets Codex live only as long as it.

use super::NodeSettings;
use crate::Daemon;
use crate::process::clock;
use bridge_core::port::{Agent, Ledger, LedgerError, Sink};
use bridge_core::value::{Class, Failure, Timestamp};
use bridge_host::keeper::BootInstant;
use std::time::Duration;

/// The lease is renewed so many times before it would end.
const RENEWALS: u32 = 4;
/// Codex must be gone so long before others may take over: its keeper kills it with everything it started.
const MARGIN: Duration = Duration::from_secs(1);

/// How long the database may take to say why this daemon is fenced: it may be away.
const ASKED_WHY_MAX: Duration = Duration::from_secs(2);

/// Why this daemon has stopped, for the operator.
pub(crate) const TAKEN_OVER: &str = "another daemon has taken over this database; this one stopped";
const LEASE_ENDED: &str = "the lease of this node has ended: its machine stood still, or could not reach the database, for longer than fleet.lease_secs (or the database's clock was set forward), and other nodes may have its conversations; this daemon stopped, start it again";

/// What is not begun any more once the lease is over.
const OVER: &str = "the lease of this node is over, so another node may have its conversations; it goes on when the database gives a new one";

/// Until when a keeper may let Codex live, if the database gave this lease in answer to a question asked `before`.
pub(crate) fn codex_until(before: BootInstant, lease: Duration) -> BootInstant {
    before.plus(lease.saturating_sub(MARGIN))
}

/// Renews the lease once; gives the database's time, and nothing where no lease is needed.
pub(crate) async fn renew_lease<L: Ledger>(
    ledger: &L,
    node: &NodeSettings,
) -> Result<Option<Timestamp>, LedgerError> {
    // The clock is read before the database is asked, so what it answers ends later than we think.
    let before = BootInstant::now();
    let lease = ledger.renew().await?;
    if let Some(lease) = &lease {
        node.keepers.renew(codex_until(before, lease.length));
    }
    Ok(lease.map(|lease| lease.now))
}

/// Renews the lease again and again. Ends when the lease is lost: another node may have the conversations then.
pub(crate) async fn hold_lease<L: Ledger>(ledger: L, node: NodeSettings) {
    let mut renew = tokio::time::interval(node.lease / RENEWALS);
    renew.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        renew.tick().await;
        match renew_lease(&ledger, &node).await {
            Ok(Some(now)) => clock::follow(now),
            Ok(None) => return,
            Err(error @ LedgerError::Fenced { .. }) => {
                tracing::error!(%error, "this node may not write any more: its Codex is ended, and this daemon stops");
                return node.fenced.cancel();
            }
            Err(error) if node.keepers.until().is_past() => {
                tracing::error!(%error, "the lease of this node has ended, because the database could not be reached: its Codex is ended, and this daemon stops");
                return node.fenced.cancel();
            }
            Err(error) => tracing::warn!(%error, "the lease of this node could not be renewed"),
        }
    }
}

/// Why a daemon may not write any more.
pub(crate) async fn why_fenced<L: Ledger>(ledger: &L, node: Option<&NodeSettings>) -> &'static str {
    let asked = tokio::time::timeout(ASKED_WHY_MAX, ledger.renew()).await;
    let is_other = matches!(asked, Ok(Err(LedgerError::Fenced { found, ours })) if found != ours);
    if is_other || node.is_none() {
        return TAKEN_OVER;
    }
    LEASE_ENDED
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
