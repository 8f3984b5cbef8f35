//! Tests of what needs no platform: secrets, waiting calls, and calls without a row.

use super::*;
use bridge_core::value::{ChannelId, Tier};

#[test]
fn threat_only_newest_secret_is_accepted() {
    let pushes = Pushes::default();
    assert!(!pushes.accepts("") && !pushes.accepts("first"));
    pushes.learn_secret("");
    assert!(!pushes.accepts(""), "an empty secret is none");
    pushes.learn_secret("first");
    assert!(pushes.accepts("first"));
    pushes.learn_secret("second");
    assert!(pushes.accepts("second") && !pushes.accepts("first"));
    assert_eq!(pushes.secrets().len(), 2, "both stay out of replies");
    assert!(!format!("{pushes:?}").contains("second"));
}

#[tokio::test]
async fn answers_reach_calls_that_wait() {
    let pushes = Pushes::default();
    let (one, other) = (ExternalId::new("one"), ExternalId::new("other"));
    let mut first = pushes.wait_for(&one).unwrap();
    let mut second = pushes.wait_for(&one).unwrap();
    assert!(!pushes.hand(&other, &Value::Null), "nobody waits for it");
    assert!(pushes.hand(&one, &json!("hello")));
    assert_eq!(first.answer().await, Some(json!("hello")));
    assert_eq!(second.answer().await, Some(json!("hello")));
    drop(pushes.wait_for(&one));
    assert!(!pushes.is_waited_for(&one), "a caller that hung up");
    let many: Vec<_> = (0..300).filter_map(|_| pushes.wait_for(&one)).collect();
    assert_eq!(many.len(), 256);
}

/// A caller can write every mark of the platform into a body; without a row it is nobody's.
#[test]
fn threat_calls_without_rows_are_peers() {
    let channel = ChannelId::new("molecule:x");
    let nobody = Origins::default();
    for source in ["canvas_user", "telegram", "github", "x"] {
        let call = json!({"id": 1, "method": "message/send", "params": {
            "message": {"messageId": "m", "parts": [{"kind": "text", "text": "/stop it now"}]},
            "metadata": {"source": source, "user_id": "7", "user_identity_status": "AUTHENTICATED"},
        }});
        let context = RowContext {
            own: "w",
            channel: &channel,
            origins: &nobody,
        };
        let Reading::Message(incoming) = row::read(&row_of(&call, "m"), context) else {
            panic!("{source}");
        };
        assert_eq!(incoming.arrival.tier, Tier::Peer, "{source}");
        assert_eq!(incoming.arrival.sender, "unmarked", "{source}");
        assert_eq!(incoming.arrival.conversation, "unmarked:w", "{source}");
    }
}

#[test]
fn only_real_answers_count_as_answered() {
    let row = |response: Value| {
        let raw = json!({"id": "r", "response_body": response}).to_string();
        Row::split(&RawValue::from_string(raw).unwrap())
    };
    let message = json!({"kind": "message", "parts": []});
    assert!(is_answered(&row(rpc_result(json!(1), message))));
    for other in [
        Value::Null,
        receipt(),
        rpc_error(json!(1), -1, "x"),
        json!({"result": "bubble"}),
    ] {
        assert!(!is_answered(&row(other.clone())), "{other}");
    }
}
