//! A daemon as one node among several over one ledger: it holds its lease, takes over what nodes that are gone left
//! behind, hears what other nodes committed, and leaves without a loose end.
//!
//! Which node has a conversation is a row (`core::step::fleet`). Where one daemon has the ledger for itself nothing here
//! runs.

mod files;
mod lease;
mod leave;
mod live;
mod open;
mod reader;
mod steer;
mod take_over;
mod texts;
mod threads;
mod wakeups;

pub(crate) use files::SharedFiles;
pub(crate) use lease::{TAKEN_OVER, hold_lease, renew_lease, why_fenced};
pub(crate) use live::Relay;
pub(crate) use open::{OpenedLedger, open};
pub use open::{database_url, node_id};
pub(crate) use steer::{RemoteSteers, TurnInput};
pub(crate) use take_over::LOOKS;

use crate::Daemon;
use bridge_core::port::{Agent, Ledger, LedgerError, Sink};
use bridge_core::value::{ConversationId, NodeId};
use bridge_host::keeper::KeeperLease;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// What a daemon needs to know of itself as a node.
#[derive(Clone, Debug)]
pub(crate) struct NodeSettings {
    pub(crate) node_id: NodeId,
    /// How long the node may be silent before the others take its conversations over.
    pub(crate) lease: Duration,
    /// Until when its Codex may live, and until when it may act where no database can refuse it.
    pub(crate) keepers: KeeperLease,
    /// Cancelled when the lease is lost: this daemon must stop.
    pub(crate) fenced: CancellationToken,
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Whether the turns of a conversation are this daemon's business.
    pub(crate) async fn is_at_home(&self, id: &ConversationId) -> Result<bool, LedgerError> {
        let start = &self.settings().start;
        let Some(node) = &start.node else {
            return Ok(true);
        };
        let (id, this) = (id.clone(), node.node_id.clone());
        let home = self.ledger.read(move |rows| rows.home(&id)).await?;
        Ok(home.and_then(|home| home.node_id) == Some(this))
    }
}
