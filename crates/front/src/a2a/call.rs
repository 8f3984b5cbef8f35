//! What every call has beside its request: made from the connection and its headers.

use super::fault::Fault;
use super::ops::Call;
use super::{extension, hear, rest, speak};
use crate::api::{BodyShare, Context, Gone, Seat};
use crate::{BridgeService, Caller, Via};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use tokio_util::sync::CancellationToken;

impl<D: BridgeService> Call<D> {
    /// A call with this head.
    pub(super) fn new(context: Context<D>, caller: Caller, head: &Parts) -> Result<Self, Fault> {
        let profile = context.service.a2a();
        if !profile.enabled {
            return Err(rest::off());
        }
        Ok(Self {
            version: speak::version(&head.headers, &head.uri)?,
            base: speak::base(&profile, &head.headers, &head.uri),
            key: key(&head.headers)?,
            after: after(&head.headers),
            gone: head
                .extensions
                .get::<Gone>()
                .map_or_else(CancellationToken::new, |gone| gone.0.clone()),
            room: head.extensions.get::<BodyShare>().cloned(),
            caller: Caller {
                via: Via::A2a,
                ..caller
            },
            context,
        })
    }

    /// A place among those whose connection is kept open.
    pub(super) fn sit(&self) -> Result<Seat, Fault> {
        self.context.sit(&self.caller).ok_or_else(|| {
            let why = "too many calls wait or stream already; nothing was done, ask again later";
            Fault::unavailable(why)
        })
    }
}

fn key(headers: &HeaderMap) -> Result<Option<String>, Fault> {
    let mut keys = headers.get_all("idempotency-key").iter();
    match (keys.next(), keys.next()) {
        (None, _) => Ok(None),
        (Some(key), None) => hear::key(key.to_str().ok(), "Idempotency-Key").map(Some),
        (Some(_), Some(_)) => Err(Fault::invalid("Idempotency-Key", "is given twice")),
    }
}

/// The last event that a subscriber has. It counts for whoever asks for our way to go on alone: everybody else is
/// promised the task first, and libraries send this header by themselves.
fn after(headers: &HeaderMap) -> Option<u64> {
    let mut asked = headers.get_all("a2a-extensions").iter();
    let resumes = asked.any(|asked| {
        let asked = asked.to_str().unwrap_or_default();
        asked.split(',').any(|uri| uri.trim() == extension::RESUME)
    });
    if !resumes {
        return None;
    }
    let id = headers.get("last-event-id")?;
    id.to_str().ok()?.trim().parse().ok()
}
