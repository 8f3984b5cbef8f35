//! The platform: what its users see. Whether it knows a
//! key again, or can be asked, is its class.

use bridge_core::port::SinkClass;
use bridge_core::value::{Reply, ReplyKey, ReplyKind};
use std::sync::Arc;

/// A reply that people see.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) message: u8,
    pub(crate) ordinal: u32,
    /// The place of its message in the conversation when it was written.
    pub(crate) seq: i64,
    pub(crate) kind: ReplyKind,
    key: ReplyKey,
}

/// Everything that is seen, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Platform {
    pub(crate) shown: Vec<Arc<Shown>>,
    /// Sends whose outcome the daemon never learned.
    pub(crate) doubts: u8,
}

impl Platform {
    /// Takes a reply; where keys count, a known one shows nothing new.
    pub(crate) fn take(&mut self, message: u8, reply: &Reply, key: &ReplyKey, class: SinkClass) {
        let known = self.has(key);
        if known && class == SinkClass::Idempotent {
            return;
        }
        self.shown.push(Arc::new(Shown {
            message,
            ordinal: reply.ordinal,
            seq: reply.seq.0,
            kind: reply.kind,
            key: key.clone(),
        }));
    }

    /// Takes a text that has no row.
    pub(crate) fn take_unwritten(&mut self, message: u8, key: &ReplyKey) {
        self.shown.push(Arc::new(Shown {
            message,
            ordinal: 0,
            seq: i64::from(message) + 1,
            kind: ReplyKind::Answer,
            key: key.clone(),
        }));
    }

    pub(crate) fn has(&self, key: &ReplyKey) -> bool {
        self.shown.iter().any(|shown| shown.key == *key)
    }

    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.shown.len()).unwrap()
    }

    pub(crate) fn sees(&self, message: u8, kind: ReplyKind) -> usize {
        let seen = |shown: &&Arc<Shown>| shown.message == message && shown.kind == kind;
        self.shown.iter().filter(seen).count()
    }
}
