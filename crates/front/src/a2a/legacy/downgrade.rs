//! Tasks, messages, events, push configurations and the card from 1.0 to 0.3. The input is written by this server, so
//! nothing fails: missing fields are left out.

use super::{VERSION, WRAPPED, carry, fields, list, pick};
use serde_json::{Map, Value, json};

/// States after which every stream ends; 0.3 marks the event as final.
const OVER: [&str; 4] = ["completed", "canceled", "failed", "rejected"];
/// State after which only the stream of a sent message ends; a resubscribed one stays open.
const ASKED: &str = "input-required";

/// A `StreamResponse`, or the response to a sent message. 0.3 distinguishes their variants by `kind`.
pub(crate) fn event(event: Value) -> Value {
    translate(event, |state| OVER.contains(&state) || state == ASKED)
}

/// An event of a resubscribed stream.
pub(super) fn followed(event: Value) -> Value {
    translate(event, |state| OVER.contains(&state))
}

fn translate(event: Value, ends: impl Fn(&str) -> bool) -> Value {
    let Value::Object(of) = &event else {
        return event;
    };
    if let Some(inner) = of.get("task") {
        return task(inner);
    }
    if let Some(inner) = of.get("message") {
        return message(inner);
    }
    if let Some(inner) = of.get("statusUpdate") {
        return status_update(inner, ends);
    }
    match of.get("artifactUpdate") {
        Some(inner) => artifact_update(inner),
        None => event,
    }
}

pub(super) fn task(task: &Value) -> Value {
    let task = fields(task);
    let mut to = pick(&task, &["id", "contextId", "metadata"]);
    if let Some(now) = task.get("status") {
        to.insert("status".to_owned(), status(now));
    }
    for (name, shape) in [
        ("history", message as fn(&Value) -> Value),
        ("artifacts", artifact),
    ] {
        if let Some(Value::Array(these)) = task.get(name) {
            to.insert(name.to_owned(), these.iter().map(shape).collect());
        }
    }
    of_kind(to, "task")
}

fn status(now: &Value) -> Value {
    let now = fields(now);
    let mut to = pick(&now, &["timestamp"]);
    to.insert("state".to_owned(), state(now.get("state")).into());
    if let Some(said) = now.get("message").filter(|said| !said.is_null()) {
        to.insert("message".to_owned(), message(said));
    }
    Value::Object(to)
}

/// `TASK_STATE_INPUT_REQUIRED` was `input-required`.
fn state(state: Option<&Value>) -> String {
    let name = state
        .and_then(Value::as_str)
        .and_then(|state| state.strip_prefix("TASK_STATE_"))
        .filter(|name| *name != "UNSPECIFIED");
    name.map_or_else(
        || "unknown".to_owned(),
        |name| name.to_ascii_lowercase().replace('_', "-"),
    )
}

pub(super) fn message(said: &Value) -> Value {
    let said = fields(said);
    let mut to = pick(
        &said,
        &[
            "messageId",
            "contextId",
            "taskId",
            "metadata",
            "extensions",
            "referenceTaskIds",
        ],
    );
    let role = match said.get("role").and_then(Value::as_str) {
        Some("ROLE_USER") => "user",
        Some(_) | None => "agent",
    };
    to.insert("role".to_owned(), role.into());
    to.insert("parts".to_owned(), parts(&said));
    of_kind(to, "message")
}

fn artifact(made: &Value) -> Value {
    let made = fields(made);
    let mut to = pick(
        &made,
        &[
            "artifactId",
            "name",
            "description",
            "metadata",
            "extensions",
        ],
    );
    to.insert("parts".to_owned(), parts(&made));
    Value::Object(to)
}

fn parts(of: &Map<String, Value>) -> Value {
    list(of, "parts").iter().map(part).collect()
}

fn part(part: &Value) -> Value {
    let part = fields(part);
    let mut to = pick(&part, &["metadata"]);
    if let Some(text) = part.get("text") {
        to.insert("text".to_owned(), text.clone());
        return of_kind(to, "text");
    }
    if let Some(data) = part.get("data") {
        return data_part(to, data);
    }
    let mut file = Map::new();
    for (new, old) in [
        ("raw", "bytes"),
        ("url", "uri"),
        ("filename", "name"),
        ("mediaType", "mimeType"),
    ] {
        if let Some(value) = part.get(new).filter(|value| !value.is_null()) {
            file.insert(old.to_owned(), value.clone());
        }
    }
    to.insert("file".to_owned(), file.into());
    of_kind(to, "file")
}

fn data_part(mut to: Map<String, Value>, data: &Value) -> Value {
    let said = match data {
        Value::Object(_) => data.clone(),
        other => {
            let mut extra = to.get("metadata").map(fields).unwrap_or_default();
            extra.insert(WRAPPED.to_owned(), true.into());
            to.insert("metadata".to_owned(), extra.into());
            json!({ "value": other })
        }
    };
    to.insert("data".to_owned(), said);
    of_kind(to, "data")
}

fn status_update(update: &Value, ends: impl Fn(&str) -> bool) -> Value {
    let update = fields(update);
    let mut to = pick(&update, &["taskId", "contextId", "metadata"]);
    let now = status(update.get("status").unwrap_or(&Value::Null));
    let is_last = now.get("state").and_then(Value::as_str).is_some_and(ends);
    to.insert("status".to_owned(), now);
    to.insert("final".to_owned(), is_last.into());
    of_kind(to, "status-update")
}

fn artifact_update(update: &Value) -> Value {
    let update = fields(update);
    let mut to = pick(&update, &["taskId", "contextId", "metadata"]);
    carry(&update, &mut to, &["append", "lastChunk"]);
    let made = artifact(update.get("artifact").unwrap_or(&Value::Null));
    to.insert("artifact".to_owned(), made);
    of_kind(to, "artifact-update")
}

pub(super) fn push(config: &Value) -> Value {
    let config = fields(config);
    let mut inner = pick(&config, &["id", "url", "token"]);
    if let Some(Value::Object(how)) = config.get("authentication") {
        let mut auth = pick(how, &["credentials"]);
        let schemes: Vec<Value> = how.get("scheme").cloned().into_iter().collect();
        auth.insert("schemes".to_owned(), schemes.into());
        inner.insert("authentication".to_owned(), auth.into());
    }
    let mut to = pick(&config, &["taskId"]);
    to.insert("pushNotificationConfig".to_owned(), inner.into());
    Value::Object(to)
}

pub(super) fn pushes(answer: &Value) -> Vec<Value> {
    list(&fields(answer), "configs").iter().map(push).collect()
}

fn of_kind(mut to: Map<String, Value>, kind: &str) -> Value {
    to.insert("kind".to_owned(), kind.into());
    Value::Object(to)
}

/// The version in 0.3 cards, with its patch number.
const CARD_VERSION: &str = "0.3.0";

/// Adds the fields of 0.3 to a 1.0 card, unless it offers no interface of 0.3. Clients of both versions read the same
/// document and ignore unknown fields.
pub(crate) fn beside(card: &mut Value) {
    let Value::Object(card) = card else {
        return;
    };
    let offered: Vec<Value> = list(card, "supportedInterfaces")
        .iter()
        .filter(|one| is_legacy(one))
        .map(interface)
        .collect();
    let Some(first) = offered.first().map(fields) else {
        return;
    };
    let mut put = |name: &str, value: Value| {
        card.entry(name).or_insert(value);
    };
    put("protocolVersion", CARD_VERSION.into());
    for (from, to) in [("url", "url"), ("transport", "preferredTransport")] {
        put(to, first.get(from).cloned().unwrap_or_default());
    }
    put("additionalInterfaces", offered.into());
    // Without authentication there is no extended card.
    let extended = card.get("capabilities").map(fields).unwrap_or_default();
    let secured = card.contains_key("securitySchemes");
    if secured && extended.get("extendedAgentCard") == Some(&true.into()) {
        card.insert("supportsAuthenticatedExtendedCard".to_owned(), true.into());
    }
    secure(card);
}

fn is_legacy(interface: &Value) -> bool {
    let version = interface.get("protocolVersion").and_then(Value::as_str);
    version.is_some_and(|version| version == VERSION || version == CARD_VERSION)
}

fn interface(offered: &Value) -> Value {
    json!({"url": offered["url"], "transport": offered["protocolBinding"]})
}

/// 1.0 names the kind of a security scheme by its field, 0.3 by `type`.
fn secure(card: &mut Map<String, Value>) {
    if let Some(Value::Object(schemes)) = card.get_mut("securitySchemes") {
        for scheme in schemes.values_mut().filter_map(Value::as_object_mut) {
            if let Some(http) = scheme.get("httpAuthSecurityScheme").map(fields) {
                scheme.insert("type".to_owned(), "http".into());
                scheme.extend(http);
            }
        }
    }
    let demands: Vec<Value> = list(card, "securityRequirements")
        .iter()
        .map(|demand| {
            let schemes = demand.get("schemes").map(fields).unwrap_or_default();
            schemes
                .into_iter()
                .map(|(name, scopes)| (name, scopes.get("list").cloned().unwrap_or(json!([]))))
                .collect::<Map<_, _>>()
                .into()
        })
        .collect();
    if !demands.is_empty() {
        card.insert("security".to_owned(), demands.into());
    }
}
