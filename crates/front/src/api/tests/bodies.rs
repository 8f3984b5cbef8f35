//! Bodies from outside: none is read before its caller is known, each counts against the budget, and MCP says what is
//! wrong with one that it can't read.

use super::*;
use crate::api::limits::BODIES_MAX_BYTES;
use crate::control::Via;
use serde_json::{Value, json};

/// More than what is not counted.
const LONG: usize = 64 * 1024;

fn never() -> Body {
    let nothing = futures_util::stream::pending::<Result<Bytes, Infallible>>();
    let first = futures_util::stream::once(async { Ok(Bytes::from(vec![b' '; LONG])) });
    Body::from_stream(futures_util::StreamExt::chain(first, nothing))
}

fn posts() -> impl Iterator<Item = (Method, &'static str, Access)> {
    every_call()
        .into_iter()
        .filter(|(method, ..)| *method == Method::POST)
}

async fn said(response: Response<Body>) -> String {
    let body = axum::body::to_bytes(response.into_body(), 1 << 20)
        .await
        .unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

async fn post(router: &Router, path: &str, body: Body) -> String {
    let request = request(&Method::POST, path, 1)
        .header(header::CONTENT_TYPE, "application/json")
        .body(body)
        .unwrap();
    said(router.clone().oneshot(request).await.unwrap()).await
}

#[tokio::test(start_paused = true)]
async fn f4_every_body_counts_against_the_budget() {
    let api = api();
    let router = api.router(Listener::Local);
    let mut read = Vec::new();
    for (_, path, _) in posts() {
        let said = post(&router, path, never()).await;
        if said.contains("did not arrive in time") {
            read.push(path);
        }
    }
    for known in ["/v1/messages", "/a2a", "/a2a/message:send", "/mcp"] {
        assert!(read.contains(&known), "{known} of {read:?}");
    }
    let owner = Caller::local_owner(Via::Cli);
    let share = api.context.shared.bodies.of(&owner);
    let mut all = Vec::new();
    for _ in 0..BODIES_MAX_BYTES / super::super::limits::BODY_MAX_BYTES {
        let longest = vec![b'x'; super::super::limits::BODY_MAX_BYTES];
        all.push(share.read(Body::from(longest)).await.unwrap());
    }
    for path in read {
        let said = post(&router, path, never()).await;
        assert!(said.contains("too many long bodies"), "{path}: {said}");
    }
}

#[tokio::test(start_paused = true)]
async fn f4_unauthenticated_bodies_are_not_read() {
    let router = api().router(tcp());
    for (address, (method, path, access)) in (1..).zip(posts()) {
        let body = Body::from_stream(futures_util::stream::poll_fn(
            |_| -> std::task::Poll<Option<Result<Bytes, Infallible>>> {
                panic!("the body of a stranger was read")
            },
        ));
        let request = request(&Method::POST, path, address)
            .header(header::CONTENT_TYPE, "application/json")
            .body(body)
            .unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let refused = match access {
            Access::Public => public_answer(&method, path),
            _ => StatusCode::UNAUTHORIZED,
        };
        assert_eq!(response.status(), refused, "{path}");
    }
}

async fn mcp(kind: Option<&str>, body: &'static str) -> Response<Body> {
    let router = api().router(Listener::Local);
    let mut request = request(&Method::POST, "/mcp", 1)
        .header(header::ACCEPT, "application/json, text/event-stream");
    if let Some(kind) = kind {
        request = request.header(header::CONTENT_TYPE, kind);
    }
    let request = request.body(Body::from(body)).unwrap();
    router.oneshot(request).await.unwrap()
}

#[tokio::test]
async fn f10_mcp_names_json_it_cannot_read() {
    for (body, code) in [
        ("{\"jsonrpc\":", -32700),
        ("", -32700),
        ("\u{feff}{}", -32700),
        ("{}", -32600),
        ("[1]", -32600),
        ("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", -32600),
    ] {
        let response = mcp(Some("application/json"), body).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{body}");
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
        let said: Value = serde_json::from_str(&said(response).await).unwrap();
        assert_eq!(said["error"]["code"], json!(code), "{body}: {said}");
        assert_eq!(
            (&said["jsonrpc"], &said["id"]),
            (&json!("2.0"), &Value::Null)
        );
    }
}

#[tokio::test]
async fn f10_mcp_names_a_wrong_content_type() {
    for kind in [None, Some("text/plain"), Some("application/jsonx")] {
        let response = mcp(kind, "{}").await;
        assert_eq!(response.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
        assert!(said(response).await.contains("application/json"));
    }
    let fine = mcp(Some("application/json; charset=utf-8"), "{}").await;
    assert_eq!(fine.status(), StatusCode::BAD_REQUEST);
}
