//! Everything that an A2A call can be told instead of a result, in the words of both bindings (specification 5.4).
//!
//! Which case is which fault is decided where it happens; only how it looks on the wire is here.

use crate::SubmitError;
use a2a::{FieldViolation, TypedDetail, error_code};
use axum::http::StatusCode;
use bridge_core::port::LedgerError;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;

/// When to ask again after the ledger could not be used.
const UNAVAILABLE_FOR: Duration = Duration::from_secs(5);
/// When to ask again after too much waits.
const FULL_FOR: Duration = Duration::from_secs(30);

/// Whose word a reason is that A2A does not have.
const OWN_DOMAIN: &str = "codex-bridge";

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fault {
    kind: Kind,
    message: String,
    /// Facts for programs, in the `metadata` of the error info.
    about: HashMap<String, String>,
    fields: Vec<FieldViolation>,
    retry_after: Option<Duration>,
}

/// The kinds that the specification and JSON-RPC name, and those of an overloaded server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
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
    /// The token was good when the call began.
    Revoked,
    Full,
    /// The caller has stored as much as it may.
    OverBudget,
    NoRoom,
    Unavailable,
    Internal,
}

impl Kind {
    /// The code on JSON-RPC. Bodies that can't be taken now are internal errors there: it has no better word.
    pub(crate) fn code(self) -> i32 {
        match self {
            Self::TaskNotFound => error_code::TASK_NOT_FOUND,
            Self::TaskNotCancelable => error_code::TASK_NOT_CANCELABLE,
            Self::UnsupportedOperation => error_code::UNSUPPORTED_OPERATION,
            Self::ContentTypeNotSupported => error_code::CONTENT_TYPE_NOT_SUPPORTED,
            Self::VersionNotSupported => error_code::VERSION_NOT_SUPPORTED,
            Self::Parse => error_code::PARSE_ERROR,
            Self::InvalidRequest | Self::TooLarge | Self::Revoked => error_code::INVALID_REQUEST,
            Self::MethodNotFound => error_code::METHOD_NOT_FOUND,
            Self::InvalidParams => error_code::INVALID_PARAMS,
            Self::Full | Self::OverBudget | Self::NoRoom | Self::Unavailable | Self::Internal => {
                error_code::INTERNAL_ERROR
            }
        }
    }

    /// The status on HTTP+JSON.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::TaskNotFound | Self::MethodNotFound => StatusCode::NOT_FOUND,
            Self::ContentTypeNotSupported => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TaskNotCancelable
            | Self::UnsupportedOperation
            | Self::VersionNotSupported
            | Self::Parse
            | Self::InvalidRequest
            | Self::InvalidParams => StatusCode::BAD_REQUEST,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Revoked => StatusCode::UNAUTHORIZED,
            Self::Full | Self::OverBudget => StatusCode::TOO_MANY_REQUESTS,
            Self::NoRoom => StatusCode::INSUFFICIENT_STORAGE,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The canonical status word (AIP-193).
    fn as_str(self) -> &'static str {
        match self {
            Self::TaskNotFound | Self::MethodNotFound => "NOT_FOUND",
            Self::TaskNotCancelable | Self::UnsupportedOperation | Self::VersionNotSupported => {
                "FAILED_PRECONDITION"
            }
            Self::ContentTypeNotSupported
            | Self::Parse
            | Self::InvalidRequest
            | Self::InvalidParams
            | Self::TooLarge => "INVALID_ARGUMENT",
            Self::Revoked => "UNAUTHENTICATED",
            Self::Full | Self::OverBudget | Self::NoRoom => "RESOURCE_EXHAUSTED",
            Self::Unavailable => "UNAVAILABLE",
            Self::Internal => "INTERNAL",
        }
    }

    /// The word for programs, and whose word it is.
    fn reason(self) -> (&'static str, &'static str) {
        match self {
            Self::TooLarge => ("REQUEST_TOO_LARGE", OWN_DOMAIN),
            Self::Revoked => ("TOKEN_REVOKED", OWN_DOMAIN),
            Self::Full => ("TOO_MANY_MESSAGES", OWN_DOMAIN),
            Self::OverBudget => ("TOO_MANY_BYTES", OWN_DOMAIN),
            Self::NoRoom => ("NO_ROOM", OWN_DOMAIN),
            Self::Unavailable => ("UNAVAILABLE", OWN_DOMAIN),
            Self::TaskNotFound
            | Self::TaskNotCancelable
            | Self::UnsupportedOperation
            | Self::ContentTypeNotSupported
            | Self::VersionNotSupported
            | Self::Parse
            | Self::InvalidRequest
            | Self::MethodNotFound
            | Self::InvalidParams
            | Self::Internal => (a2a::error_reason(self.code()), a2a::PROTOCOL_DOMAIN),
        }
    }
}

impl Fault {
    fn new(kind: Kind, message: impl Into<String>) -> Self {
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

    /// There is no such task, or it is not the caller's: nobody can tell which.
    pub(crate) fn task_not_found(id: &str) -> Self {
        let message = "there is no task with this id, or it is not yours";
        Self::new(Kind::TaskNotFound, message).about("taskId", id)
    }

    /// There is no such push configuration; the specification has no other word for it.
    pub(crate) fn push_not_found(id: &str, config: &str) -> Self {
        let message = "this task has no push notification configuration with this id";
        Self::new(Kind::TaskNotFound, message)
            .about("taskId", id)
            .about("configId", config)
    }

    /// There is no such file of an answer.
    pub(crate) fn file_not_found(id: &str) -> Self {
        let message = "this task has no such file, or it is not kept any more";
        Self::new(Kind::TaskNotFound, message).about("taskId", id)
    }

    /// It is over.
    pub(crate) fn not_cancelable(id: &str, why: &str) -> Self {
        let message = format!("the task can't be cancelled: {why}");
        Self::new(Kind::TaskNotCancelable, message).about("taskId", id)
    }

    /// What this server does not do, or does not do in this state of a task.
    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(Kind::UnsupportedOperation, message)
    }

    /// A body that is not JSON by its own word.
    pub(crate) fn content_type(got: &str) -> Self {
        let message = format!(
            "the body must be application/json or application/a2a+json, this one says {got}; nothing was done"
        );
        Self::new(Kind::ContentTypeNotSupported, message).about("contentType", got)
    }

    /// A version of the protocol that is not spoken here.
    pub(crate) fn version(asked: &str) -> Self {
        let message = format!(
            "A2A version {asked} is not supported here; supported are 1.0 and, over JSON-RPC, 0.3"
        );
        Self::new(Kind::VersionNotSupported, message)
            .about("requestedVersion", asked)
            .about("supportedVersions", "1.0,0.3")
    }

    /// The body is no JSON.
    pub(crate) fn parse(why: &str) -> Self {
        Self::new(Kind::Parse, format!("the body is not JSON: {why}"))
    }

    /// The JSON is no request.
    pub(crate) fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(Kind::InvalidRequest, message)
    }

    /// There is no such operation.
    pub(crate) fn method_not_found(method: &str) -> Self {
        let message = format!("there is no method {method}");
        Self::new(Kind::MethodNotFound, message).about("method", method)
    }

    /// One field is wrong.
    pub(crate) fn invalid(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self::fields(vec![(field.into(), why.into())])
    }

    /// Fields are wrong, each with what is wrong about it.
    pub(crate) fn fields(fields: Vec<(String, String)>) -> Self {
        let told: Vec<String> = fields
            .iter()
            .map(|(field, why)| format!("{field}: {why}"))
            .collect();
        let message = format!("invalid parameters, nothing was done: {}", told.join("; "));
        let fields = fields
            .into_iter()
            .map(|(field, description)| FieldViolation { field, description })
            .collect();
        Self {
            fields,
            ..Self::new(Kind::InvalidParams, message)
        }
    }

    /// More than we take.
    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(Kind::TooLarge, message)
    }

    /// Whoever waits with a token that is good for nothing any more.
    pub(crate) fn revoked() -> Self {
        let message = "the token was revoked while this call waited; the task goes on, and this caller is told no more";
        Self::new(Kind::Revoked, message)
    }

    /// The token was revoked before anything was done.
    pub(crate) fn revoked_meanwhile(message: impl Into<String>) -> Self {
        Self::new(Kind::Revoked, message)
    }

    /// Something that may be different later.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self {
            retry_after: Some(UNAVAILABLE_FOR),
            ..Self::new(Kind::Unavailable, message)
        }
    }

    /// Too much at once.
    pub(crate) fn full(message: impl Into<String>) -> Self {
        Self {
            retry_after: Some(FULL_FOR),
            ..Self::new(Kind::Full, message)
        }
    }

    /// A bug of ours.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(Kind::Internal, message)
    }

    /// What kind it is.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// When to ask again.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.retry_after
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
            "status": self.kind.as_str(),
            "message": self.message,
            "details": self.details(),
        }})
    }
}

impl From<LedgerError> for Fault {
    fn from(error: LedgerError) -> Self {
        Self::unavailable(format!("the ledger can't be used now: {error}"))
    }
}

impl From<SubmitError> for Fault {
    fn from(error: SubmitError) -> Self {
        let message = error.to_string();
        match error {
            SubmitError::Unfit(why) => Self::invalid("message", why),
            SubmitError::OtherBody => Self::invalid("Idempotency-Key", message),
            SubmitError::Full => Self::full(message),
            // It would never fit.
            SubmitError::OverBudget {
                retry_after: None, ..
            } => Self::too_large(message),
            SubmitError::OverBudget { retry_after, .. } => Self {
                retry_after,
                ..Self::new(Kind::OverBudget, message)
            },
            SubmitError::Revoked => Self::revoked_meanwhile(message),
            SubmitError::NoRoom(_) => Self::new(Kind::NoRoom, message),
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
        let fault = Fault::task_not_found("t");
        let (rpc, rest) = (fault.to_rpc(), fault.to_rest());
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
            let fault = Fault::from(over(secs));
            assert_eq!(fault.kind().status().as_u16(), status);
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
        let rpc = Fault::fields(wrong.into()).to_rpc();
        assert_eq!(rpc["code"], -32602);
        let told = &rpc["data"][1]["fieldViolations"];
        assert_eq!(told[1]["field"], "message.role");
        assert_eq!(told[1]["description"], "missing");
    }

    #[test]
    fn statuses_are_those_of_the_specification() {
        for (fault, code, status) in [
            (Fault::task_not_found("t"), -32001, 404),
            (Fault::not_cancelable("t", "it is over"), -32002, 400),
            (Fault::unsupported("no"), -32004, 400),
            (Fault::version("99.0"), -32009, 400),
            (Fault::invalid("id", "missing"), -32602, 400),
            (Fault::method_not_found("X"), -32601, 404),
        ] {
            let kind = fault.kind();
            assert_eq!((kind.code(), kind.status().as_u16()), (code, status));
        }
    }
}
