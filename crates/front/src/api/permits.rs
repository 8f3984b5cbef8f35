//! Limits event streams, in total and per caller, and ends the streams of a revoked token.

use super::ProblemResponse;
use super::limits::{STREAMS_MAX, STREAMS_PER_CALLER};
use crate::control::{Caller, Grants};
use crate::lock;
use bridge_core::requester::LOCAL_OWNER;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

/// The open streams of all callers.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamPermits {
    taken: Arc<Mutex<HashMap<String, CallerStreams>>>,
    /// Ends all streams.
    stop: CancellationToken,
}

/// The streams of one caller.
#[derive(Debug)]
struct CallerStreams {
    count: usize,
    is_revocable: bool,
    stop: CancellationToken,
}

/// Permission for one stream; released when dropped.
#[derive(Debug)]
pub(crate) struct StreamPermit {
    streams: StreamPermits,
    name: String,
    stop: CancellationToken,
}

impl StreamPermits {
    /// Permits for streams that end when `stop` is cancelled.
    pub(super) fn until(stop: CancellationToken) -> Self {
        let taken = Arc::default();
        Self { taken, stop }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, CallerStreams>> {
        lock(&self.taken)
    }

    /// Number of open streams.
    pub(super) fn taken(&self) -> usize {
        self.lock().values().map(|own| own.count).sum()
    }

    /// Takes a permit for one more stream.
    pub(super) fn acquire(&self, caller: &Caller) -> Result<StreamPermit, ProblemResponse> {
        let mut taken = self.lock();
        let own = taken.get(caller.credential()).map_or(0, |own| own.count);
        let full = match caller.grants {
            // Every local `send` opens a stream; the connection limit bounds them.
            Grants::LocalOwner => false,
            Grants::Scopes(_) | Grants::Session { .. } | Grants::Member(_) => {
                let others = taken.iter().filter(|(name, _)| *name != LOCAL_OWNER);
                let all: usize = others.map(|(_, own)| own.count).sum();
                own >= STREAMS_PER_CALLER || all >= STREAMS_MAX
            }
        };
        if full {
            return Err(ProblemResponse::unavailable(
                "too many event streams are open; close one, or ask again later",
            ));
        }
        let own = taken
            .entry(caller.credential().to_owned())
            .or_insert_with(|| CallerStreams {
                count: 0,
                is_revocable: caller.is_revocable(),
                stop: self.stop.child_token(),
            });
        own.count += 1;
        Ok(StreamPermit {
            streams: self.clone(),
            name: caller.credential().to_owned(),
            stop: own.stop.clone(),
        })
    }

    /// The tokens and sessions that have streams.
    pub(super) fn credentials(&self) -> Vec<String> {
        let taken = self.lock();
        let revocable = taken.iter().filter(|(_, own)| own.is_revocable);
        revocable.map(|(name, _)| name.clone()).collect()
    }

    /// Ends the streams of a revoked token.
    pub(super) fn end(&self, name: &str) {
        if let Some(own) = self.lock().get_mut(name) {
            let next = self.stop.child_token();
            std::mem::replace(&mut own.stop, next).cancel();
        }
    }
}

impl StreamPermit {
    /// Cancelled when the stream must end.
    pub(crate) fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Resolves when the token is revoked, but not when the daemon stops: callers that wait for this end by other means
    /// then.
    pub(super) fn revoked(&self) -> impl Future<Output = ()> + Send + 'static {
        let (own, all) = (self.stop.clone(), self.streams.stop.clone());
        async move {
            own.cancelled().await;
            if all.is_cancelled() {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut taken = self.streams.lock();
        match taken.get_mut(&self.name) {
            Some(own) if own.count > 1 => own.count -= 1,
            Some(_) | None => {
                taken.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Via;

    fn caller(name: &str) -> Caller {
        Caller {
            name: name.to_owned(),
            via: Via::Http,
            program: None,
            grants: Grants::Scopes(Vec::new()),
            trace: None,
        }
    }

    #[test]
    fn threat_22_limits_total_and_caller_streams() {
        let streams = StreamPermits::default();
        let mut permits: Vec<StreamPermit> = (0..STREAMS_PER_CALLER)
            .map(|_| streams.acquire(&caller("one")).unwrap())
            .collect();
        assert!(streams.acquire(&caller("one")).is_err());
        for n in 0..STREAMS_MAX - STREAMS_PER_CALLER {
            permits.push(streams.acquire(&caller(&format!("other {n}"))).unwrap());
        }
        assert!(streams.acquire(&caller("late")).is_err());
        let owner = Caller::local_owner(Via::Cli);
        permits.extend((0..STREAMS_MAX).map(|_| streams.acquire(&owner).unwrap()));
        assert_eq!(owner.name, LOCAL_OWNER);
        drop(permits);
        assert!(streams.lock().is_empty());
    }

    #[test]
    fn threat_32_revocation_ends_only_own_streams() {
        let streams = StreamPermits::default();
        let (one, two) = (caller("one"), caller("two"));
        let (gone, stays) = (
            streams.acquire(&one).unwrap(),
            streams.acquire(&two).unwrap(),
        );
        streams.end("one");
        assert!(gone.stop().is_cancelled() && !stays.stop().is_cancelled());
        let later = streams.acquire(&one).unwrap();
        assert!(!later.stop().is_cancelled(), "another token of this name");
        streams.stop.cancel();
        assert!(later.stop().is_cancelled() && stays.stop().is_cancelled());
    }
}
