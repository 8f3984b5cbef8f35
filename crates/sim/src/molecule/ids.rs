//! Ids, tokens and secrets as the platform hands them out.

use std::fmt;

use uuid::Uuid;

/// A workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct WorkspaceId(pub(super) Uuid);

/// A file that waits for its workspace to fetch it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FileId(pub(super) Uuid);

impl WorkspaceId {
    pub(super) fn fresh() -> Self {
        Self(Uuid::new_v4())
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }
}

impl FileId {
    pub(super) fn fresh() -> Self {
        Self(Uuid::new_v4())
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }
}

impl fmt::Display for WorkspaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An id in the form that rows and messages carry.
pub(super) fn fresh_id() -> String {
    Uuid::new_v4().to_string()
}

/// 43 letters, digits, `-` and `_`, like a token of the real one (32 bytes in base64url).
pub(super) fn fresh_token() -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const LETTERS: usize = 43;
    let random: Vec<u8> = (0..3).flat_map(|_| *Uuid::new_v4().as_bytes()).collect();
    random
        .iter()
        .take(LETTERS)
        .filter_map(|byte| ALPHABET.get(usize::from(byte & 63)))
        .map(|letter| char::from(*letter))
        .collect()
}
