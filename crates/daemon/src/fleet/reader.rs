//! A polled channel is read by one node at a time, so that the platform is not asked more often than by one daemon. For a
//! moment two may read it: a message is stored once all the same. A node that can't read it leaves it to the next one.

use super::LOOKS;
use crate::Daemon;
use bridge_channel::molecule::Molecule;
use bridge_core::port::{Agent, Ledger, LedgerError, Sink};
use bridge_core::step::Introduce;
use bridge_core::value::{ChannelId, NodeId, reader_of};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// How often a node looks whether it can read what it offers to read.
const OFFER_EVERY: Duration = Duration::from_secs(10);
/// How long a node that can't read a channel keeps the others from it: longer than a platform is restarted.
const FAILS_MAX: Duration = Duration::from_secs(30);

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Offers to read the channels that can be read from here; the loop.
    pub(crate) async fn offer_channels(self: Arc<Self>, channels: Vec<Molecule>) {
        let mut look = interval(OFFER_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.stopping.cancelled() => return,
                _ = look.tick() => {}
            }
            for molecule in &channels {
                if let Err(error) = self.offer(molecule).await {
                    tracing::debug!(%error, "which node reads a channel can't be changed now");
                }
            }
        }
    }

    /// A node that fails to read a channel offers it no more, if there is another one that does, until it works again.
    pub(crate) async fn offer(self: &Arc<Self>, molecule: &Molecule) -> Result<(), LedgerError> {
        let Some(this) = self.settings().start.node.clone() else {
            return Ok(());
        };
        let mut nodes = self.ledger.read(|rows| rows.nodes()).await?;
        let channel = molecule.channel();
        let reads = reader_of(&nodes, channel) == Some(&this.node_id);
        let Some(own) = nodes.iter().position(|node| node.node_id == this.node_id) else {
            return Ok(());
        };
        let mut about = nodes.swap_remove(own).about;
        let offers = match molecule.fails_for() {
            None => true,
            Some(time) if reads => time < FAILS_MAX || reader_of(&nodes, channel).is_none(),
            Some(_) => molecule.works_again().await,
        };
        if offers == about.channels.contains(channel) {
            return Ok(());
        }
        if offers {
            tracing::info!(%channel, "this node can read the channel");
            about.channels.push(channel.clone());
        } else {
            tracing::warn!(%channel, "this node can't read the channel: another one does");
            about.channels.retain(|one| one != channel);
        }
        self.commit(Introduce { about }).await
    }

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
