//! Cache of the token table, so that a flood of calls with invalid tokens does not reach the ledger. Adding or revoking a
//! token clears the cache, and the next call reads the table again.

use super::identify::Candidate;
#[cfg(test)]
use crate::TokenHash;
#[cfg(test)]
use crate::control::{Caller, Grants, Scope, Via};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
