//! Randomness and new ids: the things the pure core is given as arguments, beside the [`super::clock`].

use bridge_core::value::{ConversationId, MessageId, RequestId};
use uuid::Uuid;

pub(crate) use super::clock::now;

/// A random number in 0..=1000 for backoff.
pub(crate) fn jitter() -> u16 {
    let (high, _) = Uuid::new_v4().as_u64_pair();
    u16::try_from(high % 1001).unwrap_or(0)
}

pub(crate) fn message_id() -> MessageId {
    MessageId::new(Uuid::now_v7().to_string())
}

pub(crate) fn conversation_id() -> ConversationId {
    ConversationId::new(Uuid::now_v7().to_string())
}

/// Unguessable: 122 random bits.
pub(crate) fn request_id() -> RequestId {
    RequestId::new(Uuid::new_v4().simple().to_string())
}
