//! A2A 0.3 on the same endpoint: requests become those of 1.0, and what 1.0 says becomes 0.3 again.
//!
//! Pure translation of JSON, so that everything behind it knows one version only. What a request means, and whether its
//! values are allowed, is checked once, behind this; here only what cannot be said in 1.0 is refused.

mod card;
mod down;
mod up;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};
use thiserror::Error;

pub(crate) use card::beside;
pub(crate) use down::event;

/// What the version is called in the card and in `A2A-Version`.
pub(crate) const VERSION: &str = "0.3";

/// Marks a data part that 0.3 could not say, because its data must be an object: then it is in `value`. The official
/// SDKs use the same name.
const WRAPPED: &str = "data_part_compat";

/// An operation of 0.3; the answer to it depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Send,
    Stream,
    Get,
    Cancel,
    Resubscribe,
    SetPush,
    GetPush,
    /// 0.3 may ask for the config of a task without saying which.
    AnyPush,
    ListPush,
    DeletePush,
    Card,
}

impl Op {
    /// By the method's name; no other version has these names, so they say the version too.
    pub(crate) fn named(method: &str) -> Option<Self> {
        Some(match method {
            "message/send" => Self::Send,
            "message/stream" => Self::Stream,
            "tasks/get" => Self::Get,
            "tasks/cancel" => Self::Cancel,
            "tasks/resubscribe" => Self::Resubscribe,
            "tasks/pushNotificationConfig/set" => Self::SetPush,
            "tasks/pushNotificationConfig/get" => Self::GetPush,
            "tasks/pushNotificationConfig/list" => Self::ListPush,
            "tasks/pushNotificationConfig/delete" => Self::DeletePush,
            "agent/getAuthenticatedExtendedCard" => Self::Card,
            _ => return None,
        })
    }

    /// What 1.0 calls it.
    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Send => "SendMessage",
            Self::Stream => "SendStreamingMessage",
            Self::Get => "GetTask",
            Self::Cancel => "CancelTask",
            Self::Resubscribe => "SubscribeToTask",
            Self::SetPush => "CreateTaskPushNotificationConfig",
            Self::GetPush => "GetTaskPushNotificationConfig",
            Self::AnyPush | Self::ListPush => "ListTaskPushNotificationConfigs",
            Self::DeletePush => "DeleteTaskPushNotificationConfig",
            Self::Card => "GetExtendedAgentCard",
        }
    }
}

/// Why a request of 0.3 has no meaning in 1.0.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum Wrong {
    /// JSON-RPC -32602.
    #[error("{0}")]
    Params(String),
    /// What was asked for without its id does not exist; as if a wrong id were named.
    #[error("this task has no push notification config")]
    NoPush,
}

/// A request's parameters, and the operation that they are for: it is another one where the parameters say so.
pub(crate) fn params(op: Op, params: Option<Value>) -> Result<(Op, Value), Wrong> {
    let given = match params {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(given)) => given,
        Some(_) => return Err(Wrong::Params("params must be an object".to_owned())),
    };
    Ok(match op {
        Op::Send | Op::Stream => (op, up::send(&given)?),
        Op::Get => (op, pick(&given, &["id", "historyLength"]).into()),
        Op::Cancel | Op::Resubscribe => (op, pick(&given, &["id", "metadata"]).into()),
        Op::SetPush => (op, up::set_push(&given)?),
        Op::GetPush | Op::AnyPush if given.get(PUSH_ID).is_none_or(Value::is_null) => {
            (Op::AnyPush, up::push_of_task(&given))
        }
        Op::GetPush | Op::AnyPush | Op::DeletePush => (op, up::one_push(&given)),
        Op::ListPush => (op, up::push_of_task(&given)),
        Op::Card => (op, json!({})),
    })
}

/// What 1.0 answered, in the words of 0.3.
pub(crate) fn result(op: Op, mut result: Value) -> Result<Value, Wrong> {
    Ok(match op {
        Op::Send | Op::Stream | Op::Resubscribe => down::event(result),
        Op::Get | Op::Cancel => down::task(&result),
        Op::SetPush | Op::GetPush => down::push(&result),
        Op::AnyPush => match down::pushes(&result).into_iter().next() {
            Some(first) => first,
            None => return Err(Wrong::NoPush),
        },
        Op::ListPush => Value::Array(down::pushes(&result)),
        Op::DeletePush => Value::Null,
        Op::Card => {
            beside(&mut result);
            result
        }
    })
}

/// An event of the stream that this operation opened.
pub(crate) fn streamed(op: Op, event: Value) -> Value {
    match op {
        Op::Resubscribe => down::followed(event),
        Op::Send
        | Op::Stream
        | Op::Get
        | Op::Cancel
        | Op::SetPush
        | Op::GetPush
        | Op::AnyPush
        | Op::ListPush
        | Op::DeletePush
        | Op::Card => down::event(event),
    }
}

const PUSH_ID: &str = "pushNotificationConfigId";

/// The fields of these names that have a value: a `null` of 0.3 is a field that is not there.
fn pick(from: &Map<String, Value>, names: &[&str]) -> Map<String, Value> {
    let mut to = Map::new();
    carry(from, &mut to, names);
    to
}

fn carry(from: &Map<String, Value>, to: &mut Map<String, Value>, names: &[&str]) {
    for name in names {
        if let Some(value) = from.get(*name).filter(|value| !value.is_null()) {
            to.insert((*name).to_owned(), value.clone());
        }
    }
}

fn list<'a>(of: &'a Map<String, Value>, name: &str) -> &'a [Value] {
    of.get(name)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Values that one of our own sides wrote, so that what is no object has nothing in it.
fn fields(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}
