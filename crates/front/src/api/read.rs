//! What requests carry, read with our limits and refused in our words: bodies, queries, who calls.

use super::ProblemResponse;
use super::limits::{BODY_DEADLINE, BODY_MAX_BYTES};
use crate::control::Caller;
use axum::Json;
use axum::body::HttpBody;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use bridge_core::limits::CONVERSATION_KEY_MAX_CHARS;
use serde::de::DeserializeOwned;

/// A JSON body that came in time.
#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = ProblemResponse;

    async fn from_request(request: Request, state: &S) -> Result<Self, ProblemResponse> {
        // Said at once, and not only when so much has come.
        let length = request.body().size_hint().lower();
        if length > BODY_MAX_BYTES as u64 {
            return Err(ProblemResponse::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the body is longer than {BODY_MAX_BYTES} bytes; nothing was done"),
            ));
        }
        let read = Json::<T>::from_request(request, state);
        match tokio::time::timeout(BODY_DEADLINE, read).await {
            Ok(Ok(Json(body))) => Ok(Self(body)),
            Ok(Err(rejection)) => {
                let status = match rejection.status() {
                    StatusCode::UNPROCESSABLE_ENTITY => StatusCode::BAD_REQUEST,
                    other => other,
                };
                Err(ProblemResponse::new(status, rejection.body_text()))
            }
            Err(_) => Err(ProblemResponse::new(
                StatusCode::REQUEST_TIMEOUT,
                "the body did not arrive in time; nothing was done, send it again",
            )),
        }
    }
}

/// What is behind the `?`.
#[derive(Debug)]
pub(crate) struct Params<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = ProblemResponse;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ProblemResponse> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(params)) => Ok(Self(params)),
            Err(rejection) => Err(ProblemResponse::bad_request(rejection.body_text())),
        }
    }
}

/// Who calls: whoever the guard found out.
#[derive(Debug)]
pub(crate) struct Who(pub(crate) Caller);

impl<S: Send + Sync> FromRequestParts<S> for Who {
    type Rejection = ProblemResponse;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ProblemResponse> {
        // Only a public route has no caller, and none of those asks for one.
        let caller = parts.extensions.get::<Caller>().cloned();
        let caller = caller.ok_or_else(|| ProblemResponse::unauthorized("nobody looked who calls"));
        caller.map(Self)
    }
}

/// The sender's own id for what it wants done, if it gave one: a printable name, like all keys.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ProblemResponse> {
    let mut keys = headers.get_all("idempotency-key").iter();
    let Some(key) = keys.next() else {
        return Ok(None);
    };
    let text = key.to_str().ok().map(str::trim);
    match text {
        Some(text)
            if keys.next().is_none()
                && !text.is_empty()
                && text.chars().count() <= CONVERSATION_KEY_MAX_CHARS =>
        {
            Ok(Some(text.to_owned()))
        }
        Some(_) | None => Err(ProblemResponse::bad_request(format!(
            "Idempotency-Key must be given once, as 1 to {CONVERSATION_KEY_MAX_CHARS} printable characters"
        ))),
    }
}
