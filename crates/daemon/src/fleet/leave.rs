//! How a node comes and goes: it introduces itself; drained, it takes nothing new, lets its turns finish, hands its
//! conversations over, and leaves.

use crate::Daemon;
use bridge_core::port::{Agent, Ledger, LedgerError, Sink};
use bridge_core::step::{Introduce, Release, Released, SetNodeState};
use bridge_core::value::{ChannelId, NodeId, NodeInfo, NodeState};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior};

/// Conversations handed over in one transaction.
const RELEASED_AT_ONCE: u32 = 64;

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Waits until somebody drains this node, it has nothing left, and load balancers had `notice` to see that it leaves; for
    /// ever otherwise.
    pub(crate) async fn leaves(self: Arc<Self>, every: Duration, notice: Duration) {
        let Some(node) = self.settings().start.node.clone() else {
            return std::future::pending().await;
        };
        let mut look = tokio::time::interval(every);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut since: Option<Instant> = None;
        loop {
            look.tick().await;
            match self.is_draining(&node.node_id).await {
                Ok(true) => {}
                Ok(false) => {
                    since = None;
                    self.drained.store(false, Ordering::Relaxed);
                    continue;
                }
                Err(error) => {
                    tracing::error!(%error, "whether this node is drained can't be seen");
                    continue;
                }
            }
            if !self.drained.swap(true, Ordering::Relaxed) {
                tracing::info!(node = %node.node_id, "this node is drained: it takes nothing new and leaves when its turns have ended");
            }
            let began = *since.get_or_insert_with(Instant::now);
            match self.release_all().await {
                Ok(Released { busy: 0, .. }) if began.elapsed() < notice => {}
                Ok(Released { busy: 0, .. }) => return,
                Ok(Released { busy, .. }) => tracing::debug!(busy, "conversations still at work"),
                Err(error) => tracing::error!(%error, "conversations can't be handed over yet"),
            }
        }
    }

    async fn is_draining(&self, node_id: &NodeId) -> Result<bool, LedgerError> {
        let node_id = node_id.clone();
        let node = self.ledger.read(move |rows| rows.node(&node_id)).await?;
        Ok(node.is_some_and(|node| node.state == NodeState::Draining))
    }

    /// Hands over every conversation in which nothing is under way, and which does not need this node's files.
    async fn release_all(self: &Arc<Self>) -> Result<Released, LedgerError> {
        let mut all = Released::default();
        loop {
            let page = self
                .commit(Release {
                    after: all.next.take(),
                    limit: RELEASED_AT_ONCE,
                    leave_written: self.settings().leave_written(),
                })
                .await?;
            all.released = all.released.saturating_add(page.released);
            all.busy = all.busy.saturating_add(page.busy);
            all.waiting = all.waiting.saturating_add(page.waiting);
            all.next = page.next;
            if all.next.is_none() {
                return Ok(all);
            }
        }
    }

    /// Says what this node is to the others.
    pub(crate) async fn introduce(
        self: &Arc<Self>,
        codex_version: &str,
        channels: Vec<ChannelId>,
    ) -> Result<(), LedgerError> {
        self.commit(Introduce {
            about: NodeInfo {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                codex_version: codex_version.to_owned(),
                capacity: self.settings().config.daemon.turns_max,
                channels,
            },
        })
        .await
    }

    /// The last transaction of this node: the others take what is left at once instead of after its lease.
    pub(crate) async fn leave(self: &Arc<Self>) {
        let Some(node) = self.settings().start.node.clone() else {
            return;
        };
        let left = async {
            let waiting = self.release_all().await?.waiting;
            if waiting > 0 {
                tracing::warn!(node = %node.node_id, waiting, "conversations wait for this node, because the files that they wrote are here alone: start it again, or give them to another node with `codex-bridge move`");
            }
            self.commit(SetNodeState {
                node_id: node.node_id,
                state: NodeState::Left,
                actor: None,
            })
            .await
        };
        if let Err(error) = left.await {
            tracing::warn!(%error, "this node could not say that it leaves; the others go on when its lease has ended");
        }
    }
}
