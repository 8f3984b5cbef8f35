//! Streams as each binding writes them; what is told in them is the tellers' business.

use super::{World, by, says, says_in};
use crate::audit::asks;
use crate::desk::Put;
use axum::body::Body;
use bridge_core::port::Change;
use bridge_core::value::{Deciders, RequestKind, Wants};
use bridge_front::Desk;
use futures_util::StreamExt;
use serde_json::{Value, json};

struct Events(axum::body::BodyDataStream);

impl Events {
    async fn open(world: &World, path: &str, body: &Value) -> Self {
        let body = match body.is_null() {
            true => Body::empty(),
            false => Body::from(body.to_string()),
        };
        let request = by("ann", "POST", path).body(body).unwrap();
        let response = tower::ServiceExt::oneshot(world.router.clone(), request).await;
        let response = response.unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self(response.into_body().into_data_stream())
    }

    /// The next event with its id; nothing when the stream is over.
    async fn next(&mut self) -> Option<(Option<u64>, Value)> {
        loop {
            let chunk = self.0.next().await?.unwrap();
            let text = std::str::from_utf8(&chunk).unwrap();
            let field = |name: &str| {
                let mut lines = text.lines();
                lines.find_map(|line| line.strip_prefix(name).map(str::trim))
            };
            if let Some(data) = field("data:") {
                let id = field("id:").map(|id| id.parse().unwrap());
                return Some((id, serde_json::from_str(data).unwrap()));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_begins_with_the_task_and_ends_with_it() {
    let world = World::new().await;
    let rpc = json!({
        "jsonrpc": "2.0", "id": "s", "method": "SendStreamingMessage",
        "params": {"message": says("hello")},
    });
    let mut events = Events::open(&world, "/a2a", &rpc).await;
    let (first, event) = events.next().await.unwrap();
    assert_eq!(
        (&event["jsonrpc"], &event["id"]),
        (&json!("2.0"), &json!("s"))
    );
    assert_eq!(event["result"]["task"]["id"], "e1");
    let mut more = Events::open(&world, "/a2a/tasks/e1:subscribe", &Value::Null).await;
    let (_, snapshot) = more.next().await.unwrap();
    assert_eq!(snapshot["task"]["id"], "e1");
    world.answers("m1", "hi there").await;
    let mut last = (first.unwrap(), Value::Null);
    while let Some((id, event)) = events.next().await {
        let id = id.unwrap();
        assert_eq!(id, last.0 + 1, "without a gap");
        last = (id, event["result"].clone());
    }
    let state = &last.1["statusUpdate"]["status"]["state"];
    assert_eq!(state, "TASK_STATE_COMPLETED");
    let mut same = Value::Null;
    while let Some((_, event)) = more.next().await {
        same = event;
    }
    assert_eq!(same, last.1, "every subscriber is told the same");
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_where_its_client_must_speak_and_a_subscription_waits() {
    let world = World::new().await;
    let body = json!({"message": says("paint")});
    let mut sent = Events::open(&world, "/a2a/message:stream", &body).await;
    sent.next().await.unwrap();
    world.answers("m1", "Which colour?\n[input-required]").await;
    let mut last = Value::Null;
    while let Some((_, event)) = sent.next().await {
        last = event;
    }
    let state = &last["statusUpdate"]["status"]["state"];
    assert_eq!(state, "TASK_STATE_INPUT_REQUIRED");
    let mut waits = Events::open(&world, "/a2a/tasks/e1:subscribe", &Value::Null).await;
    let (_, snapshot) = waits.next().await.unwrap();
    let state = &snapshot["task"]["status"]["state"];
    assert_eq!(state, "TASK_STATE_INPUT_REQUIRED");
    world.gives("ann", says_in("e1", "red")).await;
    world.answers("m2", "done").await;
    let mut last = Value::Null;
    while let Some((_, event)) = waits.next().await {
        last = event;
    }
    let state = &last["statusUpdate"]["status"]["state"];
    assert_eq!(state, "TASK_STATE_COMPLETED");
    let late = world
        .rpc("ann", "SubscribeToTask", json!({"id": "e1"}))
        .await;
    assert_eq!(late["error"]["code"], -32004, "nothing more happens to it");
}

#[tokio::test(start_paused = true)]
async fn an_empty_prompt_streams_one_message() {
    let world = World::new().await;
    let body = json!({"message": says(" ")});
    let mut events = Events::open(&world, "/a2a/message:stream", &body).await;
    let (_, event) = events.next().await.unwrap();
    assert_eq!(event["message"]["role"], "ROLE_AGENT");
    assert!(events.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_stored_is_not_refused_because_nobody_can_tell_of_it() {
    let world = World::new().await;
    world.desk.falls_mute();
    let body = json!({"message": says("hello")});
    let mut events = Events::open(&world, "/a2a/message:stream", &body).await;
    let (id, event) = events.next().await.unwrap();
    assert_eq!((id, &event["task"]["id"]), (None, &json!("e1")));
    assert!(events.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_fit_streams_the_task_with_its_number() {
    let world = World::new().await;
    world.gives("ann", says("paint")).await;
    let mut rows = asks("m1", world.desk.now());
    for row in &mut rows {
        if let Change::NewRequest(request) = row {
            request.kind = RequestKind::UserInput;
            request.deciders = Deciders::Sender;
            request.wants = Wants::Form;
        }
    }
    world.desk.does(Put(rows)).await.unwrap();
    let mut message = says_in("e1", "");
    message["parts"] = json!([{"data": {"decision": "perhaps"}}]);
    let body = json!({"message": message});
    let mut events = Events::open(&world, "/a2a/message:stream", &body).await;
    let (id, event) = events.next().await.unwrap();
    let status = &event["task"]["status"];
    assert_eq!(status["state"], "TASK_STATE_INPUT_REQUIRED", "{event}");
    let why = status["message"]["parts"][0]["text"].as_str().unwrap();
    assert!(why.contains("does not fit"), "{why}");
    assert!(id.is_some(), "{event}");
    assert_eq!(
        event["task"]["metadata"]["codex-bridge/sequence"],
        json!(id)
    );
    assert!(events.next().await.is_none());
}
