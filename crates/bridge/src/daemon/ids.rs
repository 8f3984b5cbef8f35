//! Clock, randomness and new ids: the things the pure core is given as arguments.

use bridge_core::value::{ConversationId, MessageId, RequestId, Timestamp};
use std::time::{SystemTime, UNIX_EPOCH};
use uuid::Uuid;

/// The wall clock.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

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
