//! A2A 0.3 on the same endpoint: requests are translated to 1.0, and responses back to 0.3.
//!
//! A pure translation of JSON, so that everything behind it knows one version only. Values are checked once, after it;
//! only what has no form in 1.0 is refused here.

mod downgrade;
mod upgrade;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};
use thiserror::Error;

pub(crate) use downgrade::{beside, event};

/// The version in the card and in `A2A-Version`.
pub(crate) const VERSION: &str = "0.3";

/// Marks a data part that is not an object, which 0.3 does not allow: the data is in `value`. The official SDKs use the
/// same name.
const WRAPPED: &str = "data_part_compat";

/// An operation of 0.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LegacyMethod {
    Send,
    Stream,
    Get,
    Cancel,
    Resubscribe,
    SetPush,
    GetPush,
    /// Gets a push configuration without naming its id, which 0.3 allows.
    AnyPush,
    ListPush,
    DeletePush,
    Card,
}

impl LegacyMethod {
    /// By the method's name. 1.0 has other names, so the name implies the version.
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

    /// The method of 1.0.
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
    /// The unnamed configuration does not exist; answered as a wrong id.
    #[error("this task has no push notification config")]
    NoPush,
}

/// Translates parameters. Returns the operation as well, which can depend on them.
pub(crate) fn params(
    op: LegacyMethod,
    params: Option<Value>,
) -> Result<(LegacyMethod, Value), Wrong> {
    let given = match params {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(given)) => given,
        Some(_) => return Err(Wrong::Params("params must be an object".to_owned())),
    };
    Ok(match op {
        LegacyMethod::Send | LegacyMethod::Stream => (op, upgrade::send(&given)?),
        LegacyMethod::Get => (op, pick(&given, &["id", "historyLength"]).into()),
        LegacyMethod::Cancel | LegacyMethod::Resubscribe => {
            (op, pick(&given, &["id", "metadata"]).into())
        }
        LegacyMethod::SetPush => (op, upgrade::set_push(&given)?),
        LegacyMethod::GetPush | LegacyMethod::AnyPush
            if given.get(PUSH_ID).is_none_or(Value::is_null) =>
        {
            (LegacyMethod::AnyPush, upgrade::push_of_task(&given))
        }
        LegacyMethod::GetPush | LegacyMethod::AnyPush | LegacyMethod::DeletePush => {
            (op, upgrade::one_push(&given))
        }
        LegacyMethod::ListPush => (op, upgrade::push_of_task(&given)),
        LegacyMethod::Card => (op, json!({})),
    })
}

/// Translates a response.
pub(crate) fn result(op: LegacyMethod, mut result: Value) -> Result<Value, Wrong> {
    Ok(match op {
        LegacyMethod::Send | LegacyMethod::Stream | LegacyMethod::Resubscribe => {
            downgrade::event(result)
        }
        LegacyMethod::Get | LegacyMethod::Cancel => downgrade::task(&result),
        LegacyMethod::SetPush | LegacyMethod::GetPush => downgrade::push(&result),
        LegacyMethod::AnyPush => match downgrade::pushes(&result).into_iter().next() {
            Some(first) => first,
            None => return Err(Wrong::NoPush),
        },
        LegacyMethod::ListPush => Value::Array(downgrade::pushes(&result)),
        LegacyMethod::DeletePush => Value::Null,
        LegacyMethod::Card => {
            beside(&mut result);
            result
        }
    })
}

/// Translates a stream event.
pub(crate) fn streamed(op: LegacyMethod, event: Value) -> Value {
    match op {
        LegacyMethod::Resubscribe => downgrade::followed(event),
        _ => downgrade::event(event),
    }
}

const PUSH_ID: &str = "pushNotificationConfigId";

/// The named fields that have a value; `null` counts as absent in 0.3.
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

/// The object's fields; empty for other values, which this server does not write.
fn fields(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}
