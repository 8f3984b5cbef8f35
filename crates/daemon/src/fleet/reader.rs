//! A polled channel is read by one node at a time, so that the platform is not asked more often than by one daemon. For a
//! moment two may read it: a message is stored once all the same.

use super::LOOKS;
use crate::Daemon;
use bridge_channel::molecule::Molecule;
use bridge_core::port::{Agent, Ledger, LedgerError, Sink};
use bridge_core::value::{ChannelId, NodeId, reader_of};
use std::pin::Pin;
use std::sync::Arc;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Runs `read` whenever this node is the one that reads the channel, until `until` is cancelled.
    pub(crate) async fn while_reader<F>(
        self: Arc<Self>,
        molecule: Molecule,
        until: CancellationToken,
        read: impl Fn(CancellationToken) -> F,
    ) where
        F: Future<Output = ()>,
    {
        let Some(node) = self.settings().start.node.clone() else {
            return read(until).await;
        };
        let mut look = interval(node.lease / LOOKS);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut reading = None;
        loop {
            tokio::select! {
                () = until.cancelled() => return stop_reading(&mut reading).await,
                () = read_on(&mut reading) => reading = None,
                _ = look.tick() => {}
            }
            let reader = match self.reader(molecule.channel().clone()).await {
                Ok(reader) => reader,
                Err(error) => {
                    tracing::debug!(%error, "which node reads a channel can't be seen now");
                    continue;
                }
            };
            if reader.as_ref() == Some(&node.node_id) {
                reading.get_or_insert_with(|| {
                    let stop = until.child_token();
                    (stop.clone(), Box::pin(read(stop)))
                });
            } else {
                stop_reading(&mut reading).await;
                molecule.is_read_by(reader.as_ref().map(NodeId::as_str));
            }
        }
    }

    async fn reader(&self, channel: ChannelId) -> Result<Option<NodeId>, LedgerError> {
        let nodes = self.ledger.read(|rows| rows.nodes()).await?;
        Ok(reader_of(&nodes, &channel).cloned())
    }
}

/// A reading that was begun, and what stops it.
type Reading<F> = Option<(CancellationToken, Pin<Box<F>>)>;

async fn read_on<F: Future<Output = ()>>(reading: &mut Reading<F>) {
    match reading {
        Some((_, reading)) => reading.await,
        None => std::future::pending().await,
    }
}

async fn stop_reading<F: Future<Output = ()>>(reading: &mut Reading<F>) {
    if let Some((stop, reading)) = reading.take() {
        stop.cancel();
        reading.await;
    }
}
