//! Takes over conversations whose node is gone: their lost turns are reconciled here, their replies sent from here.

use crate::Daemon;
use bridge_core::port::{Agent, Ledger, LedgerError, Read, Sink};
use bridge_core::step::TakeOver;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::MissedTickBehavior;

/// Looks for nodes that are gone within one lease.
pub(crate) const LOOKS: u32 = 4;
/// Conversations taken over in one transaction: few, so that other nodes get their share of them.
const TAKEN_AT_ONCE: u32 = 16;

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// The loop. A node that is gone is found at the latest one look after its lease has ended.
    pub(crate) async fn take_over(self: Arc<Self>, every: Duration) {
        let mut look = tokio::time::interval(every);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = self.damaged.cancelled() => return,
                _ = look.tick() => {}
            }
            match self.take_over_now().await {
                Ok(()) => {}
                Err(LedgerError::Fenced { .. }) => return self.fenced.cancel(),
                Err(error) => tracing::error!(%error, "nodes that are gone can't be looked for"),
            }
        }
    }

    async fn take_over_now(self: &Arc<Self>) -> Result<(), LedgerError> {
        let leave_written = self.settings().leave_written();
        // A look beside the writer: nearly always nothing is stranded.
        let is_stranded = move |rows: &dyn Read| rows.stranded(1, leave_written);
        while !self.ledger.read(is_stranded).await?.is_empty() {
            let taken = self
                .commit(TakeOver {
                    limit: TAKEN_AT_ONCE,
                    leave_written,
                })
                .await?;
            for conversation_id in &taken.conversations {
                tracing::warn!(%conversation_id, "the node of a conversation is gone; it goes on here");
            }
            if !taken.more {
                break;
            }
        }
        // Waiting messages of a node that is gone are claimed like others.
        self.turns.wake();
        Ok(())
    }
}
