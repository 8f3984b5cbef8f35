//! The tokens that were made, kept in memory: a flood of calls without a good one costs the ledger nothing. Making or revoking
//! one forgets them all, and the next call reads them again.

use super::identify::Candidate;
#[cfg(test)]
use crate::TokenHash;
#[cfg(test)]
use crate::control::{Caller, Grants, Scope, Via};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long it is remembered that a token was revoked: longer than a body may take to arrive.
const REVOKED_FOR: Duration = Duration::from_secs(600);

/// What is known of the rows.
#[derive(Debug, Default)]
pub(in crate::api) struct Known(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// How often everything was forgotten.
    generation: u64,
    tokens: Option<Arc<[Candidate]>>,
    /// Tokens that were revoked lately, by name, with the generation since when.
    revoked: HashMap<String, (u64, Instant)>,
}

/// The token that a request came with. It may be revoked before the body is there.
#[derive(Clone, Debug)]
pub(in crate::api) struct TokenUse {
    known: Arc<Known>,
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

/// Nothing is kept; whoever reads the rows now gives this back with them.
#[derive(Debug)]
pub(super) struct Missing(u64);

impl Known {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a request must take before it is found out who calls: whatever is revoked after that counts.
    pub(super) fn generation(&self) -> u64 {
        self.lock().generation
    }

    /// A request that came with the token of this name, at this generation.
    pub(super) fn used(self: &Arc<Self>, name: &str, generation: u64) -> TokenUse {
        TokenUse {
            known: Arc::clone(self),
            name: name.to_owned(),
            generation,
        }
    }

    pub(super) fn look(&self) -> Result<Arc<[Candidate]>, Missing> {
        let kept = self.lock();
        kept.tokens.clone().ok_or(Missing(kept.generation))
    }

    /// Keeps what was read, unless a token was made or revoked since it was missing.
    pub(super) fn keep(&self, missing: Missing, tokens: Arc<[Candidate]>) {
        let mut kept = self.lock();
        if kept.generation == missing.0 {
            kept.tokens = Some(tokens);
        }
    }

    /// The rows changed.
    pub(in crate::api) fn forget(&self) {
        let mut kept = self.lock();
        kept.generation += 1;
        kept.tokens = None;
    }

    /// This token is good for nothing any more, also in requests that are under way.
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

    /// As after reading the row of this token alone.
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
        let known = Known::default();
        let before = known.look().unwrap_err();
        known.forget();
        known.keep(before, Arc::default());
        let after = known.look().unwrap_err();
        known.keep(after, Arc::default());
        assert!(known.look().is_ok());
    }

    #[test]
    fn f4_a_token_is_revoked_under_way() {
        let known = Arc::new(Known::default());
        let [one, two] = ["one", "two"].map(|name| known.used(name, known.generation()));
        known.forget();
        assert!(!one.is_revoked(), "a token was made");
        known.revoke("one");
        assert!(one.is_revoked() && !two.is_revoked());
        let next = known.used("one", known.generation());
        assert!(!next.is_revoked(), "another token of this name");
    }
}
