//! The platform: it shows rows until it is told, takes replies, and can be asked for them if it is of that kind.

use bridge_core::port::SinkClass;
use bridge_core::value::{Reply, ReplyKind};
use bridge_sim::history::{RowId, Word};
use std::collections::BTreeSet;

/// What somebody said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Posted {
    pub(crate) row: RowId,
    pub(crate) conversation: u64,
    pub(crate) sender: &'static str,
    pub(crate) read: bool,
    /// When it is shown next.
    pub(crate) show_at: u64,
    pub(crate) shown: u64,
}

/// All of the platform.
#[derive(Clone, Debug, Default)]
pub(crate) struct Platform {
    pub(crate) rows: Vec<Posted>,
    /// Keys of replies that are visible.
    pub(crate) keys: BTreeSet<String>,
    /// Rows with a reply that the platform refused for good: it is the platform that nobody sees it.
    pub(crate) forbidden: BTreeSet<RowId>,
    /// Rows with a visible end.
    pub(crate) ended: BTreeSet<RowId>,
}

impl Platform {
    pub(crate) fn row_mut(&mut self, row: RowId) -> &mut Posted {
        self.rows
            .iter_mut()
            .find(|posted| posted.row == row)
            .unwrap()
    }

    /// Takes a reply; whether it becomes visible now.
    pub(crate) fn take(&mut self, key: &str, class: SinkClass) -> bool {
        let new = self.keys.insert(key.to_owned());
        new || class != SinkClass::Idempotent
    }
}

/// What a reply means to whoever waits.
pub(crate) fn word(row: RowId, reply: &Reply) -> Word {
    let body = reply.body.as_str();
    match reply.kind {
        ReplyKind::Answer if body == format!("answer to {row}") => Word::Answer,
        ReplyKind::Answer => Word::Wrong,
        ReplyKind::Notice if body.starts_with("Answered together") => Word::Answer,
        ReplyKind::Notice
            if body.starts_with("There is no answer")
                || body.starts_with("This message was stopped") =>
        {
            Word::Buried
        }
        ReplyKind::Notice => Word::Waits,
    }
}
