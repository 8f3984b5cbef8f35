//! The sink: where replies go. `channel` implements it once per platform.

use crate::value::{Failure, Message, Reply};
use std::future::Future;

/// Takes replies for one channel.
pub trait Sink: Send + Sync + 'static {
    /// What a second send of the same reply does.
    fn class(&self) -> SinkClass;

    /// The longest text one reply may have, if the platform has such a limit.
    fn max_chars(&self) -> Option<usize>;

    /// Hands one reply to the platform; the receipt is the platform's proof that it took it.
    fn send(
        &self,
        message: &Message,
        reply: &Reply,
    ) -> impl Future<Output = Result<String, SinkFault>> + Send;
}

/// What a second send of the same reply does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkClass {
    /// Nothing: the platform knows our key. After an unknown outcome it is sent again.
    Idempotent,
    /// It would show twice, but what was shown can be read back first.
    Probeable,
    /// It would show twice, and nobody can tell.
    Blind,
}

/// Why a reply was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", failure.reason)]
pub struct SinkFault {
    /// Class and reason.
    pub failure: Failure,
}
