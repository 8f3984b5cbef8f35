//! Builds the context of a call from its connection and headers.

use super::error::A2aError;
use super::ops::Call;
use super::{extension, negotiate, parse, rest};
use crate::api::{BodyShare, Context, Gone, StreamPermit};
use crate::{BridgeService, Caller, Via};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use tokio_util::sync::CancellationToken;

impl<D: BridgeService> Call<D> {
    pub(super) fn new(context: Context<D>, caller: Caller, head: &Parts) -> Result<Self, A2aError> {
        let profile = context.service.a2a();
        if !profile.enabled {
            return Err(rest::off());
        }
        Ok(Self {
            version: negotiate::version(&head.headers, &head.uri)?,
            base: negotiate::base(&profile, &head.headers, &head.uri),
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

    /// A permit for a connection that stays open.
    pub(super) fn stream_permit(&self) -> Result<StreamPermit, A2aError> {
        self.context.stream_permit(&self.caller).ok_or_else(|| {
            let why = "too many calls wait or stream already; nothing was done, ask again later";
            A2aError::unavailable(why)
        })
    }
}

fn key(headers: &HeaderMap) -> Result<Option<String>, A2aError> {
    let mut keys = headers.get_all("idempotency-key").iter();
    match (keys.next(), keys.next()) {
        (None, _) => Ok(None),
        (Some(key), None) => parse::key(key.to_str().ok(), "Idempotency-Key").map(Some),
        (Some(_), Some(_)) => Err(A2aError::invalid("Idempotency-Key", "is given twice")),
    }
}

/// The last event that a subscriber has. Used only with our resume extension: the specification promises the whole task
/// first to everybody else, and SSE libraries send this header by themselves.
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
