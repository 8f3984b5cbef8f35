//! The sink: where replies go. `channel` implements it once per platform.
//!
//! After an unknown outcome a reply is sent again with the same key; the one sink there is shows it once.

use crate::value::{Failure, Message, Reply};
use std::future::Future;

/// Takes replies for one channel.
pub trait Sink: Send + Sync + 'static {
    /// The longest text one reply may have, if the platform has such a limit.
    fn max_chars(&self) -> Option<usize>;

    /// Hands one reply to the platform; the receipt is the platform's proof that it took it.
    fn send(
        &self,
        message: &Message,
        reply: &Reply,
    ) -> impl Future<Output = Result<String, SinkFault>> + Send;
}

/// Why a reply was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", failure.reason)]
pub struct SinkFault {
    /// Class and reason.
    pub failure: Failure,
}
