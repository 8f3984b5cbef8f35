//! Errors of A2A calls and their form in both bindings (specification 5.4).

use crate::SubmitError;
use a2a::{FieldViolation, TypedDetail, error_code};
use axum::http::{StatusCode, header};
use axum::response::Response;
use bridge_core::port::LedgerError;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;

/// `Retry-After` when the ledger can't be used.
const UNAVAILABLE_FOR: Duration = Duration::from_secs(5);
/// `Retry-After` when too much waits already.
const FULL_FOR: Duration = Duration::from_secs(30);

/// Domain of the reasons that A2A does not define.
const OWN_DOMAIN: &str = "codex-bridge";

/// An HTTP status and its canonical word.
type Canonical = (StatusCode, &'static str);

const NOT_FOUND: Canonical = (StatusCode::NOT_FOUND, "NOT_FOUND");
const INVALID_ARGUMENT: Canonical = (StatusCode::BAD_REQUEST, "INVALID_ARGUMENT");
const FAILED_PRECONDITION: Canonical = (StatusCode::BAD_REQUEST, "FAILED_PRECONDITION");

/// An error of an A2A call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct A2aError {
    kind: A2aErrorKind,
    message: String,
    /// The `metadata` of the error info.
    about: HashMap<String, String>,
    fields: Vec<FieldViolation>,
    retry_after: Option<Duration>,
}

/// The kinds that the specification and JSON-RPC name, and those of an overloaded server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum A2aErrorKind {
    TaskNotFound,
    TaskNotCancelable,
    UnsupportedOperation,
    /// The media type of the HTTP body: HTTP itself has a status for that.
    ContentTypeNotSupported,
    VersionNotSupported,
    Parse,
    InvalidRequest,
    MethodNotFound,
    InvalidParams,
    TooLarge,
    /// The token was revoked during the call.
    Revoked,
    Full,
    /// The caller's storage budget is used up.
    OverBudget,
    NoRoom,
    Unavailable,
    Internal,
}

impl A2aErrorKind {
    /// JSON-RPC code, and HTTP status with its canonical word (AIP-193). JSON-RPC has no code for a body that can't be
    /// taken now: it is an internal error there.
    fn wire(self) -> (i32, Canonical) {
        use error_code as rpc;
        match self {
            Self::TaskNotFound => (rpc::TASK_NOT_FOUND, NOT_FOUND),
            Self::TaskNotCancelable => (rpc::TASK_NOT_CANCELABLE, FAILED_PRECONDITION),
            Self::UnsupportedOperation => (rpc::UNSUPPORTED_OPERATION, FAILED_PRECONDITION),
            Self::ContentTypeNotSupported => {
                let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
                (
                    rpc::CONTENT_TYPE_NOT_SUPPORTED,
                    (status, "INVALID_ARGUMENT"),
                )
            }
            Self::VersionNotSupported => (rpc::VERSION_NOT_SUPPORTED, FAILED_PRECONDITION),
            Self::Parse => (rpc::PARSE_ERROR, INVALID_ARGUMENT),
            Self::InvalidRequest => (rpc::INVALID_REQUEST, INVALID_ARGUMENT),
            Self::MethodNotFound => (rpc::METHOD_NOT_FOUND, NOT_FOUND),
            Self::InvalidParams => (rpc::INVALID_PARAMS, INVALID_ARGUMENT),
            Self::TooLarge => {
                let status = StatusCode::PAYLOAD_TOO_LARGE;
                (rpc::INVALID_REQUEST, (status, "INVALID_ARGUMENT"))
            }
            Self::Revoked => {
                let status = StatusCode::UNAUTHORIZED;
                (rpc::INVALID_REQUEST, (status, "UNAUTHENTICATED"))
            }
            Self::Full | Self::OverBudget => {
                let status = StatusCode::TOO_MANY_REQUESTS;
                (rpc::INTERNAL_ERROR, (status, "RESOURCE_EXHAUSTED"))
            }
            Self::NoRoom => {
                let status = StatusCode::INSUFFICIENT_STORAGE;
                (rpc::INTERNAL_ERROR, (status, "RESOURCE_EXHAUSTED"))
            }
            Self::Unavailable => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                (rpc::INTERNAL_ERROR, (status, "UNAVAILABLE"))
            }
            Self::Internal => {
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                (rpc::INTERNAL_ERROR, (status, "INTERNAL"))
            }
        }
    }

    pub(crate) fn code(self) -> i32 {
        self.wire().0
    }

    pub(crate) fn status(self) -> StatusCode {
        self.wire().1.0
    }

    /// The reason for programs, and its domain: A2A's, or ours where A2A has no reason.
    fn reason(self) -> (&'static str, &'static str) {
        let own = match self {
            Self::TooLarge => "REQUEST_TOO_LARGE",
            Self::Revoked => "TOKEN_REVOKED",
            Self::Full => "TOO_MANY_MESSAGES",
            Self::OverBudget => "TOO_MANY_BYTES",
            Self::NoRoom => "NO_ROOM",
            Self::Unavailable => "UNAVAILABLE",
            _ => return (a2a::error_reason(self.code()), a2a::PROTOCOL_DOMAIN),
        };
        (own, OWN_DOMAIN)
    }
}

impl A2aError {
    fn new(kind: A2aErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            about: HashMap::new(),
            fields: Vec::new(),
            retry_after: None,
        }
    }

    fn about(mut self, name: &str, value: &str) -> Self {
        self.about.insert(name.to_owned(), value.to_owned());
        self
    }

    /// No such task, or not the caller's; the two are indistinguishable on purpose.
    pub(crate) fn task_not_found(id: &str) -> Self {
        let message = "there is no task with this id, or it is not yours";
        Self::new(A2aErrorKind::TaskNotFound, message).about("taskId", id)
    }

    /// No such push configuration; the specification has no other kind for it.
    pub(crate) fn push_not_found(id: &str, config: &str) -> Self {
        let message = "this task has no push notification configuration with this id";
        Self::new(A2aErrorKind::TaskNotFound, message)
            .about("taskId", id)
            .about("configId", config)
    }

    pub(crate) fn file_not_found(id: &str) -> Self {
        let message = "this task has no such file, or it is not kept any more";
        Self::new(A2aErrorKind::TaskNotFound, message).about("taskId", id)
    }

    pub(crate) fn not_cancelable(id: &str, why: &str) -> Self {
        let message = format!("the task can't be cancelled: {why}");
        Self::new(A2aErrorKind::TaskNotCancelable, message).about("taskId", id)
    }

    /// An operation that this server does not offer, or not in this state of the task.
    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(A2aErrorKind::UnsupportedOperation, message)
    }

    pub(crate) fn content_type(got: &str) -> Self {
        let message = format!(
            "the body must be application/json or application/a2a+json, this one says {got}; nothing was done"
        );
        Self::new(A2aErrorKind::ContentTypeNotSupported, message).about("contentType", got)
    }

    pub(crate) fn version(asked: &str) -> Self {
        let message = format!(
            "A2A version {asked} is not supported here; supported are 1.0 and, over JSON-RPC, 0.3"
        );
        Self::new(A2aErrorKind::VersionNotSupported, message)
            .about("requestedVersion", asked)
            .about("supportedVersions", "1.0,0.3")
    }

    /// The body is not JSON.
    pub(crate) fn parse(why: &str) -> Self {
        Self::new(A2aErrorKind::Parse, format!("the body is not JSON: {why}"))
    }

    /// The JSON is not a request.
    pub(crate) fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(A2aErrorKind::InvalidRequest, message)
    }

    pub(crate) fn method_not_found(method: &str) -> Self {
        let message = format!("there is no method {method}");
        Self::new(A2aErrorKind::MethodNotFound, message).about("method", method)
    }

    pub(crate) fn invalid(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self::fields(vec![(field.into(), why.into())])
    }

    /// Several wrong fields, each with the reason.
    pub(crate) fn fields(fields: Vec<(String, String)>) -> Self {
        let reasons: Vec<String> = fields
            .iter()
            .map(|(field, why)| format!("{field}: {why}"))
            .collect();
        let message = format!(
            "invalid parameters, nothing was done: {}",
            reasons.join("; ")
        );
        let fields = fields
            .into_iter()
            .map(|(field, description)| FieldViolation { field, description })
            .collect();
        Self {
            fields,
            ..Self::new(A2aErrorKind::InvalidParams, message)
        }
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(A2aErrorKind::TooLarge, message)
    }

    /// The token was revoked while the call waited for its task.
    pub(crate) fn revoked() -> Self {
        let message =
            "the token was revoked while this call waited; the task goes on without this caller";
        Self::new(A2aErrorKind::Revoked, message)
    }

    /// The token was revoked before anything was done.
    pub(crate) fn revoked_meanwhile(message: impl Into<String>) -> Self {
        Self::new(A2aErrorKind::Revoked, message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self {
            retry_after: Some(UNAVAILABLE_FOR),
            ..Self::new(A2aErrorKind::Unavailable, message)
        }
    }

    pub(crate) fn full(message: impl Into<String>) -> Self {
        Self {
            retry_after: Some(FULL_FOR),
            ..Self::new(A2aErrorKind::Full, message)
        }
    }

    /// A bug in this server.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(A2aErrorKind::Internal, message)
    }

    pub(crate) fn kind(&self) -> A2aErrorKind {
        self.kind
    }

    /// The response with `Retry-After`, where the error has one.
    pub(crate) fn with_retry_after(&self, mut response: Response) -> Response {
        if let Some(after) = self.retry_after {
            let seconds = after.as_secs().max(1);
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }

    fn details(&self) -> Vec<TypedDetail> {
        let about = (!self.about.is_empty()).then(|| self.about.clone());
        let (reason, domain) = self.kind.reason();
        let info = TypedDetail::error_info(reason, domain, about);
        let mut details = vec![info];
        if !self.fields.is_empty() {
            details.push(TypedDetail::bad_request(self.fields.clone()));
        }
        details
    }

    /// The error object of JSON-RPC.
    pub(crate) fn to_rpc(&self) -> Value {
        json!({
            "code": self.kind.code(),
            "message": self.message,
            "data": self.details(),
        })
    }

    /// The body on HTTP+JSON (AIP-193).
    pub(crate) fn to_rest(&self) -> Value {
        json!({"error": {
            "code": self.kind.status().as_u16(),
            "status": self.kind.wire().1.1,
            "message": self.message,
            "details": self.details(),
        }})
    }
}

impl From<LedgerError> for A2aError {
    fn from(error: LedgerError) -> Self {
        Self::unavailable(format!("the database can't be used now: {error}"))
    }
}

impl From<SubmitError> for A2aError {
    fn from(error: SubmitError) -> Self {
        let message = error.to_string();
        match error {
            SubmitError::Unfit(why) => Self::invalid("message", why),
            SubmitError::OtherBody => Self::invalid("Idempotency-Key", message),
            SubmitError::Full => Self::full(message),
            // Larger than the whole budget: a retry would never succeed.
            SubmitError::OverBudget {
                retry_after: None, ..
            } => Self::too_large(message),
            SubmitError::OverBudget { retry_after, .. } => Self {
                retry_after,
                ..Self::new(A2aErrorKind::OverBudget, message)
            },
            SubmitError::Revoked => Self::revoked_meanwhile(message),
            SubmitError::NoRoom(_) => Self::new(A2aErrorKind::NoRoom, message),
            SubmitError::Slow { retry_after, .. } => Self {
                retry_after: Some(retry_after),
                ..Self::unavailable(message)
            },
            SubmitError::Damaged(_) | SubmitError::Stopping | SubmitError::Ledger(_) => {
                Self::unavailable(message)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ProblemResponse;
    use axum::response::IntoResponse;

    #[test]
    fn bindings_report_same_error_reason() {
        let error = A2aError::task_not_found("t");
        let (rpc, rest) = (error.to_rpc(), error.to_rest());
        assert_eq!(rpc["code"], -32001);
        assert_eq!(rest["error"]["code"], 404);
        assert_eq!(rest["error"]["status"], "NOT_FOUND");
        for detail in [&rpc["data"][0], &rest["error"]["details"][0]] {
            assert_eq!(detail["@type"], "type.googleapis.com/google.rpc.ErrorInfo");
            assert_eq!(detail["reason"], "TASK_NOT_FOUND");
            assert_eq!(detail["domain"], "a2a-protocol.org");
            assert_eq!(detail["metadata"]["taskId"], "t");
        }
    }

    #[test]
    fn f4_what_never_fits_is_too_large() {
        let over = |secs: Option<u64>| SubmitError::OverBudget {
            detail: "too much".to_owned(),
            retry_after: secs.map(Duration::from_secs),
        };
        for (secs, status) in [(None, 413), (Some(9), 429)] {
            let error = A2aError::from(over(secs));
            assert_eq!(error.kind().status().as_u16(), status);
            let problem = ProblemResponse::from(over(secs)).into_response();
            assert_eq!(problem.status().as_u16(), status);
        }
    }

    #[test]
    fn wrong_fields_are_named_one_by_one() {
        let wrong = [
            ("message.parts", "at least one"),
            ("message.role", "missing"),
        ];
        let wrong = wrong.map(|(field, why)| (field.to_owned(), why.to_owned()));
        let rpc = A2aError::fields(wrong.into()).to_rpc();
        assert_eq!(rpc["code"], -32602);
        let violations = &rpc["data"][1]["fieldViolations"];
        assert_eq!(violations[1]["field"], "message.role");
        assert_eq!(violations[1]["description"], "missing");
    }

    #[test]
    fn statuses_are_those_of_the_specification() {
        for (error, code, status) in [
            (A2aError::task_not_found("t"), -32001, 404),
            (A2aError::not_cancelable("t", "it is over"), -32002, 400),
            (A2aError::unsupported("no"), -32004, 400),
            (A2aError::version("99.0"), -32009, 400),
            (A2aError::invalid("id", "missing"), -32602, 400),
            (A2aError::method_not_found("X"), -32601, 404),
        ] {
            let kind = error.kind();
            assert_eq!((kind.code(), kind.status().as_u16()), (code, status));
        }
    }
}
