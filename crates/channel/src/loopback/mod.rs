//! The loopback channel: a platform on this machine that speaks plain HTTP. It is what `drill` and the tests run
//! against, and a template for real ones.
//!
//! `source` fetches and acknowledges messages, this file sends replies, `client` makes the calls, `fault` says what a
//! failed one means.

mod client;
mod fault;
mod row;
mod source;
mod wire;

pub use client::{UrlError, check_url};

use crate::fault::Deed;
use crate::http::CallError;
use crate::poll::now;
use bridge_core::port::{Probe, Sink, SinkClass, SinkFault, SinkTraits};
use bridge_core::value::{Class, Failure, Message, Reply, SenderKind, Tier, Twin};
use client::Client;
use fault::fault;
use row::Address;
use std::time::Duration;
use wire::NewReply;

/// The channel's id in the ledger.
pub const CHANNEL: &str = "loopback";

/// How long a reply that was not found may still be on its way to being seen; only a second look after it counts.
const PROBE_SETTLE: Duration = Duration::from_secs(2);

/// What the operator decided about this channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where the platform is; see [`check_url`].
    pub url: String,
    /// What may follow a reply whose outcome is not known.
    pub class: SinkClass,
    /// What its senders may do.
    pub tier: Tier,
    /// Whether people or programs send.
    pub kind: SenderKind,
}

/// Why the channel can't be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Its address is not one.
    #[error("loopback.url {0}")]
    Url(#[from] UrlError),
    /// No client can be made.
    #[error("open the loopback channel: {0}")]
    Client(String),
}

/// The channel.
#[derive(Clone, Debug)]
pub struct Loopback {
    client: Client,
    settings: Settings,
}

impl Loopback {
    /// Opens the channel; nothing is said to the platform yet.
    pub fn open(settings: Settings) -> Result<Self, OpenError> {
        let url = check_url(&settings.url)?;
        let client = Client::new(url).map_err(|error| OpenError::Client(error.to_string()))?;
        Ok(Self { client, settings })
    }
}

impl Loopback {
    async fn look(&self, reply: &Reply) -> Result<Probe, SinkFault> {
        let found = self.client.probe(reply.key.as_str()).await;
        let found = found.map_err(|error| fault(Deed::Probe, &error, now()))?;
        Ok(match found.receipt {
            Some(receipt) => Probe::Present { receipt },
            None => Probe::Absent,
        })
    }
}

impl Sink for Loopback {
    fn traits(&self, _message: &Message) -> SinkTraits {
        SinkTraits {
            class: self.settings.class,
            max_chars: None,
        }
    }

    async fn send(&self, message: &Message, reply: &Reply) -> Result<String, SinkFault> {
        let Address { row, conversation } = address(message)?;
        let new = NewReply {
            key: reply.key.as_str(),
            conversation,
            row,
            ordinal: reply.ordinal,
            kind: reply.kind.as_str(),
            text: &reply.body,
        };
        let sent = self.client.reply(&new).await.and_then(|taken| {
            let missing = || CallError::Unreadable("no receipt".to_owned());
            taken.receipt.ok_or_else(missing)
        });
        sent.map_err(|error| fault(Deed::Send, &error, now()))
    }

    async fn probe(
        &self,
        _message: &Message,
        reply: &Reply,
        _twins: &[Twin],
    ) -> Result<Probe, SinkFault> {
        let first = self.look(reply).await?;
        if matches!(first, Probe::Present { .. }) {
            return Ok(first);
        }
        tokio::time::sleep(PROBE_SETTLE).await;
        self.look(reply).await
    }
}

fn address(message: &Message) -> Result<Address<'_>, SinkFault> {
    Address::of(&message.external_id).ok_or_else(|| SinkFault {
        failure: Failure::new(
            Class::Bug,
            format!(
                "the id {} of this message names no place on the platform",
                message.external_id
            ),
        ),
    })
}
