//! How long a turn waited for people, and what fits a question.

use super::*;
use bridge_core::value::{IncarnationId, RequestState};
use serde_json::json;

fn request(from: i64, state: RequestState) -> Request {
    Request {
        request_id: RequestId::new(format!("r{from}")),
        message_id: MessageId::new("m"),
        attempt: 1,
        incarnation: IncarnationId::new("i"),
        rpc_id: "0".to_owned(),
        item_id: None,
        method: "item/tool/requestUserInput".to_owned(),
        kind: RequestKind::UserInput,
        headline: "asks".to_owned(),
        shown: "asks".to_owned(),
        digest: EffectDigest::of(&RequestKind::UserInput, "asks"),
        payload: json!({"threadId": "t", "turnId": "u", "itemId": "i", "isBlocking": true,
            "questions": [{"id": "q", "question": "?"}]})
        .to_string(),
        wants: Wants::Text,
        deciders: Deciders::Owner,
        state,
        created_at: Timestamp(from),
        deadline: Timestamp(from + 1_000),
        reminded: false,
        told_again: 0,
    }
}

fn standing(from: i64, state: RequestState) -> Standing {
    Standing {
        request_id: RequestId::new(format!("r{from}")),
        attempt: 1,
        incarnation: IncarnationId::new("i"),
        rpc_id: "0".to_owned(),
        item_id: None,
        state,
        created_at: Timestamp(from),
        told_again: 0,
    }
}

fn decided(from: i64, to: i64) -> Standing {
    let verdict = RequestVerdict::own(RequestDecision::Decline, "cli", Timestamp(to));
    standing(from, RequestState::Decided(verdict))
}

#[test]
fn waits_that_overlap_count_once() {
    let now = Timestamp(1_000);
    let all = [
        decided(100, 300),
        decided(200, 250),
        decided(290, 400),
        standing(900, RequestState::Open),
        standing(500, RequestState::Orphaned),
    ];
    assert_eq!(waited(&all, now), Duration::from_millis(400));
    assert_eq!(waited(&[], now), Duration::ZERO);
    assert_eq!(open(&all).len(), 1);
}

#[test]
fn answers_are_validated_against_request() {
    let asked = request(0, RequestState::Open);
    let with = |answers: Option<&str>| RequestVerdict {
        answers: answers.map(str::to_owned),
        ..RequestVerdict::own(RequestDecision::Accept, "cli", Timestamp(0))
    };
    assert_eq!(misfit(&asked, &with(Some(r#"{"q": "red"}"#))), None);
    assert_eq!(misfit(&asked, &with(Some(r#""red""#))), None);
    for answers in [None, Some("{"), Some("null"), Some(r#"{"other": "red"}"#)] {
        assert!(misfit(&asked, &with(answers)).is_some(), "{answers:?}");
    }
    let no = RequestVerdict::own(RequestDecision::Decline, "cli", Timestamp(0));
    assert_eq!(misfit(&asked, &no), None);
}
