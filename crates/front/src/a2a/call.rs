//! What every call has beside its request: made from the connection and its headers.

use super::fault::Fault;
use super::ops::Call;
use super::{hear, rest, speak};
use crate::api::{Context, Seat};
use crate::{Caller, Desk, Via};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use tokio_util::sync::CancellationToken;

impl<D: Desk> Call<D> {
    /// A call with this head.
    pub(super) fn new(
        context: Context<D>,
        caller: Caller,
        head: &Parts,
        gone: CancellationToken,
    ) -> Result<Self, Fault> {
        let profile = context.desk.a2a();
        if !profile.enabled {
            return Err(rest::off());
        }
        Ok(Self {
            version: speak::version(&head.headers, &head.uri)?,
            base: speak::base(&profile, &head.headers, &head.uri),
            key: key(&head.headers)?,
            after: after(&head.headers),
            gone,
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

/// Answers a request on a task of its own, from its body on: a connection that ends takes along whatever it runs, also
/// what was sent whole and is not on disk yet. `act` is told when the caller hung up, and waits for nothing then.
pub(super) async fn to_the_end<F>(act: impl FnOnce(CancellationToken) -> F) -> Response
where
    F: Future<Output = Response> + Send + 'static,
{
    let gone = CancellationToken::new();
    let _until_hung_up = gone.clone().drop_guard();
    let answered = tokio::spawn(act(gone)).await;
    answered.unwrap_or_else(|error| match error.try_into_panic() {
        // Counted where those of all handlers are.
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_stopping) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    })
}

fn key(headers: &HeaderMap) -> Result<Option<String>, Fault> {
    let mut keys = headers.get_all("idempotency-key").iter();
    match (keys.next(), keys.next()) {
        (None, _) => Ok(None),
        (Some(key), None) => hear::key(key.to_str().ok(), "Idempotency-Key").map(Some),
        (Some(_), Some(_)) => Err(Fault::invalid("Idempotency-Key", "is given twice")),
    }
}

fn after(headers: &HeaderMap) -> Option<u64> {
    let id = headers.get("last-event-id")?;
    id.to_str().ok()?.trim().parse().ok()
}
