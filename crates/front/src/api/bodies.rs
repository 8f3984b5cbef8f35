//! Request bodies, read within one budget of bytes: what all callers together, and each of them, may hold in memory.
//!
//! The bytes of a body count from before the first of them is read until its request is answered, and so do the values
//! that they become. A body of known length gets its whole room at once, so bodies that are half read never wait for
//! each other.

mod weight;

use super::guard::TokenUse;
use super::limits::{
    BODIES_MAX_BYTES, BODIES_PER_CALLER_BYTES, BODY_DEADLINE, BODY_MAX_BYTES, BODY_ROOM_DEADLINE,
    BODY_UNCOUNTED_BYTES,
};
use crate::control::{Caller, Grants};
use axum::body::{Body, Bytes, HttpBody};
use bridge_core::deadline::after;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// The budget of one daemon.
#[derive(Debug)]
pub(super) struct BodyBudget {
    /// Of all who hold a token.
    tokens: Arc<Semaphore>,
    /// Of the owner at this machine, apart: others can't use it up.
    owner: Arc<Semaphore>,
    /// The share of each caller, while somebody uses it.
    shares: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// The budget that the body of one caller's request counts against.
#[derive(Clone, Debug)]
pub(crate) struct BodyShare {
    own: Arc<Semaphore>,
    /// What it has in common with other callers.
    common: Option<Arc<Semaphore>>,
    /// What the caller came with.
    token: Option<TokenUse>,
    /// The room of this request's body.
    taken: Arc<Mutex<Vec<Room>>>,
}

/// Why a body was not read; nothing was done then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the body is longer than {BODY_MAX_BYTES} bytes; nothing was done")]
    TooLong,
    #[error("the body did not arrive in time; nothing was done, send it again")]
    Late,
    #[error("the body did not arrive whole; nothing was done, send it again")]
    Broken,
    #[error(
        "too many long bodies are being received; nothing was done, send it again in a few seconds"
    )]
    NoRoom,
    #[error(
        "the body has more than {} JSON values, where an object counts as several; nothing was done, send less at once",
        weight::VALUES_MAX
    )]
    TooManyValues,
    #[error("the token was revoked while the body arrived; nothing was done")]
    Revoked,
}

impl BodyError {
    /// When to send it again, where that helps.
    pub(crate) fn retry_after(self) -> Option<Duration> {
        (self == Self::NoRoom).then_some(BODY_ROOM_DEADLINE)
    }
}

impl Default for BodyBudget {
    fn default() -> Self {
        Self {
            tokens: Arc::new(Semaphore::new(BODIES_MAX_BYTES)),
            owner: Arc::new(Semaphore::new(BODIES_MAX_BYTES)),
            shares: Mutex::default(),
        }
    }
}

impl BodyBudget {
    /// The share of this caller.
    pub(super) fn of(&self, caller: &Caller) -> BodyShare {
        if caller.grants == Grants::LocalOwner {
            return BodyShare {
                own: Arc::clone(&self.owner),
                common: None,
                token: None,
                taken: Arc::default(),
            };
        }
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        let used = shares.get(&caller.name).and_then(Weak::upgrade);
        let own = used.unwrap_or_else(|| {
            shares.retain(|_, share| share.strong_count() > 0);
            let share = Arc::new(Semaphore::new(BODIES_PER_CALLER_BYTES));
            shares.insert(caller.name.clone(), Arc::downgrade(&share));
            share
        });
        BodyShare {
            own,
            common: Some(Arc::clone(&self.tokens)),
            token: None,
            taken: Arc::default(),
        }
    }
}

/// Room for some bytes of one body.
type Room = (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>);

impl BodyShare {
    /// A share that nobody else uses.
    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        Self {
            own: Arc::new(Semaphore::new(BODIES_PER_CALLER_BYTES)),
            common: None,
            token: None,
            taken: Arc::default(),
        }
    }

    /// The share of a caller that came with this token: once that is revoked, no body counts.
    pub(super) fn with_token(self, token: Option<TokenUse>) -> Self {
        Self { token, ..self }
    }

    /// Gives the room back before the request is over: nothing of its body is in memory any more.
    pub(crate) fn release(&self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.clear();
    }

    /// Reads a body to its end. Its room is taken until the request is over, or the reading fails.
    pub(crate) async fn read(&self, mut body: Body) -> Result<Bytes, BodyError> {
        let hint = body.size_hint();
        if hint.lower() > BODY_MAX_BYTES as u64 {
            return Err(BodyError::TooLong);
        }
        let length = hint.exact().and_then(|length| usize::try_from(length).ok());
        let mut rooms = Vec::new();
        let mut room = BODY_UNCOUNTED_BYTES;
        if let Some(length) = length.filter(|length| *length > room) {
            rooms.push(self.take(length).await?);
            room = length;
        }
        let mut bytes = Vec::with_capacity(length.unwrap_or_default());
        let mut deadline = after(Instant::now(), BODY_DEADLINE);
        while let Some(data) = next_data(&mut body, deadline).await? {
            let needed = bytes.len() + data.len();
            if needed > BODY_MAX_BYTES {
                return Err(BodyError::TooLong);
            }
            if needed > room {
                // Of unknown length: its room doubles, so a few steps do.
                let wanted = (needed * 2).min(BODY_MAX_BYTES);
                let before = Instant::now();
                rooms.push(self.take(wanted - room).await?);
                room = wanted;
                // The sender is not to blame for this wait.
                deadline = after(deadline, before.elapsed());
            }
            bytes.extend_from_slice(&data);
        }
        if self.token.as_ref().is_some_and(TokenUse::is_revoked) {
            return Err(BodyError::Revoked);
        }
        let values = weight::of(&bytes).map_err(|_| BodyError::TooManyValues)?;
        if values > room {
            rooms.push(self.take(values - room).await?);
        }
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.extend(rooms);
        Ok(Bytes::from(bytes))
    }

    /// Takes room from the caller's own share first: whoever has used that up waits without keeping others waiting.
    async fn take(&self, bytes: usize) -> Result<Room, BodyError> {
        let deadline = after(Instant::now(), BODY_ROOM_DEADLINE);
        let count = u32::try_from(bytes).map_err(|_| BodyError::TooLong)?;
        let take = async |semaphore: &Arc<Semaphore>| {
            let taken = Arc::clone(semaphore).acquire_many_owned(count);
            match timeout_at(deadline, taken).await {
                Ok(Ok(room)) => Ok(room),
                Ok(Err(_)) | Err(_) => Err(BodyError::NoRoom),
            }
        };
        let own = take(&self.own).await?;
        let common = match &self.common {
            Some(common) => Some(take(common).await?),
            None => None,
        };
        Ok((own, common))
    }
}

/// The next bytes of a body; `None` at its end.
async fn next_data(body: &mut Body, deadline: Instant) -> Result<Option<Bytes>, BodyError> {
    loop {
        let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
        match timeout_at(deadline, frame).await {
            Err(_) => return Err(BodyError::Late),
            Ok(None) => return Ok(None),
            Ok(Some(Err(_))) => return Err(BodyError::Broken),
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => return Ok(Some(data)),
                Err(_trailers) => {}
            },
        }
    }
}

#[cfg(test)]
mod tests;
