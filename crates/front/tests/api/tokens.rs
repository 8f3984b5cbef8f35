//! Revoked tokens: good for nothing, and what they opened ends.

use crate::service::{Reader, TestService};
use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use bridge_core::value::{Actor, MessageId};
use bridge_front::api::{Api, Hosts, Listener};
use std::sync::Arc;
use std::time::Duration;
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

/// How strangers and the owner of the machine reach one more daemon over this ledger.
fn node(service: &TestService) -> (Router, Router) {
    let api = Api::new(service.clone(), CancellationToken::new());
    let listener = Listener::Tcp {
        hosts: Arc::new(Hosts::new(4141, &[], None).unwrap()),
        proxied: false,
    };
    (api.router(listener), api.router(Listener::Local))
}

fn revoke(name: &str) -> axum::http::request::Builder {
    Request::builder()
        .method(Method::DELETE)
        .uri(format!("/v1/tokens/{name}"))
}

#[tokio::test(start_paused = true)]
async fn tokens_are_those_of_all_nodes() {
    let service = TestService::new();
    let ((here, local), (elsewhere, _)) = (node(&service), node(&service));
    service.knows("one").await;
    for node in [&here, &elsewhere] {
        assert_eq!(status(node, with("one", "/v1/tasks")).await, StatusCode::OK);
    }
    tokio::time::advance(Duration::from_millis(1)).await;
    service.knows("two").await;
    let made = status(&elsewhere, with("two", "/v1/tasks")).await;
    assert_eq!(
        made,
        StatusCode::OK,
        "it is looked for before it is refused"
    );
    assert_eq!(status(&local, revoke("one")).await, StatusCode::OK);
    let again = status(&here, with("one", "/v1/tasks")).await;
    assert_eq!(again, StatusCode::UNAUTHORIZED);
    tokio::time::advance(Duration::from_secs(5)).await;
    let again = status(&elsewhere, with("one", "/v1/tasks")).await;
    assert_eq!(again, StatusCode::UNAUTHORIZED);
}

#[tokio::test(start_paused = true)]
async fn threat_32_revocation_ends_access_and_streams() {
    let service = TestService::new();
    let (tcp, local) = node(&service);
    service.receives("m1-of-ann").await;
    service.knows("one").await;
    service.knows("two").await;
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
    assert_eq!(status(&local, revoke("one")).await, StatusCode::OK);
    for stream in &mut open {
        stream.ended().await;
    }
    let again = status(&tcp, with("one", "/v1/tasks")).await;
    assert_eq!(again, StatusCode::UNAUTHORIZED);
    assert_eq!(status(&tcp, with("two", "/v1/tasks")).await, StatusCode::OK);
    service.receives("m2").await;
    assert!(other.next().await.contains("\"message_id\":\"m2\""));
}

/// A path means something on this machine alone, and a stream shows one with its end.
#[tokio::test(start_paused = true)]
async fn files_are_brought_for_local_owner() {
    let service = TestService::new();
    let api = Api::new(service.clone(), CancellationToken::new());
    let listener = Listener::Tcp {
        hosts: Arc::new(Hosts::new(4141, &[], None).unwrap()),
        proxied: false,
    };
    let (tcp, local) = (api.router(listener), api.router(Listener::Local));
    let (message, events) = ("/v1/messages/m1-of-ann", "/v1/messages/m1-of-ann/events");
    service.receives("m1-of-ann").await;
    service.knows("one").await;
    let mut remote = Reader::of(&tcp, with("one", events)).await;
    let mut here = Reader::open(&local, events, None).await;
    remote.next().await;
    here.next().await;
    assert_eq!(status(&tcp, with("one", message)).await, StatusCode::OK);
    assert_eq!(service.brought(), 0);
    let (id, by) = (MessageId::new("m1-of-ann"), Actor::named("ann"));
    service.cancel(id, by).await.unwrap();
    for stream in [&mut remote, &mut here] {
        assert!(stream.next().await.starts_with("event: end"));
    }
    assert_eq!(service.brought(), 1);
    let request = Request::get(message);
    assert_eq!(status(&local, request).await, StatusCode::OK);
    assert_eq!(service.brought(), 2);
}
