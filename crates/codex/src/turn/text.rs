//! Messages of Codex in a turn: one while it is written, and each once more when it is complete.
//!
//! Bounded: a flood of deltas costs one draft. Which of the messages is the answer is not decided here.

use bridge_core::port::{Extent, Phase, TextUpdate};

use crate::text::head;
use crate::wire::Notification;
use crate::wire::item::{AgentMessage, Item};
use crate::wire::values::MessagePhase;
use bridge_core::value::ItemId;

/// Longest text that is kept and shown of a message that is being written: an answer of many pages. Each piece of
/// news is the whole text so far, so it is not for books; the answer itself comes whole with the end of the turn.
pub const MAX_DRAFT_BYTES: usize = 64 * 1024;

/// The message that a notification shows to be whole; of a long one the beginning.
pub fn completed_text(notification: &Notification) -> Option<TextUpdate> {
    let Notification::ItemCompleted(notice) = notification else {
        return None;
    };
    let Item::AgentMessage(message) = &notice.item else {
        return None;
    };
    let text = head(&message.text, MAX_DRAFT_BYTES);
    Some(TextUpdate {
        item_id: message.id.clone(),
        phase: phase(message),
        extent: if text.len() < message.text.len() {
            Extent::Head
        } else {
            Extent::Whole
        },
        text: text.to_owned(),
    })
}

fn phase(message: &AgentMessage) -> Phase {
    match message.phase {
        Some(MessagePhase::Commentary) => Phase::Commentary,
        Some(MessagePhase::FinalAnswer) => Phase::Final,
        Some(MessagePhase::PartialAnswer | MessagePhase::Other(_)) | None => Phase::Unmarked,
    }
}

/// Text of the one message that is being written.
#[derive(Debug)]
pub(super) struct TextDraft {
    pub(super) text: TextUpdate,
    full: bool,
}

impl TextDraft {
    /// A message that begins now.
    pub(super) fn begun(message: &AgentMessage) -> Self {
        Self::new(&message.id, phase(message), Extent::Head)
    }

    /// A message whose beginning was not seen: the turn was attached to while it was written.
    pub(super) fn joined(item_id: &ItemId) -> Self {
        Self::new(item_id, Phase::Unmarked, Extent::Middle)
    }

    fn new(item_id: &ItemId, phase: Phase, extent: Extent) -> Self {
        Self {
            text: TextUpdate {
                item_id: item_id.clone(),
                phase,
                extent,
                text: String::new(),
            },
            full: false,
        }
    }

    pub(super) fn is_of(&self, item_id: &ItemId) -> bool {
        self.text.item_id == *item_id
    }

    /// Appends what fits; false when nothing did.
    pub(super) fn push(&mut self, delta: &str) -> bool {
        if self.full || delta.is_empty() {
            return false;
        }
        let piece = head(delta, MAX_DRAFT_BYTES - self.text.text.len());
        self.full = piece.len() < delta.len();
        self.text.text.push_str(piece);
        !piece.is_empty()
    }
}
