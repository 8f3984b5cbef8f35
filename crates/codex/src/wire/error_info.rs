//! Codex's own name for what went wrong in a turn, and what it hints at.
//!
//! Whether to try again is decided elsewhere.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// `codexErrorInfo`: a word, or an object with one key and perhaps an HTTP status. Codex may give none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ErrorInfo {
    name: Option<String>,
    status: Option<u16>,
}

/// The kind of error, by its name, status and text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClassHint {
    /// Login missing or refused.
    Auth,
    /// Too many requests; try again soon.
    RateLimited,
    /// The plan or the quota is used up; try again after the reset.
    UsageLimit,
    /// The model's server is in trouble.
    ServerError,
    /// The connection to the model broke.
    Stream,
    /// The thread no longer fits into the model's context.
    ContextWindow,
    /// Codex could not set up its sandbox.
    Sandbox,
    /// The model refused the request as it is; the same one will fail again.
    BadRequest,
    Other,
}

/// Names that come as a plain word, and what they mean.
const WORDS: [(&str, ClassHint); 10] = [
    ("contextWindowExceeded", ClassHint::ContextWindow),
    ("sessionBudgetExceeded", ClassHint::UsageLimit),
    ("usageLimitExceeded", ClassHint::UsageLimit),
    ("rateLimitExceeded", ClassHint::RateLimited),
    ("serverOverloaded", ClassHint::ServerError),
    ("modelNotFound", ClassHint::BadRequest),
    ("internalServerError", ClassHint::ServerError),
    ("unauthorized", ClassHint::Auth),
    ("badRequest", ClassHint::BadRequest),
    ("sandboxError", ClassHint::Sandbox),
];

impl ErrorInfo {
    /// Names that come as the one key of an object with `httpStatusCode`.
    pub const OBJECTS: &'static [&'static str] = &[
        "httpConnectionFailed",
        "responseStreamConnectionFailed",
        "responseStreamDisconnected",
        "responseTooManyFailedAttempts",
    ];

    /// Names that come as a plain word.
    pub fn words() -> Vec<&'static str> {
        WORDS.iter().map(|(word, _)| *word).collect()
    }

    /// A name without an HTTP status.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: Some(name.into()),
            status: None,
        }
    }

    /// Sorts the error. 0.166 says `other` for HTTP 400, context overflow and a broken stream, so
    /// `message` is looked at where its words are Codex's own and cannot be a model's.
    pub fn class_hint(&self, message: &str) -> ClassHint {
        let name = self.name.as_deref().unwrap_or_default();
        let word = WORDS.iter().find(|(word, _)| *word == name);
        match (word, self.status) {
            (Some((_, hint)), _) => *hint,
            (None, Some(status)) => hint_of_status(status),
            (None, None) if Self::OBJECTS.contains(&name) => ClassHint::Stream,
            (None, None) => hint_of_message(message),
        }
    }

    fn from_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::default(),
            Value::String(word) => Self::named(word),
            Value::Object(object) => match object.iter().next() {
                Some((name, detail)) => Self::from_object(name, detail),
                None => Self::named(value.to_string()),
            },
            Value::Bool(_) | Value::Number(_) | Value::Array(_) => Self::named(value.to_string()),
        }
    }

    fn from_object(name: &str, detail: &Value) -> Self {
        let status = detail.get("httpStatusCode").and_then(Value::as_u64);
        let status = status.filter(|_| Self::OBJECTS.contains(&name));
        Self {
            name: Some(name.to_owned()),
            status: status.and_then(|code| u16::try_from(code).ok()),
        }
    }
}

impl<'de> Deserialize<'de> for ErrorInfo {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from_value(&Value::deserialize(deserializer)?))
    }
}

fn hint_of_status(status: u16) -> ClassHint {
    match status {
        401 | 403 => ClassHint::Auth,
        402 => ClassHint::UsageLimit,
        408 => ClassHint::Stream,
        429 => ClassHint::RateLimited,
        400..=499 => ClassHint::BadRequest,
        500..=599 => ClassHint::ServerError,
        _ => ClassHint::Other,
    }
}

/// Codex's own sentences, measured on 0.166, by how the message begins.
const OPENINGS: &[(&str, ClassHint)] = &[
    ("stream disconnected before completion", ClassHint::Stream),
    ("idle timeout waiting for SSE", ClassHint::Stream),
    (
        "Codex ran out of room in the model's context window",
        ClassHint::ContextWindow,
    ),
    ("Quota exceeded", ClassHint::UsageLimit),
    ("To use Codex with your ChatGPT plan", ClassHint::UsageLimit),
    ("rate limit exceeded", ClassHint::RateLimited),
    ("Missing environment variable", ClassHint::Auth),
    (
        "We\u{2019}re currently experiencing high demand",
        ClassHint::ServerError,
    ),
];

fn hint_of_message(message: &str) -> ClassHint {
    if let Some((_, hint)) = OPENINGS
        .iter()
        .find(|(words, _)| message.starts_with(words))
    {
        return *hint;
    }
    if let Some(status) = status_in(message) {
        return hint_of_status(status);
    }
    hint_of_body(message)
}

/// `unexpected status 401 Unauthorized: …` and `exceeded retry limit, last status: 429 …`.
fn status_in(message: &str) -> Option<u16> {
    ["unexpected status ", "exceeded retry limit, last status: "]
        .iter()
        .find_map(|opening| message.strip_prefix(opening))
        .and_then(|rest| rest.get(..3))
        .and_then(|digits| digits.parse().ok())
}

/// HTTP 400 arrives as the bare body of the response, whose `error.code` tells it apart.
fn hint_of_body(message: &str) -> ClassHint {
    let Ok(Value::Object(body)) = serde_json::from_str(message) else {
        return ClassHint::Other;
    };
    let Some(error) = body.get("error").filter(|error| error.is_object()) else {
        return ClassHint::Other;
    };
    match error.get("code").and_then(Value::as_str) {
        Some("context_length_exceeded") => ClassHint::ContextWindow,
        Some("insufficient_quota" | "usage_not_included") => ClassHint::UsageLimit,
        Some("rate_limit_exceeded") => ClassHint::RateLimited,
        Some("invalid_api_key") => ClassHint::Auth,
        Some(_) | None => ClassHint::BadRequest,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> ErrorInfo {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn reads_words_objects_and_surprises() {
        assert_eq!(
            read(json!("unauthorized")),
            ErrorInfo::named("unauthorized")
        );
        assert_eq!(
            read(json!({"httpConnectionFailed": {"httpStatusCode": 401}})),
            ErrorInfo {
                status: Some(401),
                ..ErrorInfo::named("httpConnectionFailed")
            }
        );
        assert_eq!(
            read(json!({"responseStreamDisconnected": {"httpStatusCode": null}})),
            ErrorInfo::named("responseStreamDisconnected")
        );
        assert_eq!(read(json!(null)), ErrorInfo::default());
        for odd in [
            json!("new"),
            json!({}),
            json!([1]),
            json!({"new": 1}),
            json!(true),
            json!({"new": {"httpStatusCode": 401}}),
        ] {
            let odd = read(odd);
            assert!(odd.name.is_some());
            assert_eq!(odd.class_hint(""), ClassHint::Other, "{odd:?}");
        }
        assert_eq!(
            read(json!({"httpConnectionFailed": {"httpStatusCode": 99_999}})),
            ErrorInfo::named("httpConnectionFailed")
        );
    }

    #[test]
    fn every_listed_name_has_a_class() {
        for word in ErrorInfo::words() {
            let hint = read(json!(word)).class_hint("");
            assert_ne!(hint, ClassHint::Other, "{word}");
        }
        for name in ErrorInfo::OBJECTS {
            let info = read(json!({*name: {"httpStatusCode": 500}}));
            assert_eq!(info.class_hint(""), ClassHint::ServerError, "{name}");
        }
    }

    #[test]
    fn hints_follow_the_measured_errors() {
        let hint = |info: Value, message: &str| read(info).class_hint(message);
        assert_eq!(
            hint(json!("internalServerError"), ""),
            ClassHint::ServerError
        );
        assert_eq!(
            hint(json!({"httpConnectionFailed": {"httpStatusCode": 401}}), ""),
            ClassHint::Auth
        );
        assert_eq!(
            hint(
                json!({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}),
                ""
            ),
            ClassHint::RateLimited
        );
        for (message, expected) in [
            (
                "stream disconnected before completion: x",
                ClassHint::Stream,
            ),
            (
                "Codex ran out of room in the model's context window. Start a new thread",
                ClassHint::ContextWindow,
            ),
            (
                r#"{"error": {"message": "mock error 400", "code": "mock_400"}}"#,
                ClassHint::BadRequest,
            ),
            (
                r#"{"error": {"code": "context_length_exceeded"}}"#,
                ClassHint::ContextWindow,
            ),
            (
                "unexpected status 503 Service Unavailable: x",
                ClassHint::ServerError,
            ),
            (
                "exceeded retry limit, last status: 429 Too Many Requests",
                ClassHint::RateLimited,
            ),
            (
                "We\u{2019}re currently experiencing high demand, which may cause",
                ClassHint::ServerError,
            ),
            ("unexpected status é", ClassHint::Other),
            (
                "Incomplete response returned, reason: max_output_tokens",
                ClassHint::Other,
            ),
            (
                "the file says: stream disconnected before completion",
                ClassHint::Other,
            ),
            ("{\"error\": 1}", ClassHint::Other),
        ] {
            assert_eq!(hint(json!("other"), message), expected, "{message}");
        }
    }
}
