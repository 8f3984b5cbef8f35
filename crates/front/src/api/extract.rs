//! Extractors of handlers: bodies and queries with our limits and error texts, the caller, and pages of lists.

use super::ProblemResponse;
use super::bodies::{BodyError, BodyShare};
use crate::control::Caller;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use bridge_core::limits::{CONVERSATION_KEY_MAX_CHARS, PAGE_MAX};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Answer to a request that bypassed the guard, which can't happen.
pub(super) const UNGUARDED: &str = "nobody looked who calls";

/// A JSON body, read within its deadline.
#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = ProblemResponse;

    async fn from_request(request: Request, state: &S) -> Result<Self, ProblemResponse> {
        let (head, body) = request.into_parts();
        let bytes = read_body(&head, body).await?;
        let request = Request::from_parts(head, axum::body::Body::from(bytes));
        match Json::<T>::from_request(request, state).await {
            Ok(Json(body)) => Ok(Self(body)),
            Err(rejection) => {
                let status = match rejection.status() {
                    StatusCode::UNPROCESSABLE_ENTITY => StatusCode::BAD_REQUEST,
                    other => other,
                };
                Err(ProblemResponse::new(status, rejection.body_text()))
            }
        }
    }
}

/// Reads a body within its caller's share of the budget.
pub(super) async fn read_body(
    head: &Parts,
    body: axum::body::Body,
) -> Result<Bytes, ProblemResponse> {
    // Set by the guard: bodies of unauthenticated requests are not read.
    let share = head.extensions.get::<BodyShare>();
    let share = share.ok_or_else(|| ProblemResponse::unauthorized(UNGUARDED))?;
    share.read(body).await.map_err(ProblemResponse::from)
}

impl From<BodyError> for ProblemResponse {
    fn from(error: BodyError) -> Self {
        let status = match error {
            BodyError::Revoked => return Self::unauthorized(error.to_string()),
            BodyError::TooLong | BodyError::TooManyValues => StatusCode::PAYLOAD_TOO_LARGE,
            BodyError::Late => StatusCode::REQUEST_TIMEOUT,
            BodyError::Broken => StatusCode::BAD_REQUEST,
            BodyError::NoRoom => StatusCode::SERVICE_UNAVAILABLE,
        };
        let problem = Self::new(status, error.to_string());
        match error.retry_after() {
            Some(after) => problem.retry_after(after),
            None => problem,
        }
    }
}

/// Query parameters.
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

/// The caller that the guard identified.
#[derive(Debug)]
pub(crate) struct Who(pub(crate) Caller);

impl<S: Send + Sync> FromRequestParts<S> for Who {
    type Rejection = ProblemResponse;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ProblemResponse> {
        // Only public routes have no caller, and none of those extracts one.
        let caller = parts.extensions.get::<Caller>().cloned();
        let caller = caller.ok_or_else(|| ProblemResponse::unauthorized(UNGUARDED));
        caller.map(Self)
    }
}

/// The `Idempotency-Key` header, if present.
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

/// Default rows per page.
pub(super) const PAGE_DEFAULT: u32 = 50;

/// Which page of a list, newest first.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PageQuery {
    /// How many, at most; 50 when absent.
    #[schemars(range(min = 1, max = PAGE_MAX))]
    limit: Option<u32>,
    /// Older than this one: the `next` of the page before.
    pub(crate) before: Option<String>,
}

impl PageQuery {
    pub(crate) fn new(limit: Option<u32>, before: Option<String>) -> Self {
        Self { limit, before }
    }

    pub(crate) fn limit(&self) -> u32 {
        self.limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX)
    }

    /// The `before` of the following page. A full page may be the last one; then the next is empty.
    pub(crate) fn next<T>(rows: &[T], limit: u32, id: impl Fn(&T) -> String) -> Option<String> {
        match rows.last() {
            Some(last) if rows.len() >= limit as usize => Some(id(last)),
            Some(_) | None => None,
        }
    }
}
