//! Rows as the recordings show them, and rows that nobody should send.

use super::origin::Origin;
use super::*;
use crate::molecule::row::parts::FileSource;
use serde_json::json;

const OWN: &str = "92dc3f8b-0432-4ea1-9075-9e8c83a1e608";
const PEER: &str = "649316f0-996b-40bc-a0a1-b8b417e6f652";
const ROW: &str = "b5e80fd0-f1b2-487e-a8af-ea98953ea6dd";

fn reading(value: &Value) -> Reading {
    let raw = RawValue::from_string(value.to_string()).unwrap();
    let channel = ChannelId::new(format!("molecule:{OWN}"));
    let origins = Origins::of([Origin::Canvas, Origin::Unmarked], Tier::Owner);
    let ground = RowContext {
        own: OWN,
        channel: &channel,
        origins: &origins,
    };
    read(&Row::split(&raw), ground)
}

fn incoming(value: &Value) -> Incoming {
    match reading(value) {
        Reading::Message(incoming) => *incoming,
        other @ (Reading::NoMessage | Reading::Platform(_) | Reading::Nothing(_)) => {
            panic!("{value}: {other:?}")
        }
    }
}

fn row(source: Value, message: Value) -> Value {
    json!({
        "id": ROW, "workspace_id": OWN, "activity_type": "a2a_receive", "method": "message/send",
        "source_id": source, "created_at": "2026-11-15T20:00:13.57267Z", "seq": 3,
        "request_body": {"jsonrpc": "2.0", "method": "message/send", "params": {"message": message}},
    })
}

fn text(text: &str) -> Value {
    json!({"parts": [{"kind": "text", "text": text}]})
}

fn notified(incoming: &Incoming) -> Option<bool> {
    match incoming.arrival.verdict {
        Verdict::Fit => None,
        Verdict::Unfit { tell, .. } => Some(tell),
    }
}

#[test]
fn sender_comes_from_platform_fields() {
    let canvas = incoming(&row(Value::Null, text("hi"))).arrival;
    assert_eq!(canvas.conversation, format!("canvas:{OWN}"));
    assert_eq!(
        (canvas.kind, canvas.tier),
        (SenderKind::Person, Tier::Owner)
    );
    assert_eq!(
        (canvas.sender.as_str(), canvas.body.as_str()),
        ("canvas", "hi")
    );
    assert_eq!(canvas.external_id.as_str(), ROW);
    let peer = incoming(&row(json!(PEER), text("hi"))).arrival;
    assert_eq!(peer.conversation, format!("peer:{PEER}"));
    assert_eq!((peer.kind, peer.tier), (SenderKind::Agent, Tier::Peer));
    assert_eq!(peer.sender, PEER);
    let mut bare = row(json!(""), text("hi"));
    bare.as_object_mut().unwrap().remove("workspace_id");
    assert_eq!(
        incoming(&bare).arrival.conversation,
        format!("canvas:{OWN}")
    );
}

#[test]
fn text_parts_are_joined_by_newline() {
    let parts =
        json!([{"kind": "text", "text": "a"}, {"type": "text", "text": "b"}, {"kind": "data"}]);
    let mut flat = row(Value::Null, json!({}));
    flat["request_body"] = json!({"params": {"parts": parts}});
    let mut bare = flat.clone();
    bare["request_body"] = json!({"parts": parts});
    let nested = row(Value::Null, json!({"parts": parts}));
    for row in [nested, flat, bare] {
        assert_eq!(incoming(&row).arrival.body, "a\nb", "{row}");
    }
}

#[test]
fn what_is_no_message_is_passed_over() {
    let with = |name: &str, value: Value| {
        let mut row = row(Value::Null, text("hi"));
        row[name] = value;
        row
    };
    for row in [
        with("method", json!("notify")),
        with("method", json!("chat_upload_receive")),
        with("method", json!("tasks/get")),
        with("method", Value::Null),
        with("activity_type", json!("delegation")),
        with("source_id", json!(OWN)),
        with("source_id", json!(OWN.to_uppercase())),
    ] {
        assert!(matches!(reading(&row), Reading::NoMessage), "{row}");
    }
    let mut result = row(json!(OWN), text("hi"));
    result["method"] = json!("delegate_result");
    assert!(matches!(reading(&result), Reading::NoMessage));
}

#[test]
fn unreadable_row_is_reported_to_sender() {
    let with = |source: Value, body: Value| {
        let mut row = row(source, json!({}));
        row["request_body"] = body;
        row
    };
    for (row, tell) in [
        (with(Value::Null, Value::Null), true),
        (with(Value::Null, json!("nonsense")), true),
        (with(json!(PEER), json!({"params": 7})), true),
        (
            with(
                json!(PEER),
                json!({"parts": [{"kind": "text", "text": "a\u{0}b"}]}),
            ),
            true,
        ),
        (
            with(
                json!("nobody"),
                json!({"parts": [{"kind": "text", "text": "hi"}]}),
            ),
            false,
        ),
        (
            with(json!(7), json!({"parts": [{"kind": "text", "text": "hi"}]})),
            false,
        ),
    ] {
        let incoming = incoming(&row);
        assert_eq!(notified(&incoming), Some(tell), "{row}");
        assert!(!incoming.arrival.body.contains('\0'));
    }
    for row in [json!(null), json!(7), json!({"id": 7}), json!({"id": ""})] {
        assert!(matches!(reading(&row), Reading::Nothing(_)), "{row}");
    }
}

#[test]
fn empty_messages_and_files_are_fit() {
    let empty = incoming(&row(Value::Null, text(" \n")));
    assert_eq!(empty.arrival.verdict, Verdict::Fit);
    assert_eq!(empty.arrival.body.trim(), "");
    let file =
        json!({"uri": "platform-pending:w/f", "name": "a.png", "mimeType": "image/png", "size": 7});
    let parts = json!({"parts": [{"kind": "file", "file": file}, {"kind": "file"}]});
    let incoming = incoming(&row(Value::Null, parts));
    assert_eq!(notified(&incoming), None);
    let part = FilePart {
        source: FileSource::Uri("platform-pending:w/f".to_owned()),
        name: "a.png".to_owned(),
        mime: Some("image/png".to_owned()),
    };
    assert_eq!(incoming.files, [part]);
}

#[test]
fn peers_carry_hops_but_no_commands() {
    let message = |text: &str| {
        json!({
            "parts": [{"kind": "text", "text": text}], "contextId": "talk-1",
            "metadata": {"codex_bridge_hops": 3},
        })
    };
    let canvas = incoming(&row(Value::Null, message("/stop"))).arrival.extras;
    assert_eq!(canvas.context.as_deref(), Some("talk-1"));
    assert_eq!((canvas.hops, canvas.command), (0, Some(Command::Stop)));
    let peer = incoming(&row(json!(PEER), message("/stop"))).arrival.extras;
    assert_eq!((peer.hops, peer.command), (3, None));
    let odd = json!({"parts": [{"kind": "text", "text": "x"}], "contextId": "a\nb", "metadata": 7});
    let odd = incoming(&row(json!(PEER), odd)).arrival.extras;
    assert_eq!((odd.context, odd.hops), (None, 0));
}

#[test]
fn d1_only_owners_give_commands() {
    let said = |text: &str| json!({"messageId": "m1", "role": "user", "parts": [{"kind": "text", "text": text}]});
    let telegram = |text: &str| {
        let mut row = row(Value::Null, said(text));
        row["summary"] = json!("message/send → alpha (queued for poll)");
        row["request_body"]["id"] = json!("1");
        row["request_body"]["params"]["metadata"] =
            json!({"source": "telegram", "user_id": "777", "chat_id": "42"});
        incoming(&row)
    };
    for text in [
        "/stop",
        "/new",
        "/status",
        "approve wejr19",
        "decline wejr19",
    ] {
        let refused = telegram(text);
        assert_eq!(notified(&refused), Some(true), "{text}");
        assert_eq!(refused.arrival.extras.command, None);
        assert_eq!(refused.arrival.tier, Tier::Peer);
    }
    let message = telegram("hello");
    assert_eq!(notified(&message), None);
    assert_eq!(message.arrival.conversation, "telegram:42");
    assert_eq!(message.arrival.sender, "telegram:777@42");
    let answer = telegram("answer wejr19 blue").arrival.extras.command;
    assert!(matches!(answer, Some(Command::Answer { .. })), "{answer:?}");
}

#[test]
fn d1_a_probe_is_no_message() {
    let with = |kind: &str| {
        let mut message = text("Liveness check");
        message["metadata"] = json!({"source": "platform", "source_type": kind});
        reading(&row(Value::Null, message))
    };
    assert!(matches!(
        with("self-stall"),
        Reading::Platform(Notice::Stall)
    ));
    let nudge = with("self-nudge");
    assert!(matches!(nudge, Reading::Platform(Notice::Other(kind)) if kind == "self-nudge"));
}

#[test]
fn d5_unreadable_parts_alone_are_refused_aloud() {
    let parts = json!({"parts": [{"kind": "video", "video": {}}]});
    let Verdict::Unfit { reason, tell } = incoming(&row(json!(PEER), parts)).arrival.verdict else {
        panic!("nothing to work on");
    };
    assert!(tell && reason.contains("\"video\""), "{reason}");
}

#[test]
fn d5_an_answer_comes_without_other_parts() {
    for part in [json!({"data": {"a": 1}}), json!({"kind": "video"})] {
        let parts = json!({"parts": [{"text": "answer abcdef yes"}, part]});
        let incoming = incoming(&row(Value::Null, parts));
        assert_eq!(incoming.arrival.extras.command, None);
        assert!(incoming.arrival.body.len() > "answer abcdef yes".len());
    }
}
