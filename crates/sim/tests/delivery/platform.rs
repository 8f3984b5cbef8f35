//! The platform: what its users see. It shows a reply once per key, and remembers in which order.

use bridge_core::value::{Reply, ReplyKind};

/// A reply that people see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) message: u8,
    pub(crate) ordinal: u32,
    pub(crate) kind: ReplyKind,
    key: String,
}

/// Everything that is seen, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Platform {
    pub(crate) shown: Vec<Shown>,
}

impl Platform {
    /// Takes a reply; a known key shows nothing new.
    pub(crate) fn take(&mut self, message: u8, reply: &Reply, key: &str) {
        if self.shown.iter().any(|shown| shown.key == key) {
            return;
        }
        self.shown.push(Shown {
            message,
            ordinal: reply.ordinal,
            kind: reply.kind,
            key: key.to_owned(),
        });
    }

    /// Takes a text that has no row.
    pub(crate) fn take_unwritten(&mut self, message: u8, key: &str) {
        self.shown.push(Shown {
            message,
            ordinal: 0,
            kind: ReplyKind::Answer,
            key: key.to_owned(),
        });
    }

    pub(crate) fn sees(&self, message: u8, kind: ReplyKind) -> usize {
        let seen = |shown: &&Shown| shown.message == message && shown.kind == kind;
        self.shown.iter().filter(seen).count()
    }
}
