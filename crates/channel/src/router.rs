//! All channels behind one sink: a reply goes to the channel that its message came from.

use crate::a2a;
use crate::local::{self, LocalSink};
use crate::molecule::{ChannelHealth, Molecule};
use crate::task;
use bridge_core::port::{MayAct, Probe, Sink, SinkClass, SinkFault, SinkTraits};
use bridge_core::value::{ChannelId, Class, Failure, Message, Reply, Twin};

/// The channels that are configured. The local one always is.
#[derive(Clone, Debug, Default)]
pub struct Channels {
    /// The workspaces on Molecule platforms.
    pub molecule: Vec<Molecule>,
}

/// Where a reply goes.
enum ReplyRoute<'a> {
    Local,
    Molecule(&'a Molecule),
    /// It was configured when the message came, and is not any more.
    Gone,
}

impl Channels {
    fn route(&self, channel: &ChannelId) -> ReplyRoute<'_> {
        let molecule = || self.molecule.iter().find(|own| own.channel() == channel);
        match channel.as_str() {
            // Answers to tasks are read where they were started, those to other agents as their tasks.
            local::CHANNEL | task::CHANNEL | a2a::CHANNEL => ReplyRoute::Local,
            _ => molecule().map_or(ReplyRoute::Gone, ReplyRoute::Molecule),
        }
    }

    /// How the channels are that can be away.
    #[must_use]
    pub fn health(&self) -> Vec<ChannelHealth> {
        self.molecule.iter().map(Molecule::health).collect()
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
        match self.route(&message.channel) {
            ReplyRoute::Local => LocalSink.traits(message),
            ReplyRoute::Molecule(molecule) => molecule.traits(message),
            // Nothing is known of it, so nothing may be sent twice; a send fails before it begins.
            ReplyRoute::Gone => SinkTraits {
                class: SinkClass::Probeable,
                max_chars: None,
            },
        }
    }

    async fn send(
        &self,
        message: &Message,
        reply: &Reply,
        may_act: MayAct<'_>,
    ) -> Result<String, SinkFault> {
        match self.route(&message.channel) {
            ReplyRoute::Local => LocalSink.send(message, reply, may_act).await,
            ReplyRoute::Molecule(molecule) => molecule.send(message, reply, may_act).await,
            ReplyRoute::Gone => Err(gone(message)),
        }
    }

    async fn probe(
        &self,
        message: &Message,
        reply: &Reply,
        twins: &[Twin],
    ) -> Result<Probe, SinkFault> {
        match self.route(&message.channel) {
            ReplyRoute::Local => LocalSink.probe(message, reply, twins).await,
            ReplyRoute::Molecule(molecule) => molecule.probe(message, reply, twins).await,
            ReplyRoute::Gone => Err(gone(message)),
        }
    }

    async fn hint(&self, message: &Message, text: &str) -> Result<(), SinkFault> {
        match self.route(&message.channel) {
            ReplyRoute::Molecule(molecule) => molecule.hint(message, text).await,
            ReplyRoute::Local | ReplyRoute::Gone => Ok(()),
        }
    }
}
