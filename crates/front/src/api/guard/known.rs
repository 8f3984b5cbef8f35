//! Tokens and sessions that are good, kept in memory so that calls without a good one cost the ledger nothing.
//!
//! Adding or revoking one here clears the cache. Other nodes of a fleet do that too, so what is kept is read again when it is
//! old, and before a credential is refused. One call reads for all that wait, and a flood of wrong credentials makes no
//! more reads than [`READS_APART`] allows.

use super::ListenerGuard;
use crate::api::Context;
use crate::control::{Caller, Grants, Scope, Via};
use crate::{BridgeService, TokenHash, lock};
use bridge_core::deadline::after;
use bridge_core::value::{Timestamp, Token, TokenKind};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::Instant;

/// How long rows are believed: as long a credential that another node revoked is still good here.
const KNOWN_FOR: Duration = Duration::from_secs(5);
/// Time between two reads for the sake of credentials that are not known.
const READS_APART: Duration = Duration::from_millis(100);

/// A token or session that was not revoked when it was read.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) hash: TokenHash,
    pub(super) caller: Caller,
    row: Token,
}

impl Candidate {
    /// A login is none. Scopes that this version does not know are ignored.
    fn of(row: Token) -> Option<Self> {
        let hash = TokenHash::from_hex(&row.hash).filter(|_| row.revoked_at.is_none())?;
        let scopes = row.scopes.iter();
        let scopes = scopes.filter_map(|word| Scope::from_word(word)).collect();
        let caller = match row.kind {
            TokenKind::Login(_) => return None,
            TokenKind::Session(_) => Caller::session(&row.name, scopes),
            TokenKind::Bearer => Caller {
                name: row.name.clone(),
                via: Via::Http,
                program: None,
                grants: Grants::Scopes(scopes),
                trace: None,
            },
        };
        Some(Self { hash, caller, row })
    }

    pub(super) fn is_bearer(&self) -> bool {
        self.row.kind == TokenKind::Bearer
    }

    pub(super) fn is_live(&self, now: Timestamp) -> bool {
        self.row.is_live(now)
    }
}

/// The result of looking a credential up.
pub(super) enum TokenLookup {
    Known(Caller),
    Unknown,
    /// The ledger can't be read, and it may be a new one.
    Unsure,
}

impl<D: BridgeService> ListenerGuard<D> {
    /// Looks for the candidate with this hash among those that `fits`.
    pub(super) async fn look_up(
        &self,
        presented: &TokenHash,
        fits: impl Fn(&Candidate) -> bool,
    ) -> TokenLookup {
        let arrived = Instant::now();
        let found = |known: &[Candidate]| {
            let found = among(presented, known.iter().filter(|one| fits(one)));
            found.map(|found| found.caller.clone())
        };
        let kept = self.context.shared.known.recent();
        if let Some(caller) = kept.and_then(|kept| found(&kept)) {
            return TokenLookup::Known(caller);
        }
        let (known, is_current) = read_since(&self.context, arrived).await;
        match found(&known) {
            Some(caller) => TokenLookup::Known(caller),
            None if is_current => TokenLookup::Unknown,
            None => TokenLookup::Unsure,
        }
    }
}

/// What a read found that began after this, and whether there was one; else what was known before.
async fn read_since<D: BridgeService>(
    context: &Context<D>,
    since: Instant,
) -> (Arc<[Candidate]>, bool) {
    let cache = &context.shared.known;
    let _turn = cache.reading.lock().await;
    let last = cache.last_read();
    if let Some(last) = last {
        if last.began >= since || last.failed_at.is_some_and(|at| at >= since) {
            return (cache.kept(), last.failed_at.is_none());
        }
        tokio::time::sleep_until(after(last.began, READS_APART)).await;
    }
    let generation = cache.begin_read();
    match context.service.read(|rows| rows.tokens()).await {
        Ok(rows) => {
            let found: Arc<[Candidate]> = rows.into_iter().filter_map(Candidate::of).collect();
            cache.keep(generation, &found);
            (found, true)
        }
        Err(_) => {
            cache.read_failed(generation);
            (cache.kept(), false)
        }
    }
}

/// Ends streams whose token was revoked on another node, or whose session has expired.
pub(in crate::api) async fn watch_credentials<D: BridgeService>(context: Context<D>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(KNOWN_FOR) => {}
            () = context.stop.cancelled() => return,
        }
        let streaming = context.shared.streams.credentials();
        if streaming.is_empty() {
            continue;
        }
        let (known, true) = read_since(&context, Instant::now()).await else {
            continue;
        };
        let now = context.service.now();
        let is_good = |name: &String| {
            let mut named = known.iter().filter(|one| one.row.name == *name);
            named.any(|one| one.is_live(now))
        };
        for name in streaming.iter().filter(|name| !is_good(name)) {
            context.shared.known.revoke(name);
            context.shared.streams.end(name);
        }
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

/// How long a revocation is remembered; longer than a body may take to arrive.
const REVOKED_FOR: Duration = Duration::from_secs(600);

/// The cached rows.
#[derive(Debug, Default)]
pub(in crate::api) struct TokenCache {
    cached: Mutex<CachedTokens>,
    /// Held by the call that reads.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct CachedTokens {
    /// Number of times the cache was cleared.
    generation: u64,
    tokens: Option<Arc<[Candidate]>>,
    last_read: Option<LastRead>,
    /// Recently revoked tokens by name, with the generation of the revocation.
    revoked: HashMap<String, (u64, Instant)>,
}

#[derive(Clone, Copy, Debug)]
struct LastRead {
    began: Instant,
    /// When it turned out that the ledger can't be read.
    failed_at: Option<Instant>,
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

impl TokenCache {
    fn lock(&self) -> MutexGuard<'_, CachedTokens> {
        lock(&self.cached)
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

    /// What is known, unless it is old. While somebody reads, and while the ledger can't be read, others go by it.
    fn recent(&self) -> Option<Arc<[Candidate]>> {
        let kept = self.lock();
        let is_recent = |read: &LastRead| Instant::now().duration_since(read.began) < KNOWN_FOR;
        let recent = kept.last_read.filter(is_recent);
        recent.and_then(|_| kept.tokens.clone())
    }

    fn last_read(&self) -> Option<LastRead> {
        self.lock().last_read
    }

    /// What is known, however old it is.
    fn kept(&self) -> Arc<[Candidate]> {
        self.lock().tokens.clone().unwrap_or_default()
    }

    /// Notes that a read begins; gives the generation that it is of.
    fn begin_read(&self) -> u64 {
        let mut kept = self.lock();
        kept.last_read = Some(LastRead {
            began: Instant::now(),
            failed_at: None,
        });
        kept.generation
    }

    /// Caches what was read, unless a token was added or revoked meanwhile.
    fn keep(&self, generation: u64, found: &Arc<[Candidate]>) {
        let mut kept = self.lock();
        if kept.generation == generation {
            kept.tokens = Some(Arc::clone(found));
        }
    }

    fn read_failed(&self, generation: u64) {
        let mut kept = self.lock();
        if kept.generation == generation
            && let Some(read) = &mut kept.last_read
        {
            read.failed_at = Some(Instant::now());
        }
    }

    /// Clears the cache.
    pub(in crate::api) fn forget(&self) {
        let mut kept = self.lock();
        kept.generation += 1;
        kept.tokens = None;
        kept.last_read = None;
    }

    /// Revokes a token, also for requests in progress.
    pub(in crate::api) fn revoke(&self, name: &str) {
        let now = Instant::now();
        let mut kept = self.lock();
        kept.generation += 1;
        kept.tokens = None;
        kept.last_read = None;
        kept.revoked
            .retain(|_, (_, since)| now.duration_since(*since) < REVOKED_FOR);
        let generation = kept.generation;
        kept.revoked.insert(name.to_owned(), (generation, now));
    }

    /// Caches these rows alone, for as long as a test may take.
    #[cfg(test)]
    pub(in crate::api) fn hold(&self, rows: Vec<Token>) {
        let mut kept = self.lock();
        kept.tokens = Some(rows.into_iter().filter_map(Candidate::of).collect());
        kept.last_read = Some(LastRead {
            began: Instant::now() + Duration::from_secs(86_400),
            failed_at: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn threat_32_revocation_discards_concurrent_token_reads() {
        let known = TokenCache::default();
        let before = known.begin_read();
        known.forget();
        known.keep(before, &Arc::default());
        assert!(known.recent().is_none());
        let read = known.begin_read();
        known.keep(read, &Arc::default());
        assert!(known.recent().is_some());
        tokio::time::advance(KNOWN_FOR).await;
        assert!(known.recent().is_none());
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
