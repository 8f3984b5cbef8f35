//! Errors of the API as RFC 9457 problems: what happened, what it means, what to do.

use crate::{Problem, SubmitError};
use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bridge_core::port::LedgerError;

/// A problem on its way out.
#[derive(Debug)]
pub(super) struct ProblemResponse(StatusCode, String);

impl ProblemResponse {
    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self(StatusCode::NOT_FOUND, detail.into())
    }

    pub(super) fn method_not_allowed() -> Self {
        let detail = "this route does not take that method".to_owned();
        Self(StatusCode::METHOD_NOT_ALLOWED, detail)
    }

    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Self(StatusCode::BAD_REQUEST, detail.into())
    }

    pub(super) fn ambiguous(detail: impl Into<String>) -> Self {
        Self(StatusCode::CONFLICT, detail.into())
    }

    pub(super) fn unavailable(detail: impl Into<String>) -> Self {
        Self(StatusCode::SERVICE_UNAVAILABLE, detail.into())
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
            SubmitError::Stopping | SubmitError::Ledger(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self(status, error.to_string())
    }
}

impl IntoResponse for ProblemResponse {
    fn into_response(self) -> Response {
        let Self(status, detail) = self;
        let problem = Problem {
            title: status.canonical_reason().unwrap_or("Error").to_owned(),
            status: status.as_u16(),
            detail,
        };
        let mut response = (status, Json(problem)).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}
