//! A token of the API, as far as it is kept: a name, a hash, and words for what it is good for.
//!
//! What the words mean is the fronts' business; the token itself is shown once and kept nowhere.

use super::Timestamp;

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Who holds it, for people and the audit.
    pub name: String,
    /// Its SHA-256 in hexadecimal. Not the token: nobody can call with it.
    pub hash: String,
    /// What it is good for, one word each.
    pub scopes: Vec<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last seen, within a minute or so.
    pub last_used_at: Option<Timestamp>,
    /// When it was revoked; it is never good again.
    pub revoked_at: Option<Timestamp>,
}

impl Token {
    /// Whether it is good for anything.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.revoked_at.is_none()
    }
}
