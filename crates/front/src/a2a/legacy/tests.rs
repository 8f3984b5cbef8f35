//! The examples of specification 0.3 (section 9), and that nothing is lost on the way there and back.

use serde_json::{Value, json};

use super::*;

fn up(method: &str, given: Value) -> Value {
    let op = LegacyMethod::named(method).unwrap();
    params(op, Some(given)).unwrap().1
}

#[test]
fn send_translates_request_and_answer() {
    let asked = json!({
        "message": {"role": "user", "parts": [{"kind": "text", "text": "tell me a joke"}],
            "messageId": "9229e770-767c-417b-a0b0-f0741243c589"},
        "metadata": {}
    });
    assert_eq!(
        up("message/send", asked),
        json!({
            "message": {"role": "ROLE_USER", "parts": [{"text": "tell me a joke"}],
                "messageId": "9229e770-767c-417b-a0b0-f0741243c589"},
            "metadata": {}
        })
    );
    let sent = json!({"task": {
        "id": "363422be", "contextId": "c295ea44",
        "status": {"state": "TASK_STATE_COMPLETED"},
        "artifacts": [{"artifactId": "9b6934dd", "name": "joke", "parts": [{"text": "To get to the other side!"}]}],
        "history": [{"role": "ROLE_USER", "parts": [{"text": "tell me a joke"}], "messageId": "9229e770",
            "taskId": "363422be", "contextId": "c295ea44"}],
        "metadata": {}
    }});
    assert_eq!(
        result(LegacyMethod::Send, sent).unwrap(),
        json!({
            "id": "363422be", "contextId": "c295ea44", "kind": "task",
            "status": {"state": "completed"},
            "artifacts": [{"artifactId": "9b6934dd", "name": "joke",
                "parts": [{"kind": "text", "text": "To get to the other side!"}]}],
            "history": [{"role": "user", "parts": [{"kind": "text", "text": "tell me a joke"}], "kind": "message",
                "messageId": "9229e770", "taskId": "363422be", "contextId": "c295ea44"}],
            "metadata": {}
        })
    );
}

#[test]
fn legacy_stream_marks_final_events() {
    let update = |state: &str| {
        event(json!({"statusUpdate": {"taskId": "t", "contextId": "c",
            "status": {"state": state, "timestamp": "2025-04-02T16:59:35.331844Z"}}}))
    };
    assert_eq!(
        update("TASK_STATE_COMPLETED"),
        json!({"taskId": "t", "contextId": "c", "final": true, "kind": "status-update",
            "status": {"state": "completed", "timestamp": "2025-04-02T16:59:35.331844Z"}})
    );
    for (state, old, last) in [
        ("TASK_STATE_SUBMITTED", "submitted", false),
        ("TASK_STATE_WORKING", "working", false),
        ("TASK_STATE_AUTH_REQUIRED", "auth-required", false),
        ("TASK_STATE_INPUT_REQUIRED", "input-required", true),
        ("TASK_STATE_FAILED", "failed", true),
        ("TASK_STATE_CANCELED", "canceled", true),
        ("TASK_STATE_REJECTED", "rejected", true),
        ("TASK_STATE_UNSPECIFIED", "unknown", false),
    ] {
        let update = update(state);
        assert_eq!(update["status"]["state"], old);
        assert_eq!(update["final"], last, "{state}");
    }
    for (state, last) in [
        ("TASK_STATE_INPUT_REQUIRED", false),
        ("TASK_STATE_COMPLETED", true),
    ] {
        let update = json!({"statusUpdate": {"status": {"state": state}}});
        let update = streamed(LegacyMethod::Resubscribe, update);
        assert_eq!(
            update["final"], last,
            "a subscriber waits with the task: {state}"
        );
    }
    let chunk = json!({"artifactUpdate": {"taskId": "t", "contextId": "c", "append": true, "lastChunk": false,
        "artifact": {"artifactId": "a", "parts": [{"text": "<section 2...>"}]}}});
    assert_eq!(
        event(chunk),
        json!({"taskId": "t", "contextId": "c", "append": true, "lastChunk": false, "kind": "artifact-update",
            "artifact": {"artifactId": "a", "parts": [{"kind": "text", "text": "<section 2...>"}]}})
    );
}

#[test]
fn blocking_inverts_return_immediately() {
    let asked = |blocking: Value| {
        let given =
            json!({"message": {}, "configuration": {"blocking": blocking, "historyLength": 3}});
        up("message/send", given)["configuration"].clone()
    };
    assert_eq!(
        asked(json!(true)),
        json!({"returnImmediately": false, "historyLength": 3})
    );
    assert_eq!(asked(json!(false))["returnImmediately"], true);
    assert_eq!(asked(json!(null)), json!({"historyLength": 3}));
}

#[test]
fn files_go_both_ways() {
    let asked = json!({"message": {"role": "user", "messageId": "m", "parts": [
        {"kind": "file", "file": {"name": "input_image.png", "mimeType": "image/png", "bytes": "iVBORw0K"}},
        {"kind": "file", "file": {"uri": "https://storage.example.com/output.png?token=xyz"}},
    ]}});
    let sent = up("message/send", asked.clone());
    assert_eq!(
        sent["message"]["parts"],
        json!([
            {"raw": "iVBORw0K", "filename": "input_image.png", "mediaType": "image/png"},
            {"url": "https://storage.example.com/output.png?token=xyz"},
        ])
    );
    let back = downgrade::message(&sent["message"]);
    assert_eq!(back["parts"], asked["message"]["parts"]);
}

#[test]
fn push_configs_are_one_level_deeper() {
    let config = json!({"url": "https://client.example.com/webhook/a2a-notifications",
        "token": "secure-client-token-for-task-aaa", "authentication": {"schemes": ["Bearer"]}});
    let set = up(
        "tasks/pushNotificationConfig/set",
        json!({"taskId": "4366", "pushNotificationConfig": config}),
    );
    assert_eq!(
        set,
        json!({"taskId": "4366", "url": "https://client.example.com/webhook/a2a-notifications",
            "token": "secure-client-token-for-task-aaa", "authentication": {"scheme": "Bearer"}})
    );
    let kept = result(LegacyMethod::SetPush, set.clone()).unwrap();
    assert_eq!(
        kept,
        json!({"taskId": "4366", "pushNotificationConfig": config})
    );
    let listed = json!({"configs": [set], "nextPageToken": ""});
    assert_eq!(
        result(LegacyMethod::ListPush, listed.clone()).unwrap(),
        json!([kept.clone()])
    );
    assert_eq!(
        result(LegacyMethod::DeletePush, json!({})).unwrap(),
        Value::Null
    );

    let op = LegacyMethod::GetPush;
    let (op, asked) = params(op, Some(json!({"id": "4366"}))).unwrap();
    assert_eq!(
        (op, op.method(), asked),
        (
            LegacyMethod::AnyPush,
            "ListTaskPushNotificationConfigs",
            json!({"taskId": "4366"})
        )
    );
    assert_eq!(result(op, listed).unwrap(), kept);
    assert_eq!(result(op, json!({"configs": []})), Err(Wrong::NoPush));
    let named = json!({"id": "4366", "pushNotificationConfigId": "p"});
    assert_eq!(
        up("tasks/pushNotificationConfig/delete", named),
        json!({"taskId": "4366", "id": "p"})
    );
}

#[test]
fn what_no_version_can_mean_is_refused() {
    let part =
        |part: Value| json!({"message": {"role": "user", "messageId": "m", "parts": [part]}});
    for given in [
        json!([1]),
        json!({"message": {"role": "ROLE_USER"}}),
        json!({"message": {"role": 1}}),
        json!({"message": {"parts": "x"}}),
        json!({"message": {"kind": "task"}}),
        part(json!("x")),
        part(json!({"text": "no kind"})),
        part(json!({"kind": "text"})),
        part(json!({"kind": "picture"})),
        part(json!({"kind": "file", "file": {"name": "x"}})),
        part(json!({"kind": "file", "file": {"bytes": "", "uri": "x"}})),
        part(json!({"kind": "data", "data": [1]})),
    ] {
        let refused = params(LegacyMethod::Send, Some(given.clone()));
        assert!(matches!(refused, Err(Wrong::Params(_))), "{given}");
    }
    assert_eq!(
        params(LegacyMethod::Send, None),
        Ok((LegacyMethod::Send, json!({})))
    );
    assert!(params(LegacyMethod::SetPush, Some(json!({"taskId": "t"}))).is_err());
}

#[test]
fn maps_every_legacy_method() {
    for method in [
        "message/send",
        "message/stream",
        "tasks/get",
        "tasks/cancel",
        "tasks/resubscribe",
        "tasks/pushNotificationConfig/set",
        "tasks/pushNotificationConfig/get",
        "tasks/pushNotificationConfig/list",
        "tasks/pushNotificationConfig/delete",
        "agent/getAuthenticatedExtendedCard",
    ] {
        let op = LegacyMethod::named(method).unwrap();
        assert_eq!(LegacyMethod::named(op.method()), None);
    }
    assert_eq!(LegacyMethod::named("tasks/list"), None);
    assert_eq!(
        up(
            "tasks/get",
            json!({"id": "t", "historyLength": 2, "metadata": {}})
        ),
        json!({"id": "t", "historyLength": 2})
    );
}

#[test]
fn a_card_is_read_by_both() {
    let mut card = json!({
        "name": "Codex",
        "supportedInterfaces": [
            {"url": "http://h/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": "http://h/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
        ],
        "capabilities": {"streaming": true, "extendedAgentCard": true},
        "securitySchemes": {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
        "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
    });
    beside(&mut card);
    assert_eq!(card["url"], "http://h/a2a");
    assert_eq!(card["preferredTransport"], "JSONRPC");
    assert_eq!(card["protocolVersion"], "0.3.0");
    assert_eq!(
        card["additionalInterfaces"],
        json!([{"url": "http://h/a2a", "transport": "JSONRPC"}])
    );
    assert_eq!(card["supportsAuthenticatedExtendedCard"], true);
    assert_eq!(card["securitySchemes"]["bearer"]["type"], "http");
    assert_eq!(card["security"], json!([{"bearer": []}]));

    let mut open = json!({
        "supportedInterfaces": card["supportedInterfaces"],
        "capabilities": {"extendedAgentCard": true},
    });
    beside(&mut open);
    assert!(open.get("supportsAuthenticatedExtendedCard").is_none());

    let mut newer = json!({"supportedInterfaces": [{"url": "u", "protocolVersion": "1.0"}]});
    let before = newer.clone();
    beside(&mut newer);
    assert_eq!(newer, before);
}

/// A small generator, so that a failure can be found again by its number.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % sides
    }

    fn value(&mut self, depth: u64) -> Value {
        match self.roll(4 + 2 * depth.min(1)) {
            0 => json!(self.roll(1000)),
            1 => json!("value"),
            2 => json!(false),
            3 => json!({"value": self.roll(9), "kind": "text"}),
            4 => json!([self.value(depth - 1), null]),
            _ => json!({"data": self.value(depth - 1), "text": "x"}),
        }
    }

    fn part(&mut self) -> Value {
        let mut part = match self.roll(4) {
            0 => json!({"text": format!("t{}", self.roll(9))}),
            1 => json!({"data": self.value(2)}),
            2 => json!({"raw": "AAAA"}),
            _ => json!({"url": "https://example.com/x"}),
        };
        if part.get("raw").or(part.get("url")).is_some() && self.roll(2) == 0 {
            part["filename"] = json!("a.txt");
            part["mediaType"] = json!("text/plain");
        }
        if self.roll(3) == 0 {
            part["metadata"] = json!({"hint": self.value(1)});
        }
        part
    }

    fn message(&mut self) -> Value {
        let role = ["ROLE_USER", "ROLE_AGENT"][usize::from(self.roll(2) == 0)];
        let parts: Vec<Value> = (0..self.roll(4)).map(|_| self.part()).collect();
        let mut message = json!({"messageId": "m", "role": role, "parts": parts});
        for (name, value) in [
            ("contextId", json!("c")),
            ("taskId", json!("t")),
            ("metadata", json!({"a": self.value(1)})),
            ("extensions", json!(["https://example.com/e"])),
            ("referenceTaskIds", json!(["r"])),
        ] {
            if self.roll(2) == 0 {
                message[name] = value;
            }
        }
        message
    }
}

#[test]
fn what_goes_down_comes_up_the_same() {
    for seed in 0..2000 {
        let message = Dice(seed).message();
        let old = downgrade::message(&message);
        assert_eq!(old["kind"], "message");
        assert_eq!(
            upgrade::message(&old).unwrap(),
            message,
            "seed {seed}: {old}"
        );
    }
}
