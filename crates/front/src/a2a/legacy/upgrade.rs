//! Request parameters from 0.3 to 1.0. Missing and mistyped values are passed on, and refused where 1.0 is checked.

use serde_json::{Map, Value, json};

use super::{PUSH_ID, WRAPPED, Wrong, carry, list, pick};

/// Upgrades `MessageSendParams`.
pub(super) fn send(given: &Map<String, Value>) -> Result<Value, Wrong> {
    let mut params = pick(given, &["metadata"]);
    if let Some(said) = given.get("message") {
        params.insert("message".to_owned(), message(said)?);
    }
    if let Some(Value::Object(asked)) = given.get("configuration") {
        params.insert("configuration".to_owned(), configuration(asked));
    }
    Ok(Value::Object(params))
}

fn configuration(asked: &Map<String, Value>) -> Value {
    let mut to = pick(asked, &["acceptedOutputModes", "historyLength"]);
    if let Some(blocking) = asked.get("blocking").and_then(Value::as_bool) {
        to.insert("returnImmediately".to_owned(), (!blocking).into());
    }
    if let Some(Value::Object(config)) = asked.get("pushNotificationConfig") {
        to.insert("taskPushNotificationConfig".to_owned(), push(config).into());
    }
    Value::Object(to)
}

pub(super) fn message(said: &Value) -> Result<Value, Wrong> {
    let Value::Object(said) = said else {
        return Ok(said.clone());
    };
    if said.get("kind").is_some_and(|kind| kind != "message") {
        return wrong("message.kind must be \"message\"");
    }
    let mut to = pick(
        said,
        &[
            "messageId",
            "contextId",
            "taskId",
            "metadata",
            "extensions",
            "referenceTaskIds",
        ],
    );
    match said.get("role").map(Value::as_str) {
        None => {}
        Some(Some("user")) => drop(to.insert("role".to_owned(), "ROLE_USER".into())),
        Some(Some("agent")) => drop(to.insert("role".to_owned(), "ROLE_AGENT".into())),
        Some(_) => return wrong("message.role must be \"user\" or \"agent\" in A2A 0.3"),
    }
    match said.get("parts") {
        None => {}
        Some(Value::Array(parts)) => {
            let parts: Vec<Value> = parts.iter().map(part).collect::<Result<_, _>>()?;
            to.insert("parts".to_owned(), parts.into());
        }
        Some(_) => return wrong("message.parts must be a list"),
    }
    Ok(Value::Object(to))
}

fn part(part: &Value) -> Result<Value, Wrong> {
    let Value::Object(part) = part else {
        return wrong("a part must be an object");
    };
    let mut to = match part.get("kind").and_then(Value::as_str) {
        Some("text") => pick(part, &["text", "metadata"]),
        Some("data") => data(part)?,
        Some("file") => file(part)?,
        Some(_) | None => {
            return wrong("a part's kind must be \"text\", \"file\" or \"data\" in A2A 0.3");
        }
    };
    if to.get("metadata").is_some_and(|extra| extra == &json!({})) {
        to.remove("metadata");
    }
    if to.keys().any(|name| name != "metadata") {
        Ok(Value::Object(to))
    } else {
        wrong("a part must have the content that its kind says")
    }
}

fn data(part: &Map<String, Value>) -> Result<Map<String, Value>, Wrong> {
    let Some(Value::Object(data)) = part.get("data") else {
        return wrong("the data of a part must be an object in A2A 0.3");
    };
    let mut to = pick(part, &["metadata"]);
    let wrapped = match to.get_mut("metadata") {
        Some(Value::Object(extra)) => extra.remove(WRAPPED) == Some(true.into()),
        Some(_) | None => false,
    };
    let inner = match data.get("value") {
        Some(value) if wrapped => value.clone(),
        Some(_) | None => Value::Object(data.clone()),
    };
    to.insert("data".to_owned(), inner);
    Ok(to)
}

fn file(part: &Map<String, Value>) -> Result<Map<String, Value>, Wrong> {
    let Some(Value::Object(file)) = part.get("file") else {
        return wrong("a part of kind \"file\" must have a file");
    };
    let mut to = pick(part, &["metadata"]);
    let given = |name: &str| file.get(name).filter(|value| !value.is_null()).cloned();
    match (given("bytes"), given("uri")) {
        (Some(bytes), None) => drop(to.insert("raw".to_owned(), bytes)),
        (None, Some(uri)) => drop(to.insert("url".to_owned(), uri)),
        (Some(_), Some(_)) | (None, None) => {
            return wrong("a file must have either bytes or a uri");
        }
    }
    for (old, new) in [("name", "filename"), ("mimeType", "mediaType")] {
        if let Some(value) = given(old) {
            to.insert(new.to_owned(), value);
        }
    }
    Ok(to)
}

/// `PushNotificationConfig`; of several schemes, which 0.3 allows, the first is used.
pub(super) fn push(config: &Map<String, Value>) -> Map<String, Value> {
    let mut to = pick(config, &["id", "url", "token"]);
    if let Some(Value::Object(how)) = config.get("authentication") {
        let mut auth = pick(how, &["credentials"]);
        if let Some(scheme) = list(how, "schemes").first() {
            auth.insert("scheme".to_owned(), scheme.clone());
        }
        to.insert("authentication".to_owned(), auth.into());
    }
    to
}

/// Upgrades `TaskPushNotificationConfig`.
pub(super) fn set_push(given: &Map<String, Value>) -> Result<Value, Wrong> {
    let Some(Value::Object(config)) = given.get("pushNotificationConfig") else {
        return wrong("pushNotificationConfig is missing");
    };
    let mut to = push(config);
    carry(given, &mut to, &["taskId"]);
    Ok(Value::Object(to))
}

pub(super) fn push_of_task(given: &Map<String, Value>) -> Value {
    let task = given.get("id").filter(|id| !id.is_null());
    task.map_or_else(|| json!({}), |id| json!({ "taskId": id }))
}

pub(super) fn one_push(given: &Map<String, Value>) -> Value {
    let mut to = super::fields(&push_of_task(given));
    if let Some(id) = given.get(PUSH_ID) {
        to.insert("id".to_owned(), id.clone());
    }
    Value::Object(to)
}

fn wrong<T>(what: &str) -> Result<T, Wrong> {
    Err(Wrong::Params(what.to_owned()))
}
