//! Accepted spellings, refused values and their messages.

use super::*;
use crate::a2a::schema;
use a2a::{ListTasksRequest, PartContent, Role, SendMessageRequest, TaskState};
use serde_json::json;

fn send(params: Value) -> Result<SendMessageRequest, A2aError> {
    request(&schema::SEND, params)
}

fn message(extra: Value) -> Value {
    let mut message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]});
    for (name, value) in extra.as_object().unwrap() {
        message[name] = value.clone();
    }
    json!({"message": message})
}

fn wrong(error: &A2aError) -> Vec<String> {
    let rpc = error.to_rpc();
    let violations = rpc["data"][1]["fieldViolations"].as_array().unwrap();
    let fields = violations.iter();
    fields
        .map(|wrong| wrong["field"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn accepts_snake_case_enum_numbers_and_null() {
    let read = send(json!({
        "message": {
            "message_id": "m",
            "context_id": "c",
            "task_id": null,
            "role": 1,
            "parts": [{"text": "hi", "media_type": "text/plain", "metadata": null}],
        },
        "configuration": {"history_length": "3", "return_immediately": true},
    }))
    .unwrap();
    assert_eq!(read.message.role, Role::User);
    assert_eq!(read.message.context_id.as_deref(), Some("c"));
    assert_eq!(read.message.task_id, None);
    assert_eq!(
        read.message.parts[0].media_type.as_deref(),
        Some("text/plain")
    );
    let configuration = read.configuration.unwrap();
    assert_eq!(configuration.history_length, Some(3));
    assert_eq!(configuration.return_immediately, Some(true));
}

#[test]
fn what_nobody_knows_is_ignored() {
    let mut params = message(json!({"tckUnknownField": "x", "messageId": "an_UNSPECIFIED"}));
    params["tckExtraParam"] = json!(42);
    assert!(send(params).is_ok());
}

#[test]
fn a_part_has_exactly_one_content() {
    for parts in [
        json!([{}]),
        json!([{"text": "a", "url": "https://b"}]),
        json!([{"mediaType": "text/plain"}]),
    ] {
        let error = send(message(json!({"parts": parts}))).unwrap_err();
        assert_eq!(wrong(&error), ["message.parts[0]"], "{parts}");
    }
    let null = send(message(json!({"parts": [{"data": null}]}))).unwrap();
    assert_eq!(
        null.message.parts[0].content,
        PartContent::Data(Value::Null)
    );
}

#[test]
fn names_missing_or_invalid_fields() {
    assert_eq!(wrong(&send(json!({})).unwrap_err()), ["message"]);
    let empty = send(json!({"message": {}})).unwrap_err();
    assert_eq!(
        wrong(&empty),
        ["message.messageId", "message.role", "message.parts"]
    );
    for (field, value) in [
        ("messageId", json!("")),
        ("role", json!("ROLE_UNSPECIFIED")),
        ("role", json!(0)),
        ("role", json!("user")),
        ("role", json!(7)),
        ("parts", json!([])),
        ("parts", json!("hi")),
        ("messageId", json!("a\nb")),
        ("messageId", json!("x".repeat(129))),
        ("contextId", json!(3)),
    ] {
        let error = send(message(json!({field: value}))).unwrap_err();
        assert_eq!(wrong(&error), [format!("message.{field}")], "{value}");
    }
}

#[test]
fn a_field_under_both_names_is_refused() {
    let error = send(message(json!({"message_id": "other"}))).unwrap_err();
    assert_eq!(wrong(&error), ["message.messageId"]);
}

#[test]
fn decodes_standard_and_urlsafe_base64() {
    for (text, bytes) in [
        ("dGNr", &b"tck"[..]),
        ("_-8", &[0xff, 0xef][..]),
        ("/+8=", &[0xff, 0xef][..]),
        ("", &[][..]),
    ] {
        let read = send(message(json!({"parts": [{"raw": text}]}))).unwrap();
        let content = &read.message.parts[0].content;
        assert_eq!(*content, PartContent::Raw(bytes.to_vec()), "{text}");
    }
    for text in ["a", "a b=", "ä"] {
        let error = send(message(json!({"parts": [{"raw": text}]}))).unwrap_err();
        assert_eq!(wrong(&error), ["message.parts[0].raw"], "{text}");
    }
}

#[test]
fn figures_of_a_list_have_their_bounds() {
    let list = |params| request::<ListTasksRequest>(&schema::LIST, params);
    let read = list(json!({"status": 2, "pageSize": 100, "includeArtifacts": "true"})).unwrap();
    assert_eq!(read.status, Some(TaskState::Working));
    assert_eq!(read.include_artifacts, Some(true));
    let error = list(json!({
        "pageSize": 150, "historyLength": -5, "status": "TASK_STATE_RUNNING",
    }))
    .unwrap_err();
    assert_eq!(wrong(&error), ["status", "pageSize", "historyLength"]);
    assert!(list(json!({"statusTimestampAfter": "yesterday"})).is_err());
    assert!(list(json!({"pageSize": 0})).is_err());
    assert!(list(json!({"pageSize": 2.5})).is_err());
    assert!(list(json!({"pageSize": 2.0})).is_ok());
}
