//! What a person or agent says, as `turn/start` and `turn/steer` take it.
//!
//! How a message becomes input belongs to the caller.

use serde::Serialize;

/// Most characters one request may carry as input; one more is refused with `input_too_large`.
pub const MAX_INPUT_CHARS: usize = 1_048_576;

/// One piece of input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum UserInput {
    Text {
        text: String,
    },
    /// A file on the machine Codex runs on.
    LocalImage {
        path: String,
    },
    Image {
        url: String,
    },
}

impl UserInput {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}
