//! Revoked tokens: good for nothing, and what they opened ends.

use crate::desk::{Reader, TestDesk};
use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use bridge_front::api::{Api, Door, Hosts};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

fn with(token: &str, path: &str) -> axum::http::request::Builder {
    Request::get(path)
        .header("Host", "127.0.0.1:4141")
        .header("Authorization", format!("Bearer {token}"))
}

async fn status(router: &Router, request: axum::http::request::Builder) -> StatusCode {
    let request = request.body(Body::empty()).unwrap();
    let response = tower::ServiceExt::oneshot(router.clone(), request).await;
    response.unwrap().status()
}

#[tokio::test(start_paused = true)]
async fn threat_32_a_revoked_token_is_unknown_at_once_and_its_streams_end() {
    let desk = TestDesk::new();
    let api = Api::new(desk.clone(), CancellationToken::new());
    let door = Door::Tcp {
        hosts: Arc::new(Hosts::new(4141, &[], None).unwrap()),
        proxied: false,
    };
    let (tcp, local) = (api.router(door), api.router(Door::Local));
    desk.receives("m1-of-ann").await;
    desk.knows("one").await;
    desk.knows("two").await;
    let mut open = Vec::new();
    for path in [
        "/v1/events",
        "/v1/messages/m1-of-ann/events",
        "/v1/tasks/m1-of-ann/events",
    ] {
        let mut stream = Reader::of(&tcp, with("one", path)).await;
        stream.next().await;
        open.push(stream);
    }
    let mut other = Reader::of(&tcp, with("two", "/v1/events")).await;
    other.next().await;
    let revoke = Request::builder()
        .method(Method::DELETE)
        .uri("/v1/tokens/one");
    assert_eq!(status(&local, revoke).await, StatusCode::OK);
    for stream in &mut open {
        stream.ended().await;
    }
    let again = status(&tcp, with("one", "/v1/tasks")).await;
    assert_eq!(again, StatusCode::UNAUTHORIZED);
    assert_eq!(status(&tcp, with("two", "/v1/tasks")).await, StatusCode::OK);
    desk.receives("m2").await;
    assert!(other.next().await.contains("\"message_id\":\"m2\""));
}
