//! A call as it came and an answer as it goes, with nothing of HTTP's machinery, so that every rule of the platform
//! is a plain function from one to the other.

use axum::body::Bytes;
use axum::http::HeaderMap;
use serde_json::{Value, json};

use super::dispatch::PushCalls;
use super::route::Place;

/// One call.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) place: Place,
    pub(super) query: Vec<(String, String)>,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Call {
    /// A query parameter that says something.
    pub(super) fn asked(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(key, _)| key == name);
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub(super) fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }
}

/// What an answer carries.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    Json(Value),
    Text(String),
    Html(String),
    /// Called JSON, and not.
    Broken(String),
    File {
        name: String,
        media_type: String,
        bytes: Bytes,
    },
    Empty,
}

/// One answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) retry_after: Option<u32>,
    pub(super) content: Content,
    /// A row that must be visible before the answer goes out.
    pub(super) after: Option<Box<str>>,
    /// Calls to an agent that follow.
    pub(super) calls: Option<Box<PushCalls>>,
}

impl Default for Answer {
    fn default() -> Self {
        Self::not_found()
    }
}

impl Answer {
    pub(super) fn json(status: u16, body: Value) -> Self {
        Self {
            status,
            retry_after: None,
            content: Content::Json(body),
            after: None,
            calls: None,
        }
    }

    pub(super) fn ok(body: Value) -> Self {
        Self::json(200, body)
    }

    pub(super) fn error(status: u16, error: &str) -> Self {
        Self::json(status, json!({ "error": error }))
    }

    pub(super) fn empty(status: u16) -> Self {
        Self {
            status,
            retry_after: None,
            content: Content::Empty,
            after: None,
            calls: None,
        }
    }

    /// What the platform says about a path that it does not have.
    pub(super) fn not_found() -> Self {
        Self {
            status: 404,
            retry_after: None,
            content: Content::Text("404 page not found".to_owned()),
            after: None,
            calls: None,
        }
    }
}

/// Whether a text of this value has a NUL, which the platform's database refuses.
pub(super) fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(fields) => fields
            .iter()
            .any(|(key, value)| key.contains('\0') || has_nul(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
