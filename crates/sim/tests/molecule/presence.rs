//! Who counts as there: the presence window, failed registers, pauses, removal, rotation.

use std::time::Duration;

use bridge_sim::molecule::{AuthSeen, Edition, Route, Status};
use serde_json::json;

use crate::rig::Rig;

#[tokio::test]
async fn polling_does_not_extend_online_window() {
    for (edition, window) in [(Edition::Seed, 90), (Edition::New, 180)] {
        let rig = Rig::start(edition).await;
        assert_eq!(rig.platform.status(&rig.alpha), Status::AwaitingAgent);
        assert_eq!(rig.sign_on(&rig.alpha).await.0, 200);
        assert_eq!(rig.platform.status(&rig.alpha), Status::Online);
        rig.platform.advance(Duration::from_secs(window - 10));
        rig.page(&rig.alpha, "").await;
        assert_eq!(rig.platform.status(&rig.alpha), Status::Online);
        rig.platform.advance(Duration::from_secs(20));
        rig.page(&rig.alpha, "").await;
        assert_eq!(rig.look(&rig.alpha).await.1["status"], "awaiting_agent");
        rig.beat(&rig.alpha).await;
        assert_eq!(rig.platform.status(&rig.alpha), Status::Online);
    }
}

#[tokio::test]
async fn failed_register_degrades_until_success() {
    let rig = Rig::start(Edition::New).await;
    let bad = json!({"id": rig.alpha.id, "delivery_mode": "odd"});
    assert_eq!(rig.registry(&rig.alpha, "register", &bad).await.0, 400);
    rig.beat(&rig.alpha).await;
    assert_eq!(rig.platform.status(&rig.alpha), Status::Degraded);
    rig.sign_on(&rig.alpha).await;
    rig.beat(&rig.alpha).await;
    assert_eq!(rig.platform.status(&rig.alpha), Status::Online);
}

#[tokio::test]
async fn heartbeats_tell_what_the_agent_does() {
    let rig = Rig::start(Edition::New).await;
    let body = json!({"workspace_id": rig.alpha.id, "active_tasks": 2, "current_task": "reading"});
    rig.registry(&rig.alpha, "heartbeat", &body).await;
    let heard = rig.platform.heartbeats(&rig.alpha);
    assert_eq!((heard.count, heard.active_tasks), (1, 2));
    assert_eq!(heard.current_task.as_deref(), Some("reading"));
}

#[tokio::test]
async fn heartbeats_do_not_end_pause() {
    let rig = Rig::start(Edition::New).await;
    rig.platform.pause(&rig.alpha);
    rig.sign_on(&rig.alpha).await;
    rig.beat(&rig.alpha).await;
    assert_eq!(rig.platform.status(&rig.alpha), Status::Paused);
    rig.platform
        .canvas_says(&rig.alpha, "still queued")
        .unwrap();
    assert_eq!(rig.page(&rig.alpha, "").await.len(), 1);
    rig.platform.resume(&rig.alpha);
    rig.beat(&rig.alpha).await;
    assert_eq!(rig.platform.status(&rig.alpha), Status::Online);
}

#[tokio::test]
async fn only_workspace_lookup_reveals_removal() {
    let rig = Rig::start(Edition::New).await;
    rig.platform.remove(&rig.alpha);
    assert_eq!(rig.page_status(&rig.alpha, "").await.0, 401);
    assert_eq!(rig.beat(&rig.alpha).await.0, 200);
    let (status, body) = rig.sign_on(&rig.alpha).await;
    assert_eq!(status, 200);
    assert!(body["auth_token"].is_string());
    assert_eq!(rig.look(&rig.alpha).await.0, 410);
}

#[tokio::test]
async fn a_rotated_token_is_refused_at_once() {
    let rig = Rig::start(Edition::New).await;
    let rotated = rig.platform.rotate(&rig.alpha);
    assert_eq!(rig.page_status(&rig.alpha, "").await.0, 401);
    assert_eq!(rig.beat(&rig.alpha).await.0, 401);
    assert_eq!(rig.page_status(&rotated, "").await.0, 200);
    let auth: Vec<AuthSeen> = rig.platform.calls().iter().map(|seen| seen.auth).collect();
    assert_eq!(auth, [AuthSeen::Unknown, AuthSeen::Unknown, AuthSeen::Own]);
    assert_eq!(rig.platform.count(Route::Activity, 401), 1);
}

#[tokio::test]
async fn database_outage_mimics_wrong_token() {
    for edition in [Edition::Seed, Edition::New] {
        let rig = Rig::start(edition).await;
        rig.platform.set_database(false);
        let (status, body) = rig.page_status(&rig.alpha, "").await;
        assert_eq!(
            (status, &body["error"]),
            (401, &json!("invalid workspace auth token"))
        );
        assert_eq!(
            rig.notify(&rig.alpha, &json!({"message": "x"})).await.0,
            401
        );
        assert_eq!(rig.beat(&rig.alpha).await.0, 500);
        assert_eq!(rig.sign_on(&rig.alpha).await.0, 500);
        let message = crate::rig::message("m1", "x");
        assert_eq!(rig.send(&rig.alpha, &rig.beta, &message).await.0, 500);
        assert_eq!(rig.look(&rig.alpha).await.0, 500);
        rig.platform.set_database(true);
        assert_eq!(rig.page_status(&rig.alpha, "").await.0, 200);
        assert_eq!(rig.beat(&rig.alpha).await.0, 200);
    }
}
