//! Failed messages, many at once.

use crate::audit::{becomes, over};
use crate::nodes::{call, call_at, get};
use crate::service::{Put, TestService};
use axum::Router;
use axum::http::{Method, StatusCode};
use bridge_core::port::{Change, Ledger};
use bridge_core::value::{Class, Failure, Life, MessageId, MessageState, StateName, Timestamp};
use bridge_front::{BridgeService, DeadActs, DeadList, Problem};
use serde_json::{Value, json};

async fn failed(service: &TestService, ids: &[&str]) {
    for id in ids {
        service.receives(id).await;
        service.does(Put(over(id, service.now()))).await.unwrap();
    }
}

/// The channel refused it at the door.
fn unfit(id: &str, at: Timestamp) -> Vec<Change> {
    let reason = "it is no message".to_owned();
    let life = Life {
        failure: Some(Failure::new(Class::Permanent, reason.clone())),
        ..Life::new(at)
    };
    vec![Change::UpdateState {
        message_id: MessageId::new(id),
        from: StateName::Received,
        life: life.moved(MessageState::Dead { reason }, at),
    }]
}

async fn acts(service: &TestService, path: &str, body: Value) -> DeadActs {
    acts_of(&service.router(), path, body).await
}

async fn acts_of(router: &Router, path: &str, body: Value) -> DeadActs {
    let (status, acts) = call_at(router, Method::POST, path, body).await;
    assert_eq!(status, StatusCode::OK, "{path}");
    acts
}

async fn state(service: &TestService, id: &str) -> MessageState {
    let id = MessageId::new(id);
    let found = service.ledger().read(move |rows| rows.message(&id)).await;
    found.unwrap().unwrap().life.state
}

#[tokio::test(start_paused = true)]
async fn retries_are_spread_a_second_apart() {
    let service = TestService::new();
    failed(&service, &["m1-failed", "m2-failed", "m3-failed"]).await;
    service.receives("m4-waits").await;
    let now = service.now();
    let body = json!({"ids": ["m2-failed", "m4-waits", "m1-failed", "m9-unknown", "m2-failed"]});
    let done = acts(&service, "/v1/dead/retry", body).await;
    let ids: Vec<_> = done.done.iter().map(|act| &*act.message_id).collect();
    assert_eq!(ids, ["m2-failed", "m1-failed"]);
    assert!(done.done.iter().all(|act| act.outcome == "queued"));
    let refused: Vec<_> = done.refused.iter().map(|act| &*act.message_id).collect();
    assert_eq!(refused, ["m4-waits", "m9-unknown"]);
    assert_eq!(done.done[0].not_before, None);
    let later = now.plus_ms(1_000);
    assert_eq!(done.done[1].not_before, Some(later.into()));
    assert_eq!(
        state(&service, "m2-failed").await,
        MessageState::Received { hold: None }
    );
    let held = state(&service, "m1-failed").await;
    assert_eq!(held.hold().map(|hold| hold.until), Some(later));
    assert_eq!(state(&service, "m3-failed").await.name(), StateName::Dead);
}

/// What one call does in chunks, another does not overtake.
#[tokio::test(start_paused = true)]
async fn calls_keep_a_second_apart() {
    let service = TestService::new();
    failed(
        &service,
        &["m1-failed", "m2-failed", "m3-failed", "m4-failed"],
    )
    .await;
    let now = service.now();
    let router = service.router();
    for (ids, later) in [
        (&["m1-failed", "m2-failed"][..], 1_000),
        (&["m3-failed"], 2_000),
    ] {
        let body = json!({"ids": ids});
        let done = acts_of(&router, "/v1/dead/retry", body).await;
        let last = done.done.last().unwrap();
        assert_eq!(last.not_before, Some(now.plus_ms(later).into()));
    }
    // Started again, the daemon knows it from the rows.
    let done = acts(&service, "/v1/dead/retry", json!({"ids": ["m4-failed"]})).await;
    assert_eq!(done.done[0].not_before, Some(now.plus_ms(3_000).into()));
}

#[tokio::test(start_paused = true)]
async fn unfit_messages_do_not_block_others() {
    let service = TestService::new();
    let ids: Vec<String> = (100..220).map(|n| format!("m{n}-failed")).collect();
    let names: Vec<&str> = ids.iter().map(String::as_str).collect();
    for id in &names[..110] {
        service.receives(id).await;
        service.does(Put(unfit(id, service.now()))).await.unwrap();
    }
    failed(&service, &names[110..]).await;
    let would = json!({"all": true, "dry_run": true});
    let would = acts(&service, "/v1/dead/retry", would).await;
    let done = acts(&service, "/v1/dead/retry", json!({"all": true})).await;
    for acts in [would, done] {
        assert_eq!((acts.done.len(), acts.left), (10, 0));
        assert!(acts.refused.is_empty(), "{acts:?}");
    }
    let given_up = acts(&service, "/v1/dead/discard", json!({"all": true})).await;
    assert_eq!((given_up.done.len(), given_up.left), (100, 10));
}

#[tokio::test(start_paused = true)]
async fn dry_runs_change_nothing() {
    let service = TestService::new();
    failed(&service, &["m1-failed", "m2-failed"]).await;
    let body = json!({"all": true, "dry_run": true});
    for (path, outcome) in [
        ("/v1/dead/retry", "queued"),
        ("/v1/dead/discard", "dropped"),
    ] {
        let would = acts(&service, path, body.clone()).await;
        let ids: Vec<_> = would.done.iter().map(|act| &*act.message_id).collect();
        assert_eq!(ids, ["m1-failed", "m2-failed"], "oldest first");
        assert!(would.dry_run && would.done.iter().all(|act| act.outcome == outcome));
    }
    let list: DeadList = get(&service, "/v1/dead").await;
    assert_eq!(list.dead.len(), 2);
    assert_eq!(list.dead[0].retry.as_deref(), Some("queued"));
}

#[tokio::test(start_paused = true)]
async fn one_call_takes_a_hundred() {
    let service = TestService::new();
    let ids: Vec<String> = (100..203).map(|n| format!("m{n}-failed")).collect();
    let names: Vec<&str> = ids.iter().map(String::as_str).collect();
    failed(&service, &names).await;
    let first = acts(&service, "/v1/dead/discard", json!({"all": true})).await;
    assert_eq!((first.done.len(), first.left), (100, 3));
    let rest = acts(&service, "/v1/dead/discard", json!({"all": true})).await;
    assert_eq!((rest.done.len(), rest.left), (3, 0));
    for body in [
        json!({"ids": ids}),
        json!({}),
        json!({"all": true, "ids": ["m100"]}),
    ] {
        let path = "/v1/dead/retry";
        let (status, problem): (_, Problem) = call(&service, Method::POST, path, body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn parked_messages_go_on() {
    let service = TestService::new();
    service.receives("m1-parked").await;
    let (now, reason) = (service.now(), "cut".to_owned());
    let until = now.plus_ms(60_000);
    let parked = MessageState::Parked { until, reason };
    let rows = vec![becomes("m1-parked", parked, now)];
    service.does(Put(rows)).await.unwrap();
    let done = acts(&service, "/v1/dead/retry", json!({"all": true})).await;
    assert_eq!(done.done[0].outcome, "continuing");
}
