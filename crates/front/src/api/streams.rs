//! The places of event streams: how many there may be, in all and for one caller, and their end when a token is revoked.

use super::ProblemResponse;
use super::limits::{STREAMS_MAX, STREAMS_PER_CALLER};
use crate::control::{Caller, Grants};
use bridge_core::requester::LOCAL_OWNER;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// Who streams how often.
#[derive(Clone, Debug, Default)]
pub(super) struct Streams {
    taken: Arc<Mutex<HashMap<String, Own>>>,
    /// All streams end with it.
    stop: CancellationToken,
}

/// The streams of one caller.
#[derive(Debug)]
struct Own {
    count: usize,
    stop: CancellationToken,
}

/// One stream's place; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    streams: Streams,
    name: String,
    stop: CancellationToken,
}

impl Streams {
    /// Streams that end with `stop`.
    pub(super) fn until(stop: CancellationToken) -> Self {
        let taken = Arc::default();
        Self { taken, stop }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Own>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there are.
    pub(super) fn taken(&self) -> usize {
        self.lock().values().map(|own| own.count).sum()
    }

    /// Takes a place.
    pub(super) fn sit(&self, caller: &Caller) -> Result<Seat, ProblemResponse> {
        let mut taken = self.lock();
        let own = taken.get(&caller.name).map_or(0, |own| own.count);
        let full = match caller.grants {
            // Every `send` at this machine has one; connections bound them.
            Grants::LocalOwner => false,
            Grants::Scopes(_) => {
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
        let own = taken.entry(caller.name.clone()).or_insert_with(|| Own {
            count: 0,
            stop: self.stop.child_token(),
        });
        own.count += 1;
        Ok(Seat {
            streams: self.clone(),
            name: caller.name.clone(),
            stop: own.stop.clone(),
        })
    }

    /// Ends the streams of a token that is good for nothing any more.
    pub(super) fn end(&self, name: &str) {
        if let Some(own) = self.lock().get_mut(name) {
            let next = self.stop.child_token();
            std::mem::replace(&mut own.stop, next).cancel();
        }
    }
}

impl Seat {
    /// Whoever sits here goes when it is set.
    pub(crate) fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// The token was revoked. Never true of a daemon that stops: whoever only asks for this has another way to end.
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

impl Drop for Seat {
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
        }
    }

    #[test]
    fn threat_22_limits_total_and_caller_streams() {
        let streams = Streams::default();
        let mut seats: Vec<Seat> = (0..STREAMS_PER_CALLER)
            .map(|_| streams.sit(&caller("one")).unwrap())
            .collect();
        assert!(streams.sit(&caller("one")).is_err());
        for n in 0..STREAMS_MAX - STREAMS_PER_CALLER {
            seats.push(streams.sit(&caller(&format!("other {n}"))).unwrap());
        }
        assert!(streams.sit(&caller("late")).is_err());
        let owner = Caller::local_owner(Via::Cli);
        seats.extend((0..STREAMS_MAX).map(|_| streams.sit(&owner).unwrap()));
        assert_eq!(owner.name, LOCAL_OWNER);
        drop(seats);
        assert!(streams.lock().is_empty());
    }

    #[test]
    fn threat_32_revocation_ends_only_own_streams() {
        let streams = Streams::default();
        let (one, two) = (caller("one"), caller("two"));
        let (gone, stays) = (streams.sit(&one).unwrap(), streams.sit(&two).unwrap());
        streams.end("one");
        assert!(gone.stop().is_cancelled() && !stays.stop().is_cancelled());
        let later = streams.sit(&one).unwrap();
        assert!(!later.stop().is_cancelled(), "another token of this name");
        streams.stop.cancel();
        assert!(later.stop().is_cancelled() && stays.stop().is_cancelled());
    }
}
