//! Event streams as each binding writes them.

use super::{World, by, says, says_in};
use crate::audit::{asks, becomes};
use crate::service::Put;
use axum::body::Body;
use axum::http::Request;
use bridge_core::port::Change;
use bridge_core::value::{Deciders, Life, MessageId, MessageState, RequestKind, StateName, Wants};
use bridge_front::BridgeService;
use futures_util::StreamExt;
use serde_json::{Value, json};

struct Events(axum::body::BodyDataStream);

impl Events {
    async fn open(world: &World, path: &str, body: &Value) -> Self {
        let body = if body.is_null() {
            Body::empty()
        } else {
            Body::from(body.to_string())
        };
        Self::of(world, by("ann", "POST", path).body(body).unwrap()).await
    }

    /// Subscribes to the first task behind an event, in our way or not.
    async fn behind(world: &World, seq: u64, extensions: &str) -> Self {
        let request = behind(seq, extensions).body(Body::empty()).unwrap();
        Self::of(world, request).await
    }

    async fn of(world: &World, request: Request<Body>) -> Self {
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

fn behind(seq: u64, extensions: &str) -> axum::http::request::Builder {
    by("ann", "POST", "/a2a/tasks/e1:subscribe")
        .header("Last-Event-ID", seq.to_string())
        .header("A2A-Extensions", extensions)
}

#[tokio::test(start_paused = true)]
async fn stream_starts_and_ends_with_task() {
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
    assert_eq!(same, last.1, "every subscriber gets the same");
}

#[tokio::test(start_paused = true)]
async fn send_stream_ends_at_input_required() {
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

const RESUME: &str =
    "https://github.com/codex-bridge/codex-bridge/blob/main/docs/guides/a2a.md#resume";

#[tokio::test(start_paused = true)]
async fn subscriber_gets_snapshot_unless_resuming() {
    let world = World::new().await;
    let body = json!({"message": says("hello")});
    let mut sent = Events::open(&world, "/a2a/message:stream", &body).await;
    let first = sent.next().await.unwrap().0.unwrap();
    let both = format!("https://example.com/other, {RESUME}");
    let mut plain = Events::behind(&world, first, "https://example.com/other").await;
    let (seq, event) = plain.next().await.unwrap();
    assert_eq!((seq, &event["task"]["id"]), (Some(first), &json!("e1")));
    let mut ours = Events::behind(&world, first, &both).await;
    world.answers("m1", "hi there").await;
    let (seq, event) = ours.next().await.unwrap();
    assert_eq!(seq, Some(first + 1));
    assert!(event.get("task").is_none(), "{event}");
    let mut last = first;
    while let Some((seq, _)) = plain.next().await {
        last = seq.unwrap();
    }
    let mut end = Events::behind(&world, last - 1, RESUME).await;
    let (_, event) = end.next().await.unwrap();
    let state = &event["statusUpdate"]["status"]["state"];
    assert_eq!(state, "TASK_STATE_COMPLETED");
    let refused = world.call(behind(last - 1, ""), String::new()).await;
    let reason = &refused.json()["error"]["details"][0]["reason"];
    assert_eq!(reason, "UNSUPPORTED_OPERATION", "{}", refused.text);
}

#[tokio::test(start_paused = true)]
async fn retried_task_can_be_subscribed_again() {
    let world = World::new().await;
    let body = json!({"message": says("hello")});
    let mut sent = Events::open(&world, "/a2a/message:stream", &body).await;
    sent.next().await.unwrap();
    let now = world.service.now();
    let reason = "it broke".to_owned();
    let dies = becomes("m1", MessageState::Dead { reason }, now);
    world.service.does(Put(vec![dies])).await.unwrap();
    let mut last = (0, Value::Null);
    while let Some((seq, event)) = sent.next().await {
        last = (seq.unwrap(), event);
    }
    let state = &last.1["statusUpdate"]["status"]["state"];
    assert_eq!(state, "TASK_STATE_FAILED");
    let again = Change::UpdateState {
        message_id: MessageId::new("m1"),
        from: StateName::Dead,
        life: Life::new(now),
    };
    world.service.does(Put(vec![again])).await.unwrap();
    let mut back = Events::open(&world, "/a2a/tasks/e1:subscribe", &Value::Null).await;
    let (seq, event) = back.next().await.unwrap();
    let state = &event["task"]["status"]["state"];
    assert_eq!(state, "TASK_STATE_SUBMITTED");
    assert!(seq.unwrap() > last.0);
    world.answers("m1", "now it works").await;
    let mut end = Value::Null;
    while let Some((_, event)) = back.next().await {
        end = event;
    }
    let state = &end["statusUpdate"]["status"]["state"];
    assert_eq!(state, "TASK_STATE_COMPLETED");
}

#[tokio::test(start_paused = true)]
async fn stored_message_streams_without_publisher() {
    let world = World::new().await;
    world.service.falls_mute();
    let body = json!({"message": says("hello")});
    let mut events = Events::open(&world, "/a2a/message:stream", &body).await;
    let (id, event) = events.next().await.unwrap();
    assert_eq!((id, &event["task"]["id"]), (None, &json!("e1")));
    assert!(events.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn invalid_answer_streams_sequenced_task() {
    let world = World::new().await;
    world.gives("ann", says("paint")).await;
    let mut rows = asks("m1", world.service.now());
    for row in &mut rows {
        if let Change::NewRequest(request) = row {
            request.kind = RequestKind::UserInput;
            request.deciders = Deciders::Sender;
            request.wants = Wants::Form;
        }
    }
    world.service.does(Put(rows)).await.unwrap();
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
