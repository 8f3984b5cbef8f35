//! What a channel's turns do now, as a platform shows it to people who look at the agent.

use super::Daemon;
use bridge_channel::Activity;
use bridge_core::port::{Agent, Ledger, Sink};
use bridge_core::value::ChannelId;

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// A ledger that can't be read makes a channel look idle, which is only a display.
    pub(crate) async fn activity(&self, channel: &ChannelId) -> Activity {
        let flight = self.ledger.read(|rows| rows.flight()).await;
        let turns = flight
            .unwrap_or_default()
            .into_iter()
            .filter(|turn| turn.channel == *channel)
            .count();
        Activity {
            turns: u32::try_from(turns).unwrap_or(u32::MAX),
            current: None,
        }
    }
}
