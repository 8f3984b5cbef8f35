//! Identifies callers: the owner of this machine through `api.sock`, or the holder of a token (threats 1 and 32).
//!
//! Only hashes of tokens are stored. The presented token is hashed and compared with every candidate in constant time,
//! so that timing reveals nothing about them. The token table is cached, so that a flood of calls with invalid tokens does
//! not reach the ledger; adding or revoking a token clears the cache.

use super::{Listener, ListenerGuard};
use crate::api::limits::TOKEN_MAX_BYTES;
use crate::api::platform::PATH as PLATFORM_PATH;
use crate::control::{Caller, Grants, LocalProgram, Scope, Via};
use crate::{A2aAuth, BridgeService, TokenHash, lock};
use axum::http::{HeaderMap, header};
use bridge_core::step::UseToken;
use bridge_core::value::Token;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::Instant;

/// The result of identifying a caller.
#[derive(Clone, Debug)]
pub(in crate::api) enum Identity {
    Known(Caller),
    /// Not identified, and why.
    Nobody(&'static str),
    /// A token was presented, but the ledger can't be read.
    Unsure,
}

/// An accepted token.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) hash: TokenHash,
    pub(super) caller: Caller,
}

/// Path of the A2A routes.
pub(in crate::api) const A2A_PATH: &str = "/a2a";
/// Answer to a call of the platform's route without its secret.
const NO_SECRET: &str = "only a platform that pushes messages calls this, with the secret that it gave us; a platform that sends none to this address needs MOLECULE_A2A_ALWAYS_AUTH=true";
/// Interval at which the use of a token is recorded.
const USE_NOTED_EVERY: Duration = Duration::from_secs(60);

impl<D: BridgeService> ListenerGuard<D> {
    /// Identifies the caller of a request.
    pub(super) async fn identify(
        &self,
        path: &str,
        headers: &HeaderMap,
        program: Option<LocalProgram>,
    ) -> Identity {
        let unnamed = || !headers.contains_key(header::AUTHORIZATION);
        match &self.listener {
            Listener::Local => {
                let via = via(headers);
                Identity::Known(Caller {
                    program: program.and_then(|program| program.named(via)),
                    ..Caller::local_owner(via)
                })
            }
            Listener::Tcp { .. } if unnamed() && self.is_open(path) => {
                Identity::Known(Caller::anonymous())
            }
            Listener::Tcp { .. } if path == PLATFORM_PATH => match bearer(headers) {
                Ok(secret) => self.platform(secret),
                Err(_) => Identity::Nobody(NO_SECRET),
            },
            Listener::Tcp { .. } => match bearer(headers) {
                Ok(token) => self.holder(token).await,
                Err(why) => Identity::Nobody(why),
            },
        }
    }

    /// Whether the path is open without a token: for conformance kits on this machine only.
    fn is_open(&self, path: &str) -> bool {
        let below = path.strip_prefix(A2A_PATH);
        let ours = below.is_some_and(|below| below.is_empty() || below.starts_with('/'));
        ours && self.context.service.a2a().auth == A2aAuth::None
    }

    /// The platform with this secret. Tokens are good for nothing here, and the secret is good for nothing elsewhere.
    fn platform(&self, secret: &str) -> Identity {
        match self.context.service.platform(secret) {
            Some(channel) => Identity::Known(Caller {
                name: channel.to_string(),
                via: Via::Http,
                program: None,
                grants: Grants::Scopes(Vec::new()),
            }),
            None => Identity::Nobody(NO_SECRET),
        }
    }

    async fn holder(&self, token: &str) -> Identity {
        let presented = TokenHash::of(token);
        let Some(named) = self.named().await else {
            return Identity::Unsure;
        };
        match among(&presented, named.iter()) {
            Some(candidate) => {
                self.note_use(&candidate.caller.name);
                Identity::Known(candidate.caller.clone())
            }
            None => {
                Identity::Nobody("the token is not valid: it was never made, or it was revoked")
            }
        }
    }

    /// The named tokens; `None` if the ledger can't be read.
    async fn named(&self) -> Option<Arc<[Candidate]>> {
        let known = &self.context.shared.known;
        let missing = match known.look() {
            Ok(kept) => return Some(kept),
            Err(missing) => missing,
        };
        let rows = self.context.service.read(|rows| rows.tokens()).await;
        let found: Arc<[Candidate]> = rows.ok()?.into_iter().filter_map(named_candidate).collect();
        known.keep(missing, Arc::clone(&found));
        Some(found)
    }

    /// Records the use of a token in the background, at most once per interval.
    fn note_use(&self, name: &str) {
        let now = Instant::now();
        let mut seen = lock(&self.context.shared.seen);
        let lately = seen
            .get(name)
            .is_some_and(|at| now.duration_since(*at) < USE_NOTED_EVERY);
        if lately {
            return;
        }
        // Bounded: only names of valid tokens get here.
        seen.insert(name.to_owned(), now);
        let (service, name) = (self.context.service.clone(), name.to_owned());
        tokio::spawn(async move {
            if let Err(error) = service.commit(UseToken { name }).await {
                tracing::debug!(%error, "the use of a token was not noted");
            }
        });
    }
}

/// A named token. Scopes that this version does not know are ignored.
fn named_candidate(token: Token) -> Option<Candidate> {
    let hash = TokenHash::from_hex(&token.hash).filter(|_| token.is_live())?;
    let scopes = token
        .scopes
        .iter()
        .filter_map(|word| Scope::from_word(word));
    Some(Candidate {
        hash,
        caller: Caller {
            name: token.name,
            via: Via::Http,
            program: None,
            grants: Grants::Scopes(scopes.collect()),
        },
    })
}

/// Header in which our own programs name their surface. For the records only: all of them act as the owner.
pub const VIA_HEADER: &str = "codex-bridge-via";

fn via(headers: &HeaderMap) -> Via {
    match headers.get(VIA_HEADER) {
        Some(word) if word == Via::Mcp.as_str() => Via::Mcp,
        Some(_) | None => Via::Cli,
    }
}

/// The candidate with this hash. Compares all of them, for constant time.
fn among<'c>(
    presented: &TokenHash,
    candidates: impl Iterator<Item = &'c Candidate>,
) -> Option<&'c Candidate> {
    let mut found = None;
    for candidate in candidates {
        if presented.is(&candidate.hash) {
            found = Some(candidate);
        }
    }
    found
}

/// The bearer token of a request.
fn bearer(headers: &HeaderMap) -> Result<&str, &'static str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(
            "a token is needed: send it once, as `Authorization: Bearer TOKEN`; `codex-bridge token add` makes one",
        );
    };
    let unreadable = "the Authorization header must be `Bearer TOKEN`";
    let (scheme, token) = value
        .to_str()
        .ok()
        .and_then(|text| text.split_once(' '))
        .ok_or(unreadable)?;
    let token = token.trim();
    if scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.len() <= TOKEN_MAX_BYTES
    {
        Ok(token)
    } else {
        Err(unreadable)
    }
}

/// How long a revocation is remembered; longer than a body may take to arrive.
const REVOKED_FOR: Duration = Duration::from_secs(600);

/// The cached rows.
#[derive(Debug, Default)]
pub(in crate::api) struct TokenCache(Mutex<CachedTokens>);

#[derive(Debug, Default)]
struct CachedTokens {
    /// Number of times the cache was cleared.
    generation: u64,
    tokens: Option<Arc<[Candidate]>>,
    /// Recently revoked tokens by name, with the generation of the revocation.
    revoked: HashMap<String, (u64, Instant)>,
}

/// The token of a request, which may be revoked before its body has arrived.
#[derive(Clone, Debug)]
pub(in crate::api) struct TokenUse {
    known: Arc<TokenCache>,
    name: String,
    generation: u64,
}

impl TokenUse {
    pub(in crate::api) fn is_revoked(&self) -> bool {
        let kept = self.known.lock();
        let revoked = kept.revoked.get(&self.name);
        revoked.is_some_and(|(generation, _)| *generation > self.generation)
    }
}

/// A cache miss; returned with the rows that were read.
#[derive(Debug)]
pub(super) struct CacheMiss(u64);

impl TokenCache {
    fn lock(&self) -> MutexGuard<'_, CachedTokens> {
        lock(&self.0)
    }

    /// The current generation. A request takes it before it is identified, so that later revocations count.
    pub(super) fn generation(&self) -> u64 {
        self.lock().generation
    }

    pub(super) fn used(self: &Arc<Self>, name: &str, generation: u64) -> TokenUse {
        TokenUse {
            known: Arc::clone(self),
            name: name.to_owned(),
            generation,
        }
    }

    pub(super) fn look(&self) -> Result<Arc<[Candidate]>, CacheMiss> {
        let kept = self.lock();
        kept.tokens.clone().ok_or(CacheMiss(kept.generation))
    }

    /// Caches the rows, unless a token was added or revoked since the miss.
    pub(super) fn keep(&self, missing: CacheMiss, tokens: Arc<[Candidate]>) {
        let mut kept = self.lock();
        if kept.generation == missing.0 {
            kept.tokens = Some(tokens);
        }
    }

    /// Clears the cache.
    pub(in crate::api) fn forget(&self) {
        let mut kept = self.lock();
        kept.generation += 1;
        kept.tokens = None;
    }

    /// Revokes a token, also for requests in progress.
    pub(in crate::api) fn revoke(&self, name: &str) {
        let now = Instant::now();
        let mut kept = self.lock();
        kept.generation += 1;
        kept.tokens = None;
        kept.revoked
            .retain(|_, (_, since)| now.duration_since(*since) < REVOKED_FOR);
        let generation = kept.generation;
        kept.revoked.insert(name.to_owned(), (generation, now));
    }

    /// Caches this token alone.
    #[cfg(test)]
    pub(in crate::api) fn hold(&self, token: &str, scopes: &[Scope]) {
        let candidate = Candidate {
            hash: TokenHash::of(token),
            caller: Caller {
                name: "owner".to_owned(),
                via: Via::Http,
                program: None,
                grants: Grants::Scopes(scopes.to_vec()),
            },
        };
        self.lock().tokens = Some(Arc::new([candidate]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threat_32_revocation_discards_concurrent_token_reads() {
        let known = TokenCache::default();
        let before = known.look().unwrap_err();
        known.forget();
        known.keep(before, Arc::default());
        let after = known.look().unwrap_err();
        known.keep(after, Arc::default());
        assert!(known.look().is_ok());
    }

    #[test]
    fn f4_a_token_is_revoked_under_way() {
        let known = Arc::new(TokenCache::default());
        let [one, two] = ["one", "two"].map(|name| known.used(name, known.generation()));
        known.forget();
        assert!(!one.is_revoked(), "a token was made");
        known.revoke("one");
        assert!(one.is_revoked() && !two.is_revoked());
        let next = known.used("one", known.generation());
        assert!(!next.is_revoked(), "another token of this name");
    }
}
