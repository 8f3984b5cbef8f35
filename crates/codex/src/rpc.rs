//! JSON-RPC as Codex speaks it: one text becomes one [`RpcMessage`], and back.
//!
//! Codex leaves the `jsonrpc` member out. What a method means belongs to [`crate::wire`]; which
//! request a response answers belongs to [`crate::link`].

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::text::one_line;

/// Codex's queues (128 deep) are full: send the same request again later.
pub const OVERLOADED: i64 = -32001;
/// The request is understood but refused; the message says why. Also unknown methods.
pub const INVALID_REQUEST: i64 = -32600;
/// Our answer to an unknown kind of request.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// Input over the limit comes with this code.
pub const INVALID_PARAMS: i64 = -32602;
/// Something broke inside Codex.
pub const INTERNAL_ERROR: i64 = -32603;

/// Longest piece of a broken line that goes into a reason.
const MAX_WHY_BYTES: usize = 200;

/// The id of a request, with its JSON type.
///
/// Codex counts integers from 0; an answer with `"10"` for `10` is ignored and the turn waits for
/// ever. So the type is kept and echoed exactly.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RawId {
    Integer(i64),
    Text(String),
}

impl From<RawId> for Value {
    fn from(id: RawId) -> Self {
        match id {
            RawId::Integer(id) => Self::from(id),
            RawId::Text(id) => Self::from(id),
        }
    }
}

impl fmt::Display for RawId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(id) => write!(f, "{id}"),
            Self::Text(id) => write!(f, "{id:?}"),
        }
    }
}

/// The error member of a response, in either direction.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("codex refused ({code}): {message}")]
pub struct RpcError {
    pub code: i64,
    pub message: String,
    pub data: Option<Value>,
}

impl From<RpcError> for Value {
    fn from(error: RpcError) -> Self {
        let mut members = Map::new();
        members.insert("code".to_owned(), Self::from(error.code));
        members.insert("message".to_owned(), Self::from(error.message));
        if let Some(data) = error.data {
            members.insert("data".to_owned(), data);
        }
        Self::Object(members)
    }
}

/// Why Codex refused a request, as far as its words tell.
///
/// Most refusals share the code -32600, so the text decides; what no rule knows is `Other`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RpcRefusal {
    /// Nothing happened; send again later.
    Overloaded,
    /// The process is on its way out; nothing happened.
    Draining,
    /// The thread is being unloaded; it can be resumed once that is done.
    ThreadClosing,
    /// Another process holds the thread.
    ActiveWriter,
    /// The thread is not on disk: no turn yet, ephemeral, or the file is gone.
    NoRollout,
    /// The thread was on disk and can not be read: a torn-off disk leaves an empty file.
    DamagedRollout,
    /// The thread is not loaded in this process: resume it first.
    ThreadNotFound,
    /// The id is not one that Codex could have given.
    InvalidThreadId,
    /// The thread was archived.
    Archived,
    /// The input has more characters than Codex takes.
    InputTooLarge {
        max_chars: Option<u64>,
    },
    /// Interrupt or steer while the thread is idle, or before `turn/started`.
    NoActiveTurn,
    /// Interrupt or steer that names another turn than the active one.
    OtherTurnActive,
    /// config.toml is broken.
    BadConfig,
    /// `initialize` was not sent on this connection.
    NotInitialized,
    /// `initialize` did not ask for the experimental API.
    NeedsExperimental,
    /// It does not have the method, or does not take the params in this form.
    UnknownForm,
    Other,
}

impl RpcError {
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// Sorts the refusal by code, data and the words measured on the real binary.
    pub fn refusal(&self) -> RpcRefusal {
        if self.code == OVERLOADED {
            return RpcRefusal::Overloaded;
        }
        if self.code == METHOD_NOT_FOUND {
            return RpcRefusal::UnknownForm;
        }
        if self.data_text("input_error_code") == Some("input_too_large") {
            return RpcRefusal::InputTooLarge {
                max_chars: self.data_field("max_chars").and_then(Value::as_u64),
            };
        }
        WORDS
            .iter()
            .find(|(words, _)| self.message.contains(words))
            .map_or(RpcRefusal::Other, |(_, refusal)| *refusal)
    }

    /// Whether this is how a Codex refuses a method that it does not have. Measured: it names the method as an
    /// unknown variant, with the code of every other refusal.
    pub fn is_unknown_method(&self, method: &str) -> bool {
        let words = format!("unknown variant `{method}`");
        self.code == METHOD_NOT_FOUND || self.message.contains(&words)
    }

    fn data_field(&self, name: &str) -> Option<&Value> {
        self.data.as_ref()?.get(name)
    }

    fn data_text(&self, name: &str) -> Option<&str> {
        self.data_field(name)?.as_str()
    }

    /// Reads the error member; whatever it is, the pending request must end, so nothing fails here.
    fn from_value(value: Value) -> Self {
        let code = value.get("code").and_then(Value::as_i64);
        let message = value.get("message").and_then(Value::as_str);
        match (code, message) {
            (Some(code), Some(message)) => Self {
                code,
                message: message.to_owned(),
                data: value.get("data").cloned(),
            },
            (code, _) => Self::new(
                code.unwrap_or(INTERNAL_ERROR),
                one_line(&value.to_string(), MAX_WHY_BYTES),
            ),
        }
    }
}

/// Words of Codex 0.150-0.166, most specific first.
const WORDS: &[(&str, RpcRefusal)] = &[
    ("is closing; retry", RpcRefusal::ThreadClosing),
    ("already has an active writer", RpcRefusal::ActiveWriter),
    ("no rollout found", RpcRefusal::NoRollout),
    // A legacy thread that had a record, which is gone.
    ("failed to resolve rollout path", RpcRefusal::DamagedRollout),
    ("rollout at ", RpcRefusal::DamagedRollout),
    (
        "failed to read session metadata",
        RpcRefusal::DamagedRollout,
    ),
    ("thread not found", RpcRefusal::ThreadNotFound),
    ("thread not loaded", RpcRefusal::ThreadNotFound),
    ("invalid thread id", RpcRefusal::InvalidThreadId),
    ("is archived", RpcRefusal::Archived),
    ("no active turn to", RpcRefusal::NoActiveTurn),
    ("expected active turn id", RpcRefusal::OtherTurnActive),
    ("failed to load configuration", RpcRefusal::BadConfig),
    ("failed to read configuration layers", RpcRefusal::BadConfig),
    ("invalid configuration: ", RpcRefusal::BadConfig),
    ("Not initialized", RpcRefusal::NotInitialized),
    (
        "requires experimentalApi capability",
        RpcRefusal::NeedsExperimental,
    ),
    ("Server is draining", RpcRefusal::Draining),
    // Last: what could not be read as a request, in the words of its deserializer.
    ("Invalid request: ", RpcRefusal::UnknownForm),
];

/// One message from Codex.
#[derive(Debug, Clone, PartialEq)]
pub enum RpcMessage {
    Response {
        id: RawId,
        result: Result<Value, RpcError>,
    },
    Request {
        id: RawId,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// Not a message we could act on. The stream itself is fine.
    Malformed {
        why: String,
    },
}

/// Reads one text. Never fails: what cannot be read is [`RpcMessage::Malformed`].
pub fn parse(text: &str) -> RpcMessage {
    match serde_json::from_str(text) {
        Ok(Value::Object(message)) => classify(message),
        Ok(other) => malformed("not a json object", &other.to_string()),
        Err(error) => malformed(&error.to_string(), text),
    }
}

fn classify(mut message: Map<String, Value>) -> RpcMessage {
    let id = message.remove("id");
    let params = message.remove("params").unwrap_or(Value::Null);
    match (message.remove("method"), id) {
        (Some(Value::String(method)), None) => RpcMessage::Notification { method, params },
        (Some(Value::String(method)), Some(id)) => match raw_id(id) {
            Ok(id) => RpcMessage::Request { id, method, params },
            Err(id) => malformed("request id is neither integer nor string", &id.to_string()),
        },
        (Some(other), _) => malformed("method is not a string", &other.to_string()),
        (None, Some(id)) => match raw_id(id) {
            Ok(id) => response(id, message),
            Err(id) => malformed("response id is neither integer nor string", &id.to_string()),
        },
        (None, None) => malformed("neither method nor id", &Value::Object(message).to_string()),
    }
}

fn response(id: RawId, mut message: Map<String, Value>) -> RpcMessage {
    match (message.remove("error"), message.remove("result")) {
        (Some(error), _) if !error.is_null() => RpcMessage::Response {
            id,
            result: Err(RpcError::from_value(error)),
        },
        (_, Some(result)) => RpcMessage::Response {
            id,
            result: Ok(result),
        },
        (_, None) => malformed("neither result nor error", &format!("id {id}")),
    }
}

fn raw_id(id: Value) -> Result<RawId, Value> {
    match (id.as_i64(), id) {
        (Some(number), _) => Ok(RawId::Integer(number)),
        (None, Value::String(text)) => Ok(RawId::Text(text)),
        (None, other) => Err(other),
    }
}

fn malformed(why: &str, near: &str) -> RpcMessage {
    RpcMessage::Malformed {
        why: format!("{why}: {}", one_line(near, MAX_WHY_BYTES)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_keep_their_json_type() {
        for text in ["0", "-1", "10", "\"10\"", "\"\"", "9223372036854775807"] {
            let id: RawId = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&id).unwrap(), text);
            let line = format!(r#"{{"id":{text},"method":"x","params":{{}}}}"#);
            let RpcMessage::Request { id: parsed, .. } = parse(&line) else {
                panic!("{line}");
            };
            assert_eq!(parsed, id);
        }
        assert_ne!(RawId::Integer(10), RawId::Text("10".to_owned()));
    }

    #[test]
    fn sorts_the_four_kinds() {
        assert_eq!(
            parse(r#"{"jsonrpc":"2.0","id":1,"result":null,"error":null}"#),
            RpcMessage::Response {
                id: RawId::Integer(1),
                result: Ok(Value::Null)
            }
        );
        assert_eq!(
            parse(r#"{"id":1,"error":{"code":-32001,"message":"busy","data":[1]}}"#),
            RpcMessage::Response {
                id: RawId::Integer(1),
                result: Err(RpcError {
                    code: -32001,
                    message: "busy".to_owned(),
                    data: Some(json!([1])),
                })
            }
        );
        assert_eq!(
            parse(r#"{"method":"initialized","emittedAtMs":1}"#),
            RpcMessage::Notification {
                method: "initialized".to_owned(),
                params: Value::Null
            }
        );
    }

    #[test]
    fn nasty_input_is_malformed_and_bounded() {
        let deep = "[".repeat(10_000);
        let long = format!(r#"{{"method":{}}}"#, "9".repeat(100_000));
        for text in [
            "",
            "null",
            "[]",
            "{}",
            "1",
            "{",
            "\u{0}",
            r#"{"id":1}"#,
            r#"{"id":null,"result":1}"#,
            r#"{"id":1.5,"method":"x"}"#,
            r#"{"id":{},"method":"x"}"#,
            r#"{"method":1}"#,
            r#"{"id":18446744073709551615,"method":"x"}"#,
            &deep,
            &long,
        ] {
            let RpcMessage::Malformed { why } = parse(text) else {
                panic!("{text}");
            };
            assert!(why.len() < 400, "{why}");
        }
    }

    #[test]
    fn malformed_error_still_ends_request() {
        let RpcMessage::Response { result, .. } = parse(r#"{"id":1,"error":"boom"}"#) else {
            panic!();
        };
        assert_eq!(result, Err(RpcError::new(INTERNAL_ERROR, "\"boom\"")));
    }

    #[test]
    fn knows_the_refusals_of_the_real_binary() {
        let refusal = |code, message: &str| RpcError::new(code, message).refusal();
        assert_eq!(
            refusal(OVERLOADED, "Server overloaded; retry later."),
            RpcRefusal::Overloaded
        );
        for (message, expected) in [
            (
                "thread 01a1 already has an active writer",
                RpcRefusal::ActiveWriter,
            ),
            (
                "thread 01a1 is closing; retry thread/resume after the thread is closed",
                RpcRefusal::ThreadClosing,
            ),
            ("no rollout found for thread id 01a1", RpcRefusal::NoRollout),
            (
                "failed to resolve rollout path `/x`: file does not exist",
                RpcRefusal::DamagedRollout,
            ),
            (
                "rollout at /h/sessions/r.jsonl is empty",
                RpcRefusal::DamagedRollout,
            ),
            ("thread not found: 01a1", RpcRefusal::ThreadNotFound),
            ("invalid thread id: x", RpcRefusal::InvalidThreadId),
            ("session 01a1 is archived", RpcRefusal::Archived),
            ("no active turn to interrupt", RpcRefusal::NoActiveTurn),
            ("no active turn to steer", RpcRefusal::NoActiveTurn),
            (
                "expected active turn id X but found Y",
                RpcRefusal::OtherTurnActive,
            ),
            ("failed to load configuration: bad", RpcRefusal::BadConfig),
            ("Not initialized", RpcRefusal::NotInitialized),
            (
                "thread/queue/list requires experimentalApi capability",
                RpcRefusal::NeedsExperimental,
            ),
            (
                "Invalid request: unknown variant `turn/begin`, expected one of `initialize`",
                RpcRefusal::UnknownForm,
            ),
            (
                "Invalid request: missing field `input`",
                RpcRefusal::UnknownForm,
            ),
            ("cwd is not a directory", RpcRefusal::Other),
            (
                "failed to read configuration layers: /h/config.toml:1:9: extra `=`",
                RpcRefusal::BadConfig,
            ),
            (
                "invalid configuration: invalid type: integer `3`, expected a string",
                RpcRefusal::BadConfig,
            ),
        ] {
            assert_eq!(refusal(INVALID_REQUEST, message), expected, "{message}");
        }
        let too_large = RpcError {
            data: Some(json!({"input_error_code": "input_too_large", "max_chars": 1_048_576})),
            ..RpcError::new(INVALID_PARAMS, "Input exceeds the maximum length")
        };
        assert_eq!(
            too_large.refusal(),
            RpcRefusal::InputTooLarge {
                max_chars: Some(1_048_576)
            }
        );
    }
}
