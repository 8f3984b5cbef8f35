//! All channels behind one sink: a reply goes to the channel that its message came from.

use crate::local::{self, LocalSink};
use crate::loopback::{self, Loopback};
use bridge_core::port::{Probe, Sink, SinkClass, SinkFault, SinkTraits};
use bridge_core::value::{ChannelId, Class, Failure, Message, Reply};

/// The channels that are configured. The local one always is.
#[derive(Clone, Debug, Default)]
pub struct Channels {
    /// The platform on this machine, if there is one.
    pub loopback: Option<Loopback>,
}

/// Where a reply goes.
enum Way<'a> {
    Local,
    Loopback(&'a Loopback),
    /// It was configured when the message came, and is not any more.
    Gone,
}

impl Channels {
    fn way(&self, channel: &ChannelId) -> Way<'_> {
        match (channel.as_str(), &self.loopback) {
            (local::CHANNEL, _) => Way::Local,
            (loopback::CHANNEL, Some(loopback)) => Way::Loopback(loopback),
            (_, _) => Way::Gone,
        }
    }
}

fn gone(message: &Message) -> SinkFault {
    let reason = format!(
        "the channel {} is not configured any more: put its section back into codex-bridge.toml and restart the daemon",
        message.channel
    );
    SinkFault {
        failure: Failure::new(Class::Config, reason),
    }
}

impl Sink for Channels {
    fn traits(&self, message: &Message) -> SinkTraits {
        match self.way(&message.channel) {
            Way::Local => LocalSink.traits(message),
            Way::Loopback(loopback) => loopback.traits(message),
            // Nothing is known of it, so nothing may be sent twice; a send fails before it begins.
            Way::Gone => SinkTraits {
                class: SinkClass::Probeable,
                max_chars: None,
            },
        }
    }

    async fn send(&self, message: &Message, reply: &Reply) -> Result<String, SinkFault> {
        match self.way(&message.channel) {
            Way::Local => LocalSink.send(message, reply).await,
            Way::Loopback(loopback) => loopback.send(message, reply).await,
            Way::Gone => Err(gone(message)),
        }
    }

    async fn probe(&self, message: &Message, reply: &Reply) -> Result<Probe, SinkFault> {
        match self.way(&message.channel) {
            Way::Local => LocalSink.probe(message, reply).await,
            Way::Loopback(loopback) => loopback.probe(message, reply).await,
            Way::Gone => Err(gone(message)),
        }
    }

    async fn acknowledge(&self, message: &Message) -> Result<(), SinkFault> {
        match self.way(&message.channel) {
            Way::Local => LocalSink.acknowledge(message).await,
            Way::Loopback(loopback) => loopback.acknowledge(message).await,
            Way::Gone => Err(gone(message)),
        }
    }
}
