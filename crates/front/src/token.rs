//! Tokens of the API: what is known about one (its hash), and their JSON forms.

use bridge_core::requester::ANONYMOUS;
use bridge_core::value::{DecidedBy, Token};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use subtle::ConstantTimeEq;

/// Longest name of a token.
pub(crate) const NAME_MAX_CHARS: usize = 64;

/// The SHA-256 of a token. Tokens are 32 random bytes, so that no salt or slow hash is needed.
#[derive(Clone)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// The hash of a token.
    #[must_use]
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// As it is kept.
    #[must_use]
    pub fn hex(&self) -> String {
        HEXLOWER.encode(&self.0)
    }

    /// A hash as it was kept.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?;
        Some(Self(bytes.try_into().ok()?))
    }

    /// Whether both are hashes of the same token; takes the same time for every answer.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash")
    }
}

/// Whether a text can be the name of a token: it is shown, logged and kept as it is.
pub(crate) fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    text.len() <= NAME_MAX_CHARS
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(fits)
}

/// Names that the bridge signs with, or that people would take for one of its own: the record of who did what would
/// mislead.
const RESERVED: [&str; 14] = [
    ANONYMOUS,
    DecidedBy::BRIDGE_NAME,
    "bridge",
    "canvas",
    "codex",
    "deadline",
    "grant",
    "local",
    "localowner",
    "owner",
    "ownertoken",
    "rule",
    "system",
    "you",
];

/// Whether a name is one of the bridge's own, however it is written.
pub(crate) fn is_reserved(name: &str) -> bool {
    let plain = |name: &str| -> String {
        let letters = name.chars().filter(char::is_ascii_alphanumeric);
        letters.map(|c| c.to_ascii_lowercase()).collect()
    };
    let name = plain(name);
    RESERVED.iter().any(|reserved| plain(reserved) == name)
}

/// Body of `POST /v1/tokens`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// Who will hold it.
    pub name: String,
    /// What it is good for: `read`, `send`, `control`, `approve`, `admin`; `a2a` for other agents.
    pub scopes: Vec<String>,
    /// It is for whoever held a revoked token of this name: they see the tasks that it gave over A2A.
    #[serde(default)]
    pub rotate: bool,
}

/// Answer to `POST /v1/tokens`: the only place where the token is shown.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct TokenMade {
    /// Who will hold it.
    pub name: String,
    /// What it is good for.
    pub scopes: Vec<String>,
    /// The token. It can't be shown again.
    pub token: String,
}

impl fmt::Debug for TokenMade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenMade")
            .field("name", &self.name)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

/// Answer to `GET /v1/tokens`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TokenList {
    /// Good ones first, each by name.
    pub tokens: Vec<TokenView>,
}

/// A token, as far as it is known.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TokenView {
    /// Who holds it.
    pub name: String,
    /// What it is good for.
    pub scopes: Vec<String>,
    /// Milliseconds since the epoch.
    pub created_at: i64,
    /// When it was last seen, within a minute or so, in milliseconds since the epoch.
    pub last_used_at: Option<i64>,
    /// When it was revoked, in milliseconds since the epoch.
    pub revoked_at: Option<i64>,
}

/// Answer to `DELETE /v1/tokens/{name}`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TokenRevoked {
    /// It is good for nothing any more.
    pub name: String,
    /// Messages of its holder that had not begun and are cancelled.
    pub cancelled: u32,
    /// Messages of its holder whose turns run and go on: `POST /v1/stop` ends them.
    pub running: Vec<String>,
    /// Messages of its holder whose text was given to the turn of another sender, which goes on with it.
    pub joined: Vec<String>,
}

impl From<Token> for TokenView {
    fn from(token: Token) -> Self {
        Self {
            name: token.name,
            scopes: token.scopes,
            created_at: token.created_at.0,
            last_used_at: token.last_used_at.map(|at| at.0),
            revoked_at: token.revoked_at.map(|at| at.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threat_32_token_hash_compares_and_redacts() {
        let one = TokenHash::of("one");
        assert!(one.is(&TokenHash::from_hex(&one.hex()).unwrap()));
        assert!(!one.is(&TokenHash::of("two")));
        assert_eq!(format!("{one:?}"), "TokenHash");
        for damaged in ["", "zz", &"é".repeat(32), &"g".repeat(64), &"0".repeat(63)] {
            assert!(TokenHash::from_hex(damaged).is_none(), "{damaged}");
        }
    }

    #[test]
    fn threat_18_token_names_are_log_safe() {
        for name in ["ci", "Laptop.2", "a_b-c", &"x".repeat(NAME_MAX_CHARS)] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "",
            "-x",
            "a b",
            "a\nb",
            "a\r\nSet-Cookie: x",
            "a\u{1b}[0m",
            "ünicode",
            "a/b",
            "owner token",
            &"x".repeat(NAME_MAX_CHARS + 1),
        ] {
            assert!(!is_name(name), "{name:?}");
        }
    }

    #[test]
    fn f10_reserves_internal_names() {
        for name in [
            "codex-bridge",
            "Codex-Bridge",
            "codex_bridge",
            "CODEX.BRIDGE",
            "codexbridge",
            "anonymous",
            "Owner",
            "local-owner",
            "local",
            "owner-token",
            "system",
            "rule",
            "you",
        ] {
            assert!(is_reserved(name), "{name}");
        }
        for name in ["codex-bridge-ci", "owners", "you2", "localhost", "ruler"] {
            assert!(!is_reserved(name), "{name}");
        }
    }

    #[test]
    fn threat_6_debug_omits_token() {
        let made = TokenMade {
            name: "ci".to_owned(),
            scopes: Vec::new(),
            token: "canary".to_owned(),
        };
        assert!(!format!("{made:?}").contains("canary"));
    }
}
