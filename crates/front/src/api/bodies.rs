//! Reads request bodies within a budget of memory, in total and per caller.
//!
//! A body counts from before its first byte is read until its request is answered, and so do the values parsed from it.
//! A body of known length reserves all of its memory at once, so that half-read bodies never wait for each other.
//!
//! The memory of parsed JSON is estimated before it is parsed: values take much more than their bytes, an empty list eleven
//! times as much.

use super::guard::TokenUse;
use super::limits::{
    BODIES_MAX_BYTES, BODIES_PER_CALLER_BYTES, BODY_DEADLINE, BODY_MAX_BYTES, BODY_ROOM_DEADLINE,
    BODY_UNCOUNTED_BYTES,
};
use crate::control::{Caller, Grants};
use crate::lock;
use axum::body::{Body, Bytes, HttpBody};
use bridge_core::deadline::after;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// The budget of one daemon.
#[derive(Debug)]
pub(super) struct BodyBudget {
    /// Shared by all token holders.
    tokens: Arc<Semaphore>,
    /// Of the local owner, separate so that others can't use it up.
    owner: Arc<Semaphore>,
    /// Per caller, while in use.
    shares: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// The budget of one caller's request.
#[derive(Clone, Debug)]
pub(crate) struct BodyShare {
    own: Arc<Semaphore>,
    /// The budget shared with other callers.
    common: Option<Arc<Semaphore>>,
    /// The token of the request.
    token: Option<TokenUse>,
    /// Memory reserved for this request's body.
    taken: Arc<Mutex<Vec<Reservation>>>,
}

/// Why a body was not read. Nothing was done.
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
        VALUES_MAX
    )]
    TooManyValues,
    #[error("the token was revoked while the body arrived; nothing was done")]
    Revoked,
}

impl BodyError {
    /// When to retry, if that can help.
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
    /// The budget of this caller.
    pub(super) fn of(&self, caller: &Caller) -> BodyShare {
        if caller.grants == Grants::LocalOwner {
            return BodyShare {
                own: Arc::clone(&self.owner),
                common: None,
                token: None,
                taken: Arc::default(),
            };
        }
        let mut shares = lock(&self.shares);
        let used = shares.get(caller.credential()).and_then(Weak::upgrade);
        let own = used.unwrap_or_else(|| {
            shares.retain(|_, share| share.strong_count() > 0);
            let share = Arc::new(Semaphore::new(BODIES_PER_CALLER_BYTES));
            shares.insert(caller.credential().to_owned(), Arc::downgrade(&share));
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

/// Memory reserved for one body.
type Reservation = (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>);

impl BodyShare {
    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        Self {
            own: Arc::new(Semaphore::new(BODIES_PER_CALLER_BYTES)),
            common: None,
            token: None,
            taken: Arc::default(),
        }
    }

    /// Ties the share to the request's token: once it is revoked, bodies are refused.
    pub(super) fn with_token(self, token: Option<TokenUse>) -> Self {
        Self { token, ..self }
    }

    /// Releases the memory early, when nothing of the body is in memory any more.
    pub(crate) fn release(&self) {
        let mut taken = lock(&self.taken);
        taken.clear();
    }

    /// Reads a whole body. Its memory stays reserved until the request ends or the read fails.
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
                // Unknown length: double the reservation, so that few steps suffice.
                let wanted = (needed * 2).min(BODY_MAX_BYTES);
                let before = Instant::now();
                rooms.push(self.take(wanted - room).await?);
                room = wanted;
                // Waiting for room does not count against the sender's deadline.
                deadline = after(deadline, before.elapsed());
            }
            bytes.extend_from_slice(&data);
        }
        if self.token.as_ref().is_some_and(TokenUse::is_revoked) {
            return Err(BodyError::Revoked);
        }
        let values = values_memory(&bytes).map_err(|_| BodyError::TooManyValues)?;
        if values > room {
            rooms.push(self.take(values - room).await?);
        }
        let mut taken = lock(&self.taken);
        taken.extend(rooms);
        Ok(Bytes::from(bytes))
    }

    /// Reserves from the caller's own share first, so that a caller that has used it up does not hold shared memory while
    /// it waits.
    async fn take(&self, bytes: usize) -> Result<Reservation, BodyError> {
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

/// The next chunk of a body; `None` at its end.
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

/// Values in one body.
const VALUES_MAX: usize = 100_000;
/// Memory of one value, with the spare capacity of a growing list.
const VALUE_BYTES: usize = 80;
/// Values that an object counts as: its table has room for eleven entries, however few there are.
const OBJECT_VALUES: usize = 8;

/// The body has too many values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TooManyValues;

/// The memory that the values of a body take. Invalid JSON counts up to its error, which the parser reports later.
fn values_memory(json: &[u8]) -> Result<usize, TooManyValues> {
    let mut values = 0;
    let mut reader = serde_json::Deserializer::from_slice(json);
    let _readable = ValueCount(&mut values).deserialize(&mut reader);
    if values > VALUES_MAX {
        Err(TooManyValues)
    } else {
        Ok(values.saturating_mul(VALUE_BYTES))
    }
}

/// Counts a value and those in it.
struct ValueCount<'c>(&'c mut usize);

impl ValueCount<'_> {
    fn add<E: Error>(&mut self, values: usize) -> Result<(), E> {
        *self.0 = self.0.saturating_add(values);
        if *self.0 > VALUES_MAX {
            Err(E::custom("too many values"))
        } else {
            Ok(())
        }
    }
}

impl<'de> DeserializeSeed<'de> for ValueCount<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(mut self, reader: D) -> Result<(), D::Error> {
        self.add(1)?;
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueCount<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(ValueCount(&mut *self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut object: A) -> Result<(), A::Error> {
        self.add(OBJECT_VALUES)?;
        while object.next_key::<IgnoredAny>()?.is_some() {
            object.next_value_seed(ValueCount(&mut *self.0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
