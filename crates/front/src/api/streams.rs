//! The places of event streams: how many there may be, in all and for one caller.

use super::ProblemResponse;
use super::limits::{STREAMS_MAX, STREAMS_PER_CALLER};
use crate::control::{Caller, Grants};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What [`Caller::local_owner`] is called; no token can be called so.
const LOCAL_OWNER: &str = "local owner";

/// Who streams how often.
#[derive(Clone, Debug, Default)]
pub(super) struct Streams(Arc<Mutex<HashMap<String, usize>>>);

/// One stream's place; free again when it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    streams: Streams,
    name: String,
}

impl Streams {
    /// How many there are.
    pub(super) fn taken(&self) -> usize {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.values().sum()
    }

    /// Takes a place.
    pub(super) fn sit(&self, caller: &Caller) -> Result<Seat, ProblemResponse> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.get(&caller.name).copied().unwrap_or(0);
        let full = match caller.grants {
            // Every `send` at this machine has one; connections bound them.
            Grants::LocalOwner => false,
            Grants::Scopes(_) => {
                let others = taken.iter().filter(|(name, _)| *name != LOCAL_OWNER);
                let all: usize = others.map(|(_, count)| count).sum();
                own >= STREAMS_PER_CALLER || all >= STREAMS_MAX
            }
        };
        if full {
            return Err(ProblemResponse::unavailable(
                "too many event streams are open; close one, or ask again later",
            ));
        }
        taken.insert(caller.name.clone(), own + 1);
        Ok(Seat {
            streams: self.clone(),
            name: caller.name.clone(),
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self
            .streams
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match taken.get_mut(&self.name) {
            Some(own) if *own > 1 => *own -= 1,
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
            grants: Grants::Scopes(Vec::new()),
        }
    }

    #[test]
    fn threat_22_streams_are_counted_in_all_and_per_caller() {
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
        assert!(streams.0.lock().unwrap().is_empty());
    }
}
