//! A file that travels with a message or a reply. The bytes are ours by then: stored, named by their content, and
//! never by what a sender called them.

use super::MessageId;

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// What its sender called it, cleaned: a label, unique within its message.
    pub name: String,
    /// What its first bytes say it is.
    pub media_type: String,
    /// Our own copy; an absolute path kept as text.
    pub path: String,
    /// How long it is.
    pub bytes: u64,
}

impl Attachment {
    /// Whether the model can look at it.
    #[must_use]
    pub fn is_image(&self) -> bool {
        matches!(
            self.media_type.as_str(),
            "image/png" | "image/jpeg" | "image/gif" | "image/webp"
        )
    }

    /// Where Codex finds it, below the conversation's working directory.
    #[must_use]
    pub fn place(&self, message_id: &MessageId) -> String {
        format!("attachments/{message_id}/{}", self.name)
    }
}
