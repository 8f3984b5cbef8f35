//! API tokens: hash, names and JSON form; list, add and revoke. Only the answer that creates a token contains it.

use super::extract::{Body, Who};
use super::sessions::SESSION_PREFIX;
use super::{Context, ProblemResponse};
use crate::Time;
use crate::control::Scope;
use crate::{BridgeService, StopRequest, Stopped};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use bridge_core::port::LedgerError;
use bridge_core::requester::ANONYMOUS;
use bridge_core::step::{AddToken, RevokeToken, StopCause, TokenAdded};
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
    #[must_use]
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// The stored form.
    #[must_use]
    pub fn hex(&self) -> String {
        HEXLOWER.encode(&self.0)
    }

    /// Parses the stored form.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?;
        Some(Self(bytes.try_into().ok()?))
    }

    /// Compares in constant time.
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

/// Whether a text can be a token's name, which is shown and logged unescaped.
pub(crate) fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    text.len() <= NAME_MAX_CHARS
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(fits)
}

/// Names that the bridge uses itself, or that look like its own. They would make the audit misleading.
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

/// Whether a name is reserved, ignoring case and punctuation.
pub(crate) fn is_reserved(name: &str) -> bool {
    let plain = |name: &str| -> String {
        let letters = name.chars().filter(char::is_ascii_alphanumeric);
        letters.map(|c| c.to_ascii_lowercase()).collect()
    };
    let name = plain(name);
    RESERVED.iter().any(|reserved| plain(reserved) == name)
        || name.starts_with(&plain(SESSION_PREFIX))
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
    /// `token`, `session` of the console, or `login`, a code that may still become one.
    pub kind: String,
    /// Where a session is used.
    pub label: Option<String>,
    /// When.
    pub created_at: Time,
    /// When it was last seen, within a minute or so.
    pub last_used_at: Option<Time>,
    /// When it was revoked.
    pub revoked_at: Option<Time>,
    /// When a session or login ends; a session also ends when it was not used for a week.
    pub expires_at: Option<Time>,
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
        let access = token.kind.console();
        Self {
            kind: token.kind.as_str().to_owned(),
            label: access.map(|access| access.label.clone()),
            expires_at: access.map(|access| access.expires_at.into()),
            name: token.name,
            scopes: token.scopes,
            created_at: token.created_at.into(),
            last_used_at: token.last_used_at.map(Time::from),
            revoked_at: token.revoked_at.map(Time::from),
        }
    }
}

pub(super) async fn list<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
) -> Result<Json<TokenList>, ProblemResponse> {
    let tokens = service.read(|rows| rows.tokens()).await?;
    let now = service.now();
    // A session that ended by itself is over; one that was revoked is shown so, like a token.
    let shown = |token: &Token| token.revoked_at.is_some() || token.is_live(now);
    let tokens = tokens.into_iter().filter(shown).map(TokenView::from);
    Ok(Json(TokenList {
        tokens: tokens.collect(),
    }))
}

pub(super) async fn add<D: BridgeService>(
    State(context): State<Context<D>>,
    Who(caller): Who,
    Body(new): Body<NewToken>,
) -> Result<(StatusCode, Json<TokenMade>), ProblemResponse> {
    let name = named(new.name)?;
    if is_reserved(&name) {
        return Err(ProblemResponse::unprocessable(format!(
            "{name} is what this bridge calls itself or its owner, and the record of who did what would mislead; \
             choose another name"
        )));
    }
    let scopes = scopes(&new.scopes)?;
    let Some(token) = context.service.random_token() else {
        return Err(ProblemResponse::unavailable(
            "the system gives no random numbers now; no token was made",
        ));
    };
    let words: Vec<String> = scopes
        .iter()
        .map(|scope| scope.as_str().to_owned())
        .collect();
    let add = AddToken {
        name: name.clone(),
        hash: TokenHash::of(&token).hex(),
        scopes: words.clone(),
        rotate: new.rotate,
        by: caller.actor().to_string(),
    };
    let redactor = context.service.clone();
    let (service, shared) = (context.service, context.shared);
    let added = to_the_end(async move {
        let added = service.commit(add).await;
        shared.known.forget();
        added
    });
    match added.await?? {
        TokenAdded::Added => {
            redactor.redact(&token);
            let made = TokenMade {
                name,
                scopes: words,
                token,
            };
            Ok((StatusCode::CREATED, Json(made)))
        }
        TokenAdded::Taken => Err(ProblemResponse::ambiguous(format!(
            "there is a token {name} already: revoke it first, or choose another name"
        ))),
        TokenAdded::Owns { tasks } => Err(ProblemResponse::ambiguous(format!(
            "{name} has {tasks} tasks from before, which whoever gets this token would see and go on with: choose \
             another name, or say that it is for the same agent (`rotate`)"
        ))),
        TokenAdded::Full => Err(ProblemResponse::ambiguous(
            "there are too many tokens: revoke those that nobody uses",
        )),
    }
}

pub(super) async fn revoke<D: BridgeService>(
    State(context): State<Context<D>>,
    Who(caller): Who,
    Path(name): Path<String>,
) -> Result<Json<TokenRevoked>, ProblemResponse> {
    let name = named(name)?;
    let revoke = RevokeToken {
        name: name.clone(),
        by: caller.actor().to_string(),
    };
    let by = caller.actor();
    let (service, shared) = (context.service, context.shared);
    let revoked = to_the_end(async move {
        let name = revoke.name.clone();
        let revoked = service.commit(revoke).await;
        // Before its messages are cancelled: a request in progress then sees the revocation here or in the row.
        shared.known.revoke(&name);
        if matches!(revoked, Ok(true)) {
            shared.streams.end(&name);
        }
        // Also if it was revoked before: the daemon may have crashed between the two steps.
        let revoked = revoked?;
        let stopped = if revoked || was_revoked(&service, &name).await? {
            service.stop_sender(of_token(name), by).await?
        } else {
            Stopped::default()
        };
        Ok::<_, LedgerError>((revoked, stopped))
    });
    let (revoked, stopped) = revoked.await??;
    if !revoked && stopped == Stopped::default() {
        return Err(ProblemResponse::not_found(format!(
            "there is no token {name} that could be revoked"
        )));
    }
    Ok(Json(TokenRevoked {
        name,
        cancelled: stopped.cancelled,
        running: stopped.running.iter().map(ToString::to_string).collect(),
        joined: stopped.joined.iter().map(ToString::to_string).collect(),
    }))
}

fn of_token(name: String) -> StopRequest {
    StopRequest {
        sender: name,
        channel: None,
        cause: StopCause::Revoked,
    }
}

async fn was_revoked<D: BridgeService>(service: &D, name: &str) -> Result<bool, LedgerError> {
    let tokens = service.read(|rows| rows.tokens()).await?;
    Ok(tokens.iter().any(|token| token.name == name))
}

/// Runs to completion even if the caller disconnects: a token must not stay cached after it was revoked in the ledger.
pub(super) async fn to_the_end<T: Send + 'static>(
    act: impl Future<Output = T> + Send + 'static,
) -> Result<T, ProblemResponse> {
    let done = tokio::spawn(act).await;
    done.map_err(|_| ProblemResponse::bug())
}

fn named(name: String) -> Result<String, ProblemResponse> {
    if is_name(&name) {
        Ok(name)
    } else {
        Err(ProblemResponse::unprocessable(format!(
            "a token's name is 1 to {NAME_MAX_CHARS} letters, digits, dots, dashes and underscores, and begins with a letter or digit"
        )))
    }
}

pub(super) fn scopes(words: &[String]) -> Result<Vec<Scope>, ProblemResponse> {
    let known = Scope::ALL.map(Scope::as_str).join(", ");
    let mut scopes = Vec::new();
    for word in words {
        let scope = Scope::from_word(word).ok_or_else(|| {
            ProblemResponse::unprocessable(format!("{word:?} is no scope; there are {known}"))
        })?;
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    if scopes.is_empty() {
        Err(ProblemResponse::unprocessable(format!(
            "a token without a scope is good for nothing; there are {known}"
        )))
    } else {
        Ok(scopes)
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
            "console",
            "console-1f",
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
