//! What nodes say to each other of running turns, carried by the database's notifications: a node says which turns it has
//! watchers for, and the node that runs one sends what Codex writes; a node passes on what a person says to a turn.
//!
//! Any of it may be lost: output is sent again when somebody asks anew, the answer is a row, and who steers is told that
//! the outcome is not known.

use bridge_core::port::{Extent, Phase, Steering};
use bridge_core::value::{ItemId, MessageId, NodeId, Timestamp};
use serde::{Deserialize, Serialize};

/// Bytes of text in one note. PostgreSQL carries less than 8000, and JSON may write six for one.
const PIECE_MAX: usize = 1200;

/// What one node tells the others of running turns. Names of fields and variants are never changed, only added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LiveNote {
    /// The node has watchers for turns that run elsewhere.
    Watch {
        /// The turns' messages.
        messages: Vec<MessageId>,
        /// It knows nothing of their texts, or lacks some of them.
        anew: bool,
    },
    /// A part of what Codex writes in one item.
    Text {
        /// The turn's message.
        message_id: MessageId,
        /// Which item.
        item_id: ItemId,
        /// What the item is for.
        phase: Phase,
        /// Which part of the item Codex gave.
        extent: Extent,
        /// Bytes of it before this part.
        from: usize,
        /// The part.
        text: String,
    },
    /// The diff of a file change.
    Diff {
        /// The turn's message.
        message_id: MessageId,
        /// The diff, or its beginning.
        text: String,
    },
    /// The last lines that a command wrote.
    Output {
        /// The turn's message.
        message_id: MessageId,
        /// The lines, or the first of them.
        text: String,
    },
    /// Input for a turn that runs on another node.
    Steer {
        /// Names this call in its result.
        call: String,
        /// The node that runs the turn.
        to: NodeId,
        /// The turn's message, or a waiting one that is to join the turn.
        message_id: MessageId,
        /// By the database's clock. Later nobody waits for the result any more, and the caller may have said it again.
        until: Timestamp,
        /// What a person says; absent where the waiting message is the input.
        said: Option<SaidPart>,
    },
    /// What became of such input.
    Steered {
        /// Which call.
        call: String,
        /// Its result.
        result: Steering,
    },
}

/// A part of what a person says to a running turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaidPart {
    /// Who says it.
    pub by: String,
    /// Bytes of it before this part.
    pub from: usize,
    /// The part.
    pub text: String,
    /// More parts follow.
    pub more: bool,
}

/// The beginning of a text: as much as one note carries.
#[must_use]
pub fn piece(text: &str) -> &str {
    let end = text.floor_char_boundary(PIECE_MAX);
    text.get(..end).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_note_fits_a_notification() {
        for character in ['\u{1}', 'ß', '\u{1f600}'] {
            let text = character.to_string().repeat(PIECE_MAX);
            let id = "i".repeat(128);
            let note = LiveNote::Text {
                message_id: MessageId::new(&id),
                item_id: ItemId::new(&id),
                phase: Phase::Commentary,
                extent: Extent::Middle,
                from: usize::MAX,
                text: piece(&text).to_owned(),
            };
            let bytes = serde_json::to_string(&note).unwrap().len();
            assert!(bytes < 7900, "{character:?}: {bytes}");
        }
    }
}
