//! References, conversations by activity, and logs of one conversation.

use crate::control::{TASK, begin};
use crate::service::TestService;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use bridge_core::value::MessageId;
use serde_json::Value;

async fn get(service: &TestService, path: &str) -> (StatusCode, Value) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = tower::ServiceExt::oneshot(service.router(), request).await;
    let response = response.unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn tasks_are_found_by_their_beginning() {
    let service = TestService::new();
    begin(&service, "local owner").await;
    for reference in [TASK, "codex-0123", "CODEX-0123456789AB"] {
        let (status, found) = get(&service, &format!("/v1/find?ref={reference}")).await;
        assert_eq!(status, StatusCode::OK);
        let candidates = found["candidates"].as_array().unwrap();
        assert_eq!(candidates.len(), 1, "{reference}: {found:#}");
        let task = &candidates[0];
        assert_eq!(task["kind"], "task");
        assert_eq!(task["id"], TASK);
        assert_eq!(task["phase"], "queued");
        assert_eq!(task["text"], "hello");
    }
    // Whoever names no message means the whole task, in every command.
    let (_, last) = get(&service, "/v1/find?ref=last").await;
    assert_eq!(last["candidates"][0]["kind"], "task", "{last:#}");
    assert_eq!(last["candidates"][0]["id"], TASK, "{last:#}");
    let (_, none) = get(&service, "/v1/find?ref=codex-").await;
    assert_eq!(none["candidates"].as_array().unwrap().len(), 0);
    let (status, _) = get(&service, "/v1/find").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let long = "x".repeat(201);
    let (status, _) = get(&service, &format!("/v1/find?ref={long}")).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn logs_refuse_orders_that_contradict() {
    let service = TestService::new();
    service.receives("m1-long-enough").await;
    let known = MessageId::new("m1-long-enough");
    for (query, status) in [
        ("after=start".to_owned(), StatusCode::BAD_REQUEST),
        ("conversation=nobody".to_owned(), StatusCode::NOT_FOUND),
        (
            format!("conversation={known}&before={known}&after=start"),
            StatusCode::BAD_REQUEST,
        ),
        ("limit=1".to_owned(), StatusCode::OK),
    ] {
        let (found, body) = get(&service, &format!("/v1/messages?{query}")).await;
        assert_eq!(found, status, "{query}: {body}");
    }
    let (status, body) = get(&service, "/v1/conversations?before=nonsense").await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
}
