//! The platform as an HTTP client sees it: what it shows, refuses, loses and cuts.
//! Every wait here is for an event of the platform itself.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use bridge_sim::history::{Fact, RowId};
use bridge_sim::{Call, Fault, Memory, Platform, PlatformOptions, Weather};
use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};

async fn platform(memory: Memory) -> Platform {
    let options = PlatformOptions {
        memory,
        ..PlatformOptions::default()
    };
    Platform::start(options).await.unwrap()
}

fn client() -> Client {
    Client::builder().no_proxy().build().unwrap()
}

async fn get(platform: &Platform, path: &str) -> Result<Response, reqwest::Error> {
    client()
        .get(format!("{}{path}", platform.url()))
        .send()
        .await
}

async fn rows(platform: &Platform, query: &str) -> Value {
    let response = get(platform, &format!("/inbox{query}")).await.unwrap();
    response.json().await.unwrap()
}

async fn post(platform: &Platform, path: &str, body: &Value) -> Result<Response, reqwest::Error> {
    let call = client().post(format!("{}{path}", platform.url()));
    call.json(body).send().await
}

fn reply(key: &str) -> Value {
    json!({"key": key, "conversation": "a", "row": "r1", "ordinal": 0, "kind": "answer", "text": "hi"})
}

async fn status(platform: &Platform, path: &str, body: &Value) -> StatusCode {
    post(platform, path, body).await.unwrap().status()
}

#[tokio::test]
async fn row_is_shown_until_acknowledged() {
    let platform = platform(Memory::Idempotent).await;
    platform.post("a", "ann", "hello").unwrap();
    for _ in 0..2 {
        let shown = rows(&platform, "?limit=5").await;
        assert_eq!(
            shown["rows"],
            json!([{"row": "r1", "conversation": "a", "sender": "ann", "text": "hello"}])
        );
    }
    let taken = post(&platform, "/replies", &reply("k")).await.unwrap();
    assert_eq!(
        taken.json::<Value>().await.unwrap(),
        json!({"receipt": "v1"})
    );
    assert_eq!(
        status(&platform, "/acks", &json!({"row": "r1"})).await,
        StatusCode::OK
    );
    assert_eq!(rows(&platform, "").await["rows"], json!([]));
    let facts: Vec<_> = platform
        .history()
        .into_iter()
        .map(|event| event.fact)
        .collect();
    let row = RowId(1);
    assert!(matches!(facts[0], Fact::Posted { .. }));
    assert_eq!(facts[1..3], [Fact::Shown { row }, Fact::Shown { row }]);
    assert!(matches!(facts[3], Fact::Visible { .. }));
    assert_eq!(facts[4], Fact::Acked { row });
}

#[tokio::test]
async fn long_poll_wakes_on_new_rows() {
    let platform = platform(Memory::Idempotent).await;
    platform.post("a", "ann", "one").unwrap();
    let mark = rows(&platform, "").await["mark"].as_u64().unwrap();
    let query = format!("?wait=30000&mark={mark}");
    let (shown, ()) = tokio::join!(rows(&platform, &query), async {
        platform.post("a", "ann", "two").unwrap();
    });
    assert_eq!(shown["rows"].as_array().unwrap().len(), 2);
    let mark = shown["mark"].as_u64().unwrap();
    let old = rows(&platform, &format!("?wait=1&mark={mark}")).await;
    assert_eq!(old["rows"], shown["rows"], "old rows come again in the end");
    platform.script(Call::Ack, [Fault::None]);
    status(&platform, "/acks", &json!({"row": "r1"})).await;
    let query = format!("?wait=30000&mark={mark}");
    let (shown, redelivered) = tokio::join!(rows(&platform, &query), async {
        platform.redeliver(RowId(1))
    });
    assert!(redelivered);
    assert_eq!(shown["rows"][0]["row"], "r1");
}

#[tokio::test]
async fn only_accepted_replies_become_visible() {
    let platform = platform(Memory::Probeable).await;
    platform.post("a", "ann", "hello").unwrap();
    let refuse = |status, retry_after| Fault::Refuse {
        status,
        retry_after,
    };
    platform.script(
        Call::Reply,
        [
            refuse(503, None),
            refuse(429, Some(7)),
            Fault::Cut,
            Fault::LoseResponse,
            Fault::Delay(Duration::from_millis(1)),
        ],
    );
    let refused = post(&platform, "/replies", &reply("k")).await.unwrap();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    let refused = post(&platform, "/replies", &reply("k")).await.unwrap();
    assert_eq!(refused.headers()["retry-after"], "7");
    let cut = post(&platform, "/replies", &reply("k")).await.unwrap_err();
    assert!(cut.status().is_none() && !cut.is_connect(), "{cut:?}");
    assert_eq!(platform.visible().len(), 0);
    let probed = get(&platform, "/replies?key=k").await.unwrap();
    assert_eq!(
        probed.json::<Value>().await.unwrap(),
        json!({"receipt": null})
    );
    let lost = post(&platform, "/replies", &reply("k")).await.unwrap_err();
    assert!(lost.status().is_none(), "{lost:?}");
    assert_eq!(platform.visible().len(), 1);
    let probed = get(&platform, "/replies?key=k").await.unwrap();
    assert_eq!(
        probed.json::<Value>().await.unwrap(),
        json!({"receipt": "v1"})
    );
    assert_eq!(
        status(&platform, "/replies", &reply("k")).await,
        StatusCode::OK
    );
    assert_eq!(platform.visible().len(), 2, "it does not dedupe");
}

#[tokio::test]
async fn blind_platform_rejects_probes_and_invalid_requests() {
    let platform = platform(Memory::Blind).await;
    let asked = get(&platform, "/replies?key=k").await.unwrap();
    assert_eq!(asked.status(), StatusCode::METHOD_NOT_ALLOWED);
    for (path, body, code) in [
        ("/replies", reply("k"), StatusCode::NOT_FOUND),
        ("/replies", json!({"key": "k"}), StatusCode::BAD_REQUEST),
        ("/acks", json!({"row": "r1"}), StatusCode::NOT_FOUND),
        ("/acks", json!([]), StatusCode::BAD_REQUEST),
        ("/elsewhere", json!({}), StatusCode::NOT_FOUND),
    ] {
        assert_eq!(status(&platform, path, &body).await, code, "{path} {body}");
    }
}

#[tokio::test]
async fn restarted_platform_keeps_its_memory() {
    let mut platform = platform(Memory::Idempotent).await;
    platform.post("a", "ann", "hello").unwrap();
    platform.down().await;
    let refused = get(&platform, "/inbox").await.unwrap_err();
    assert!(refused.is_connect(), "{refused:?}");
    platform.up().await.unwrap();
    assert_eq!(
        rows(&platform, "").await["rows"].as_array().unwrap().len(),
        1
    );
}

#[tokio::test]
async fn weather_loses_responses_and_redelivers_rows() {
    let platform = platform(Memory::Idempotent).await;
    platform.post("a", "ann", "hello").unwrap();
    platform.set_weather(Weather {
        lose: 1_000,
        redeliver: 1_000,
        ..Weather::default()
    });
    assert!(
        post(&platform, "/acks", &json!({"row": "r1"}))
            .await
            .is_err()
    );
    assert_eq!(platform.open(), []);
    assert_eq!(
        rows(&platform, "").await["rows"].as_array().unwrap().len(),
        1
    );
    platform
        .wait_for("the redelivery", |events| {
            let redelivered = |fact: &Fact| matches!(fact, Fact::Redelivered { .. });
            events.iter().any(|event| redelivered(&event.fact))
        })
        .await
        .unwrap();
}
