//! Errors of the API as RFC 9457 problems: what happened, what it means, what to do.

use crate::{Problem, SubmitError};
use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bridge_core::port::LedgerError;
use std::time::Duration;

/// A problem on its way out.
#[derive(Debug)]
pub(super) struct ProblemResponse {
    status: StatusCode,
    detail: String,
    /// The message it is about, and where that one is.
    about: Option<(String, String)>,
    retry_after: Option<Duration>,
}

impl ProblemResponse {
    fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            status,
            detail: detail.into(),
            about: None,
            retry_after: None,
        }
    }

    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// The message is somewhere else in its life.
    pub(super) fn conflict(detail: String, message_id: String, state: String) -> Self {
        Self {
            about: Some((message_id, state)),
            ..Self::new(StatusCode::CONFLICT, detail)
        }
    }

    pub(super) fn method_not_allowed() -> Self {
        let detail = "this route does not take that method";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, detail)
    }

    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(super) fn ambiguous(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, detail)
    }

    pub(super) fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    }
}

impl From<LedgerError> for ProblemResponse {
    fn from(error: LedgerError) -> Self {
        Self::unavailable(format!("the ledger can't be used now: {error}"))
    }
}

impl From<SubmitError> for ProblemResponse {
    fn from(error: SubmitError) -> Self {
        let status = match &error {
            SubmitError::Unfit(_) => StatusCode::UNPROCESSABLE_ENTITY,
            SubmitError::Full => StatusCode::TOO_MANY_REQUESTS,
            SubmitError::NoRoom(_) => StatusCode::INSUFFICIENT_STORAGE,
            SubmitError::Slow { .. }
            | SubmitError::Damaged(_)
            | SubmitError::Stopping
            | SubmitError::Ledger(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        let retry_after = match &error {
            SubmitError::Slow { retry_after, .. } => Some(*retry_after),
            SubmitError::Unfit(_)
            | SubmitError::Full
            | SubmitError::NoRoom(_)
            | SubmitError::Damaged(_)
            | SubmitError::Stopping
            | SubmitError::Ledger(_) => None,
        };
        Self {
            retry_after,
            ..Self::new(status, error.to_string())
        }
    }
}

impl IntoResponse for ProblemResponse {
    fn into_response(self) -> Response {
        let Self {
            status,
            detail,
            about,
            retry_after,
        } = self;
        let (message_id, state) = about.unzip();
        let problem = Problem {
            title: status.canonical_reason().unwrap_or("Error").to_owned(),
            status: status.as_u16(),
            detail,
            message_id,
            state,
        };
        let mut response = (status, Json(problem)).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        if let Some(after) = retry_after {
            let seconds = HeaderValue::from(after.as_secs().max(1));
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        response
    }
}
