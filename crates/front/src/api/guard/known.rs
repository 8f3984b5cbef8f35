//! The tokens that were made, kept in memory: a flood of calls without a good one costs the ledger nothing. Making or revoking
//! one forgets them all, and the next call reads them again.

use super::identify::Candidate;
#[cfg(test)]
use crate::TokenHash;
#[cfg(test)]
use crate::control::{Caller, Grants, Scope, Via};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is known of the rows.
#[derive(Debug, Default)]
pub(in crate::api) struct Known(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// How often everything was forgotten.
    generation: u64,
    tokens: Option<Arc<[Candidate]>>,
}

/// Nothing is kept; whoever reads the rows now gives this back with them.
#[derive(Debug)]
pub(super) struct Missing(u64);

impl Known {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn threat_32_what_was_read_before_a_revocation_is_not_kept_after_it() {
        let known = Known::default();
        let before = known.look().unwrap_err();
        known.forget();
        known.keep(before, Arc::default());
        let after = known.look().unwrap_err();
        known.keep(after, Arc::default());
        assert!(known.look().is_ok());
    }
}
