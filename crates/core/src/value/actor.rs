//! Who acts, and the tokens of the API. Rights go by the name alone; the program is for the records.

use super::Timestamp;
use crate::limits::SESSION_IDLE_MS;
use std::fmt;

/// Who does something by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// The name of the owner, of a token or of a sender.
    pub name: String,
    /// The program that acts for them, unless it is a person at a terminal.
    pub program: Option<String>,
}

impl Actor {
    /// Somebody of whom only the name is known.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            program: None,
        }
    }
}

/// As the records have it. Nothing is read back from it: a name may look like this too.
impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.program {
            Some(program) => write!(f, "{} ({program})", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// A token of the API, as far as it is kept; the token itself is shown once and kept nowhere. What the words mean is the
/// fronts' business.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Who holds it, for people and the audit.
    pub name: String,
    /// Its SHA-256 in hexadecimal. Not the token: nobody can call with it.
    pub hash: String,
    /// What it is good for, one word each.
    pub scopes: Vec<String>,
    pub kind: TokenKind,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last seen, within a minute or so.
    pub last_used_at: Option<Timestamp>,
    /// When it was revoked; it is never good again.
    pub revoked_at: Option<Timestamp>,
}

/// How a token is presented, and how long it is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// As a bearer token, until it is revoked.
    Bearer,
    /// A code that opens one session of the console: this row becomes the session.
    Login(ConsoleAccess),
    /// A session of the console, in two halves that are hashed together.
    Session(ConsoleAccess),
}

/// What a login and its session have beside every token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsoleAccess {
    /// Where it is used, in the owner's words.
    pub label: String,
    pub expires_at: Timestamp,
}

impl TokenKind {
    /// The stored form.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Bearer => "token",
            Self::Login(_) => "login",
            Self::Session(_) => "session",
        }
    }

    #[must_use]
    pub fn console(&self) -> Option<&ConsoleAccess> {
        match self {
            Self::Bearer => None,
            Self::Login(access) | Self::Session(access) => Some(access),
        }
    }
}

impl Token {
    /// Whether it is good for anything.
    #[must_use]
    pub fn is_live(&self, now: Timestamp) -> bool {
        let is_current = match &self.kind {
            TokenKind::Bearer => true,
            TokenKind::Login(access) => now < access.expires_at,
            TokenKind::Session(access) => {
                let seen = self.last_used_at.unwrap_or(self.created_at);
                now < access.expires_at && now < seen.plus_ms(SESSION_IDLE_MS)
            }
        };
        self.revoked_at.is_none() && is_current
    }

    /// Whether it is a bearer token that is not revoked.
    #[must_use]
    pub fn is_live_bearer(&self) -> bool {
        self.kind == TokenKind::Bearer && self.revoked_at.is_none()
    }
}
