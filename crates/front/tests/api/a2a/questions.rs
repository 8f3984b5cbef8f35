//! Answers to what Codex asks in a task: repeats of them, repeats that are none, and those that come too late.

use super::{World, by, says_in, state};
use crate::audit::asks;
use crate::service::Put;
use bridge_core::port::{Change, Ledger};
use bridge_core::step::{Authority, Decide, DecideOutcome};
use bridge_core::value::{
    Deciders, MessageId, Request, RequestDecision, RequestId, RequestKind, RequestState,
    RequestVerdict, Wants,
};
use bridge_front::BridgeService;
use serde_json::{Value, json};

/// Codex works on `m1`, the first message of `e1`, and asks its sender something.
async fn asked(world: &World, secret: bool) -> RequestId {
    let mut rows = asks("m1", world.service.now());
    let Some(Change::NewRequest(request)) = rows.pop() else {
        panic!("nothing is asked");
    };
    let request = Request {
        kind: RequestKind::UserInput,
        wants: Wants::Text,
        secret_answer: secret,
        deciders: Deciders::Sender,
        payload: json!({"questions": [{"id": "q", "isSecret": secret}]}).to_string(),
        ..request
    };
    let id = request.request_id.clone();
    rows.push(Change::NewRequest(request));
    world.service.does(Put(rows)).await.unwrap();
    assert_eq!(state(&world.task("ann", "e1").await), "INPUT_REQUIRED");
    id
}

async fn send(world: &World, key: Option<&str>, message: Value) -> Value {
    let request = by("ann", "POST", "/a2a/message:send");
    let request = match key {
        Some(key) => request.header("Idempotency-Key", key),
        None => request,
    };
    let configuration = json!({"returnImmediately": true});
    let params = json!({"message": message, "configuration": configuration});
    world.call(request, params.to_string()).await.json()
}

fn called(mut message: Value, id: &str) -> Value {
    message["messageId"] = id.into();
    message
}

fn data(data: Value) -> Value {
    let mut message = says_in("e1", "");
    message["parts"] = json!([{"data": data}]);
    message
}

async fn is_open(world: &World, id: &RequestId) -> bool {
    let id = id.clone();
    let found = world.service.ledger().read(move |rows| rows.request(&id));
    found.await.unwrap().unwrap().state == RequestState::Open
}

async fn history_length(world: &World) -> usize {
    let task = world.task("ann", "e1").await;
    task["history"].as_array().unwrap().len()
}

/// The owner of the machine decides elsewhere.
async fn decided(world: &World, request_id: &RequestId) {
    let decide = Decide {
        request_id: request_id.clone(),
        digest: None,
        verdict: RequestVerdict {
            decision: RequestDecision::Decline,
            answers: None,
            by: bridge_core::value::DecidedBy::caller("owner"),
            via: "cli".to_owned(),
            at: world.service.now(),
        },
        authority: Authority::Owner,
    };
    let outcome = world.service.does(decide).await.unwrap();
    assert_eq!(outcome, DecideOutcome::Applied);
}

#[tokio::test(start_paused = true)]
async fn repeated_message_does_not_answer_request() {
    let world = World::new().await;
    world.gives("ann", super::says("work")).await;
    let more = says_in("e1", "also do X");
    send(&world, Some("k"), more.clone()).await;
    let request_id = asked(&world, false).await;
    let again = send(&world, Some("k"), more).await;
    assert_eq!(state(&again["task"]), "INPUT_REQUIRED", "{again:#}");
    assert!(is_open(&world, &request_id).await);
    assert_eq!(history_length(&world).await, 2);
}

#[tokio::test(start_paused = true)]
async fn answer_is_deduplicated_by_key() {
    let world = World::new().await;
    world.gives("ann", super::says("work")).await;
    asked(&world, false).await;
    let red = says_in("e1", "Red");
    for id in ["a", "b"] {
        let sent = send(&world, Some("k"), called(red.clone(), id)).await;
        assert_eq!(state(&sent["task"]), "WORKING", "{sent:#}");
        assert_eq!(history_length(&world).await, 2, "{id}");
    }
    let other = send(&world, Some("k"), says_in("e1", "Blue")).await;
    assert_eq!(other["error"]["code"], 400, "{other:#}");
    for key in [Some("k2"), None] {
        let before = history_length(&world).await;
        let more = send(&world, key, called(says_in("e1", "more"), "a")).await;
        assert_eq!(state(&more["task"]), "WORKING", "{more:#}");
        assert_eq!(history_length(&world).await, before + 1, "{key:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn late_secret_answer_is_not_stored() {
    for decided_elsewhere in [true, false] {
        let world = World::new().await;
        world.gives("ann", super::says("work")).await;
        let request_id = asked(&world, true).await;
        match decided_elsewhere {
            true => decided(&world, &request_id).await,
            // Nobody has seen yet that its time is over.
            false => world.service.pass_ms(600_001),
        }
        let sent = send(&world, None, says_in("e1", "hunter2")).await;
        assert_eq!(sent["error"]["code"], 400, "{sent:#}");
        assert!(sent.to_string().contains("nothing was stored"), "{sent:#}");
        assert_eq!(history_length(&world).await, 1);
        let stored = world
            .service
            .ledger()
            .read(|rows| rows.message(&MessageId::new("m2")));
        assert_eq!(stored.await.unwrap(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn late_decision_is_not_a_prompt() {
    let world = World::new().await;
    world.gives("ann", super::says("work")).await;
    let request_id = asked(&world, false).await;
    decided(&world, &request_id).await;
    for late in [
        json!({"decision": "accept"}),
        json!({"requestId": request_id.as_str(), "answers": {"q": "a"}}),
    ] {
        let sent = send(&world, None, data(late)).await;
        assert_eq!(sent["error"]["code"], 400, "{sent:#}");
        assert_eq!(history_length(&world).await, 1);
    }
    let ordinary = data(json!({"decision": "merge", "branch": "main"}));
    for (n, message) in [ordinary, says_in("e1", "go on")].into_iter().enumerate() {
        let sent = send(&world, None, message).await;
        assert_eq!(state(&sent["task"]), "WORKING", "{sent:#}");
        assert_eq!(history_length(&world).await, n + 2);
    }
}

#[tokio::test(start_paused = true)]
async fn who_answered_a_secret_may_go_on() {
    let world = World::new().await;
    world.gives("ann", super::says("work")).await;
    asked(&world, true).await;
    for text in ["hunter2", "and then go on"] {
        let sent = send(&world, Some(text), says_in("e1", text)).await;
        assert_eq!(state(&sent["task"]), "WORKING", "{sent:#}");
    }
    let again = send(&world, Some("hunter2"), says_in("e1", "hunter2")).await;
    assert_eq!(state(&again["task"]), "WORKING", "{again:#}");
    let task = world.task("ann", "e1").await;
    assert_eq!(task["history"].as_array().unwrap().len(), 3, "{task:#}");
    assert!(!task.to_string().contains("hunter2"), "{task:#}");
}
