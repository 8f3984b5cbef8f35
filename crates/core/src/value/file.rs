//! Files of messages and answers: rows name them by the SHA-256 of their bytes, which every node knows them by.

use super::{MessageId, Timestamp};
use data_encoding::HEXLOWER;
use std::fmt;

/// The SHA-256 of a file's bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileDigest([u8; 32]);

impl FileDigest {
    #[must_use]
    pub const fn new(digest: [u8; 32]) -> Self {
        Self(digest)
    }

    /// Reads what [`fmt::Display`] writes: 64 hexadecimal digits in lower case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = HEXLOWER.decode(text.as_bytes()).ok()?;
        bytes.try_into().ok().map(Self)
    }

    #[must_use]
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for FileDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for FileDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How much of a file is stored in the ledger, where nodes find what another one took in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptFile {
    pub digest: FileDigest,
    /// Bytes stored so far, from the file's beginning.
    pub length: u64,
    /// When a node last was about to name it. It rises with every such node, so who finds it unchanged knows that
    /// nobody did since.
    pub kept_at: Timestamp,
}

/// A file that travels with a message or a reply. The bytes are ours by then: stored, named by their content, and never
/// by what a sender called them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// What its sender called it, cleaned: a label, unique within its message.
    pub name: String,
    /// What its first bytes say it is.
    pub media_type: String,
    /// What the bytes are known by, on every node.
    pub digest: FileDigest,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_is_64_lower_case_digits() {
        let digest = FileDigest::new([0xab; 32]);
        assert_eq!(digest.to_string(), "ab".repeat(32));
        assert_eq!(FileDigest::parse(&digest.to_string()), Some(digest));
        let wrong = ["", "ab", &"AB".repeat(32), &"../../x".repeat(10)];
        assert!(wrong.iter().all(|text| FileDigest::parse(text).is_none()));
    }
}
