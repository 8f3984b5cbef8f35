//! The fake Codex is believed only as far as it says what the real one says: the same conversation is held with
//! both, over pipes and over two lives, and compared as our wire types read it, message by message.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't go on must fail where it stands"
)]

mod peer;
mod plain;

use bridge_sim::{Options, ScriptedModel, codex_for_tests};
use peer::{Home, Peer};
use serde_json::{Value, json};
use std::path::Path;

const FAKE: &str = env!("CARGO_BIN_EXE_fake-codex");

fn settings(home: &Home) -> Value {
    json!({"cwd": home.work(), "sandbox": "workspace-write", "approvalPolicy": "on-request",
           "approvalsReviewer": "user"})
}

fn with(mut params: Value, more: &Value) -> Value {
    let more = more.as_object().unwrap().clone();
    params.as_object_mut().unwrap().extend(more);
    params
}

fn turn(thread: &Value, client_id: &str, text: &str) -> Value {
    json!({"threadId": thread, "clientUserMessageId": client_id, "input": [{"type": "text", "text": text}]})
}

/// Two turns, one of them interrupted; a second life that resumes, looks and goes on; and what it refuses.
async fn converse(bin: &Path, home: &Home) -> Vec<String> {
    let mut codex = Peer::start(bin, home).await;
    codex
        .call("account/read", json!({"refreshToken": false}))
        .await;
    let opened = codex.call("thread/start", settings(home)).await;
    let thread = opened["thread"]["id"].clone();
    codex.until("thread/started").await;
    codex
        .call("turn/start", turn(&thread, "m.1", "echo:one"))
        .await;
    codex.until("turn/completed").await;
    let started = codex
        .call("turn/start", turn(&thread, "m.2", "hold:gate echo:hold"))
        .await;
    codex.until("item/completed").await;
    let stop = json!({"threadId": thread, "turnId": started["turn"]["id"]});
    codex.call("turn/interrupt", stop).await;
    codex.until("turn/completed").await;
    let named = json!({ "threadId": thread });
    codex.call("thread/backgroundTerminals/clean", named).await;
    let nobody = json!("01a1e1cc-c524-7350-b521-999f85cd734d");
    codex
        .call("turn/start", turn(&nobody, "m.3", "echo:no"))
        .await;
    let mut said = codex.end().await;

    let mut codex = Peer::start(bin, home).await;
    codex
        .call("turn/start", turn(&thread, "m.3", "echo:no"))
        .await;
    let page = json!({"itemsView": "full", "limit": 5, "sortDirection": "desc"});
    let ask = json!({"threadId": thread, "excludeTurns": true, "initialTurnsPage": page});
    codex
        .call("thread/resume", with(ask, &settings(home)))
        .await;
    codex.until("thread/tokenUsage/updated").await;
    codex
        .call("turn/start", turn(&thread, "m.4", "echo:two"))
        .await;
    codex.until("turn/completed").await;
    let page =
        json!({"threadId": thread, "itemsView": "full", "limit": 2, "sortDirection": "desc"});
    let newer = codex.call("thread/turns/list", page.clone()).await;
    let cursor = json!({"cursor": newer["nextCursor"]});
    codex.call("thread/turns/list", with(page, &cursor)).await;
    codex
        .call("thread/resume", json!({ "threadId": nobody }))
        .await;
    said.extend(codex.end().await);
    said
}

#[tokio::test]
async fn fake_matches_real_codex() {
    let model = ScriptedModel::start(Options::default()).await.unwrap();
    let home = Home::new(&model.codex_config());
    let real = converse(&codex_for_tests().unwrap(), &home).await;
    let home = Home::new("");
    let fake = converse(Path::new(FAKE), &home).await;
    for (at, (real, fake)) in real.iter().zip(&fake).enumerate() {
        assert_eq!(fake, real, "message {at}");
    }
    assert_eq!(fake.len(), real.len(), "{fake:#?}\n{real:#?}");
    assert!(
        real.len() > 40,
        "the whole conversation was compared: {real:#?}"
    );
}

#[tokio::test]
async fn invalid_script_is_refused() {
    let home = Home::new("");
    home.script(r#"{"at": "turn/start", "do": "dance"}"#);
    let (code, stderr) = peer::fails(Path::new(FAKE), &home).await;
    assert_eq!(code, Some(2));
    assert!(stderr.contains("fake.jsonl"), "{stderr}");
    assert!(stderr.contains("dance"), "{stderr}");
}
