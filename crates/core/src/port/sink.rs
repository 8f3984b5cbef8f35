//! The sink: where replies go. `channel` implements it for every platform, and says for each what a send
//! whose outcome is not known may be followed by.

use crate::value::{Class, Failure, Message, Reply, Twin};
use std::future::Future;

/// Asked right before the call that shows a reply: whether this daemon may still act. A platform knows no leases, and
/// what comes before that call may take long.
pub type MayAct<'a> = &'a (dyn Fn() -> Result<(), Failure> + Sync);

/// Takes replies for the channels there are.
pub trait Sink: Send + Sync + 'static {
    /// What the platform can do with replies to this message.
    fn traits(&self, message: &Message) -> SinkTraits;

    /// Hands one reply to the platform; the receipt is the platform's proof that it took it.
    fn send(
        &self,
        message: &Message,
        reply: &Reply,
        may_act: MayAct<'_>,
    ) -> impl Future<Output = Result<String, SinkFault>> + Send;

    /// Looks whether a reply that was sent before can be seen. `Absent` is only said once it is believed. Where the
    /// platform shows texts without a key of ours, `twins` are the replies that were taken and say the same.
    fn probe(
        &self,
        message: &Message,
        reply: &Reply,
        twins: &[Twin],
    ) -> impl Future<Output = Result<Probe, SinkFault>> + Send;

    /// Says in the chat how a long turn goes. It may be lost and is never tried again; a platform without a chat
    /// says nothing.
    fn hint(
        &self,
        _message: &Message,
        _text: &str,
    ) -> impl Future<Output = Result<(), SinkFault>> + Send {
        async { Ok(()) }
    }
}

/// What one channel's platform can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinkTraits {
    /// What may follow a send with an unknown outcome.
    pub class: SinkClass,
    /// The longest text one reply may have, if there is such a limit.
    pub max_chars: Option<usize>,
}

/// What may follow a send whose outcome is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkClass {
    /// The same key again: the platform shows it once.
    Idempotent,
    /// A look first: the platform shows what it took.
    Probeable,
    /// Nothing proves anything; the operator chose between twice and never.
    Blind {
        /// What the operator chose.
        on_unknown: OnUnknown,
    },
}

/// What is done on a blind platform when it is not known whether a reply arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum OnUnknown {
    /// It is not sent again: it may never be seen, and fails.
    Hold,
    /// It is sent again: the peer may see it twice.
    Resend,
}

/// What a look for a reply found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// It is there.
    Present { receipt: String },
    /// It is not, and will not come.
    Absent,
}

/// How a reply goes out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approach {
    /// Send it.
    Send,
    /// Look first, send what is absent.
    Probe,
    /// Do not send it again.
    GiveUp(Failure),
}

impl SinkClass {
    /// How a reply goes out, when an earlier send of it may have arrived (`again`) or not.
    #[must_use]
    pub fn approach(self, again: bool) -> Approach {
        match self {
            _ if !again => Approach::Send,
            Self::Idempotent
            | Self::Blind {
                on_unknown: OnUnknown::Resend,
            } => Approach::Send,
            Self::Probeable => Approach::Probe,
            Self::Blind {
                on_unknown: OnUnknown::Hold,
            } => Approach::GiveUp(Failure::new(
                Class::Permanent,
                "the platform did not say whether it took the reply, and can't be asked; it is not sent again",
            )),
        }
    }
}

/// Why a reply was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", failure.reason)]
pub struct SinkFault {
    /// Class and reason.
    pub failure: Failure,
}

impl From<Failure> for SinkFault {
    fn from(failure: Failure) -> Self {
        Self { failure }
    }
}
