//! What is written: bubbles, messages of peers, who may, and what is stored of it.

use bridge_sim::molecule::{AutoAnswer, Edition};
use reqwest::Method;
use serde_json::json;

use crate::rig::{Rig, message, said, texts};

#[tokio::test]
async fn duplicate_bubbles_are_kept_nul_dropped() {
    let rig = Rig::start(Edition::New).await;
    for text in ["hi", "hi", "a\0b"] {
        let answer = rig.notify(&rig.alpha, &json!({"message": text})).await;
        assert_eq!(answer, (200, json!({"status": "sent"})));
    }
    let bubbles = rig.platform.wait_for_bubbles(&rig.alpha, 2).await.unwrap();
    let shown: Vec<&str> = bubbles.iter().map(|bubble| bubble.text.as_str()).collect();
    assert_eq!(shown, ["hi", "hi"]);
    let echoes = rig
        .page(&rig.alpha, "?source=canvas&type=a2a_receive")
        .await;
    assert_eq!(texts(&echoes), ["hi", "hi"]);
}

#[tokio::test]
async fn only_new_edition_deduplicates_message_ids() {
    for (edition, stored) in [
        (Edition::Seed, vec!["first", "second"]),
        (Edition::New, vec!["first"]),
    ] {
        let rig = Rig::start(edition).await;
        for text in ["first", "second"] {
            let (status, receipt) = rig.send(&rig.alpha, &rig.beta, &message("m1", text)).await;
            assert_eq!((status, &receipt["status"]), (200, &json!("queued")));
        }
        let inbox = rig
            .platform
            .wait_for_inbox(&rig.beta, stored.len())
            .await
            .unwrap();
        let got: Vec<&str> = inbox.iter().map(|letter| letter.text.as_str()).collect();
        assert_eq!(got, stored);
        assert_eq!(inbox[0].source.as_ref(), Some(&rig.alpha.id));
        assert_eq!(inbox[0].message_id.as_deref(), Some("m1"));
    }
}

#[tokio::test]
async fn nul_message_is_accepted_but_not_stored() {
    let rig = Rig::start(Edition::New).await;
    let (status, _) = rig
        .send(&rig.alpha, &rig.beta, &message("m1", "a\0b"))
        .await;
    assert_eq!(status, 200);
    assert!(rig.platform.inbox_of(&rig.beta).is_empty());
}

#[tokio::test]
async fn only_new_edition_returns_413() {
    for (edition, bytes, status) in [(Edition::Seed, 2 << 20, 400), (Edition::New, 17 << 20, 413)] {
        let rig = Rig::start(edition).await;
        let body = message("m1", &"x".repeat(bytes));
        assert_eq!(rig.send(&rig.alpha, &rig.beta, &body).await.0, status);
        assert!(rig.platform.inbox_of(&rig.beta).is_empty());
    }
}

#[tokio::test]
async fn a_stranger_may_not_write() {
    for edition in [Edition::Seed, Edition::New] {
        let rig = Rig::start(edition).await;
        let stranger = rig.platform.add_stranger("mallory");
        let (status, _) = rig.send(&stranger, &rig.alpha, &message("m1", "hi")).await;
        assert_eq!(status, 403);
    }
}

#[tokio::test]
async fn non_message_method_is_still_stored() {
    let rig = Rig::start(Edition::New).await;
    let body = json!({"method": "tasks/get", "params": {"id": "t1"}});
    let (status, receipt) = rig.send(&rig.alpha, &rig.beta, &body).await;
    assert_eq!((status, &receipt["method"]), (200, &json!("tasks/get")));
    let page = rig.page(&rig.beta, "?type=a2a_receive").await;
    assert_eq!(page[0]["method"], "tasks/get");
    assert!(rig.platform.inbox_of(&rig.beta).is_empty());
}

#[tokio::test]
async fn auto_answer_respects_its_limit() {
    let rig = Rig::start(Edition::New).await;
    let auto = AutoAnswer {
        text: "and you?".to_owned(),
        echo_metadata: true,
        at_most: 1,
    };
    rig.platform.answering(&rig.beta, auto);
    for id in ["m1", "m2"] {
        let mut body = message(id, "hello");
        body["params"]["message"]["metadata"] = json!({"hops": 3});
        rig.send(&rig.alpha, &rig.beta, &body).await;
    }
    let inbox = rig.platform.inbox_of(&rig.alpha);
    assert_eq!(inbox.len(), 1);
    assert_eq!(inbox[0].text, "and you?");
    assert_eq!(inbox[0].metadata, json!({"hops": 3}));
    assert_eq!(inbox[0].source.as_ref(), Some(&rig.beta.id));
}

#[tokio::test]
async fn only_seed_edition_keeps_parts_unchanged() {
    for (edition, key) in [(Edition::Seed, "type"), (Edition::New, "kind")] {
        let rig = Rig::start(edition).await;
        let body = json!({"method": "message/send", "params": {"message": {"parts": [{"type": "text", "text": "x"}]}}});
        rig.send(&rig.alpha, &rig.beta, &body).await;
        let stored = &rig.platform.inbox_of(&rig.beta)[0].body;
        assert_eq!(stored["params"]["message"]["parts"][0][key], "text");
        let role = stored.pointer("/params/message/role");
        assert_eq!(role.is_some(), edition == Edition::New);
    }
}

#[tokio::test]
async fn disabled_talk_to_user_is_forbidden() {
    let rig = Rig::start(Edition::New).await;
    rig.platform.allow_talk(&rig.alpha, false);
    let (status, body) = rig.notify(&rig.alpha, &json!({"message": "x"})).await;
    assert_eq!(
        (status, &body["error"]),
        (403, &json!("talk_to_user_disabled"))
    );
    let history = rig
        .own(Method::GET, &rig.alpha, "/chat-history")
        .send()
        .await;
    let (_, history) = said(history.unwrap()).await;
    assert_eq!(history, json!({"messages": [], "reached_end": true}));
}
