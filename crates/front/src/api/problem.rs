//! Errors of the API as RFC 9457 problems: what happened, what it means, what to do.

use crate::control::{ControlError, Scope};
use crate::{Problem, SubmitError};
use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bridge_core::port::LedgerError;
use std::time::Duration;

/// `Retry-After` when the ledger can't be read.
const UNSURE_FOR: Duration = Duration::from_secs(5);

/// A problem response.
#[derive(Debug)]
pub(crate) struct ProblemResponse {
    status: StatusCode,
    detail: String,
    challenge: Option<Challenge>,
    /// The message it is about, and its state.
    about: Option<(String, String)>,
    retry_after: Option<Duration>,
}

/// `WWW-Authenticate` challenge.
#[derive(Clone, Copy, Debug)]
enum Challenge {
    Token,
    Scope(Scope),
}

impl ProblemResponse {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            status,
            detail: detail.into(),
            challenge: None,
            about: None,
            retry_after: None,
        }
    }

    #[cfg(test)]
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// Whether it says that this one request can't be done, and not how the daemon is.
    pub(crate) fn is_about_the_request(&self) -> bool {
        matches!(
            self.status,
            StatusCode::BAD_REQUEST
                | StatusCode::NOT_FOUND
                | StatusCode::CONFLICT
                | StatusCode::UNPROCESSABLE_ENTITY
        )
    }

    pub(crate) fn into_detail(self) -> String {
        self.detail
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// The message is in a state that does not allow it.
    pub(crate) fn conflict(detail: String, message_id: String, state: String) -> Self {
        Self {
            about: Some((message_id, state)),
            ..Self::new(StatusCode::CONFLICT, detail)
        }
    }

    pub(crate) fn method_not_allowed() -> Self {
        let detail = "this route does not take that method";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, detail)
    }

    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(crate) fn unprocessable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    pub(crate) fn ambiguous(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, detail)
    }

    pub(crate) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, detail)
    }

    pub(crate) fn unauthorized(detail: impl Into<String>) -> Self {
        Self {
            challenge: Some(Challenge::Token),
            ..Self::new(StatusCode::UNAUTHORIZED, detail)
        }
    }

    /// The token can't be checked because the ledger can't be read. Not 401: the client should keep its token.
    pub(crate) fn unsure() -> Self {
        Self {
            retry_after: Some(UNSURE_FOR),
            ..Self::unavailable(
                "the database can't be read now, so that nobody knows whose token this is; nothing was done, ask again later",
            )
        }
    }

    /// Sets `Retry-After`.
    pub(crate) fn retry_after(self, after: Duration) -> Self {
        Self {
            retry_after: Some(after),
            ..self
        }
    }

    /// Names the missing scope.
    pub(crate) fn needing(self, scope: Scope) -> Self {
        Self {
            challenge: Some(Challenge::Scope(scope)),
            ..self
        }
    }

    /// A rate limit; nothing was done.
    pub(crate) fn too_many(what: &str, wait: Duration) -> Self {
        let seconds = wait.as_secs().saturating_add(1);
        let detail = format!("{what}; nothing was done, ask again in {seconds} s");
        Self {
            retry_after: Some(Duration::from_secs(seconds)),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, detail)
        }
    }

    /// A bug in this server.
    pub(crate) fn bug() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the bridge has a bug here; what you asked for may have been done: look before you ask again",
        )
    }

    pub(crate) fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    }
}

impl From<LedgerError> for ProblemResponse {
    fn from(error: LedgerError) -> Self {
        if error.is_unreadable() {
            return Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                ControlError::unreadable(&error),
            );
        }
        Self::unavailable(format!("the database can't be used now: {error}"))
    }
}

impl From<SubmitError> for ProblemResponse {
    fn from(error: SubmitError) -> Self {
        let status = match &error {
            SubmitError::Unfit(_) | SubmitError::OtherBody => StatusCode::UNPROCESSABLE_ENTITY,
            // Larger than the whole budget: a retry would never succeed.
            SubmitError::OverBudget {
                retry_after: None, ..
            } => StatusCode::PAYLOAD_TOO_LARGE,
            SubmitError::Full | SubmitError::OverBudget { .. } => StatusCode::TOO_MANY_REQUESTS,
            SubmitError::Revoked => return Self::unauthorized(error.to_string()),
            SubmitError::NoRoom(_) => StatusCode::INSUFFICIENT_STORAGE,
            SubmitError::Slow { .. }
            | SubmitError::Damaged(_)
            | SubmitError::Stopping
            | SubmitError::Ledger(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        let retry_after = match &error {
            SubmitError::Slow { retry_after, .. } => Some(*retry_after),
            SubmitError::OverBudget { retry_after, .. } => *retry_after,
            _ => None,
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
            challenge,
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
        if let Some(Ok(challenge)) = challenge.map(|challenge| challenge.header().try_into()) {
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

impl Challenge {
    fn header(self) -> String {
        let realm = r#"Bearer realm="codex-bridge""#;
        match self {
            Self::Token => realm.to_owned(),
            Self::Scope(scope) => {
                let scope = scope.as_str();
                format!(r#"{realm}, error="insufficient_scope", scope="{scope}""#)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_core::port::RowsError;

    #[test]
    fn unreadable_row_is_no_outage() {
        let rows = RowsError::Unreadable {
            what: "message m1".to_owned(),
            why: "unknown state".to_owned(),
        };
        let problem = ProblemResponse::from(LedgerError::Rows(rows));
        assert_eq!(problem.status, StatusCode::INTERNAL_SERVER_ERROR);
        for word in ["message m1", "codex-bridge doctor", "codex-bridge recover"] {
            assert!(problem.detail.contains(word), "{}", problem.detail);
        }
        let away = LedgerError::Unavailable {
            what: "it is gone".to_owned(),
        };
        let problem = ProblemResponse::from(away);
        assert_eq!(problem.status, StatusCode::SERVICE_UNAVAILABLE);
    }
}
