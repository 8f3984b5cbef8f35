//! The agent card, in public and for callers that are known.

use super::{World, by};
use axum::http::Request;
use serde_json::{Value, json};

const CARD: &str = "/.well-known/agent-card.json";

fn anybody() -> axum::http::request::Builder {
    Request::get(CARD).header("Host", super::HOST)
}

#[tokio::test(start_paused = true)]
async fn public_card_is_cacheable() {
    let world = World::new().await;
    let answered = world.call(anybody(), String::new()).await;
    assert_eq!(answered.status, 200);
    assert!(answered.header("cache-control").contains("max-age="));
    assert_eq!(
        answered.header("last-modified"),
        "Mon, 12 Jan 1970 13:46:40 GMT"
    );
    let card = answered.json();
    let offered: Vec<_> = card["supportedInterfaces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            (
                one["protocolBinding"].clone(),
                one["protocolVersion"].clone(),
            )
        })
        .collect();
    let expected = [("JSONRPC", "1.0"), ("HTTP+JSON", "1.0"), ("JSONRPC", "0.3")];
    assert_eq!(
        offered,
        expected.map(|(binding, version)| (json!(binding), json!(version)))
    );
    let urls = card["supportedInterfaces"].as_array().unwrap().iter();
    assert!(
        urls.clone()
            .all(|one| one["url"] == "http://127.0.0.1:4141/a2a")
    );
    assert_eq!(card["capabilities"]["streaming"], true);
    world.service.pass_ms(60_000);
    let tag = answered.header("etag").to_owned();
    let again = world
        .call(anybody().header("If-None-Match", &tag), String::new())
        .await;
    assert_eq!((again.status.as_u16(), again.text.as_str()), (304, ""));
    assert_eq!(again.header("etag"), tag);
    assert_eq!(
        again.header("last-modified"),
        answered.header("last-modified")
    );
    let other = world
        .call(anybody().header("If-None-Match", "\"x\""), String::new())
        .await;
    assert_eq!(other.status, 200);
}

#[tokio::test(start_paused = true)]
async fn extended_card_requires_token() {
    let world = World::new().await;
    let card = world.rpc("ann", "GetExtendedAgentCard", json!({})).await;
    let description = card["result"]["description"].as_str().unwrap();
    assert!(description.ends_with("You are known here as ann."));
    let path = "/a2a/extendedAgentCard";
    let same = world.rest("ann", "GET", path, &Value::Null).await.json();
    assert_eq!(card["result"], same);
    let nobody = world.call(by("nobody", "GET", path), String::new()).await;
    assert_eq!(nobody.status, 401);
}
