//! The event stream: a ping, frames of what comes into sight, and the ways in which it lets a listener down.

use std::time::Duration;

use bridge_sim::molecule::{Edition, EventStream, Late};
use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::rig::Rig;

async fn open(rig: &Rig) -> Response {
    let call = rig.own(Method::GET, &rig.alpha, "/events/stream");
    let mut stream = call.send().await.unwrap();
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    assert_eq!(stream.chunk().await.unwrap().unwrap(), ": ping\n\n");
    stream
}

async fn frames(stream: &mut Response, count: usize) -> Vec<Value> {
    let mut text = String::new();
    while text.matches("\n\n").count() < count {
        let chunk = stream.chunk().await.unwrap().unwrap();
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    let frames = text.split_terminator("\n\n");
    frames
        .map(|frame| serde_json::from_str(frame.strip_prefix("data: ").unwrap()).unwrap())
        .collect()
}

#[tokio::test]
async fn message_event_carries_no_row_id() {
    let kinds = ["USER_MESSAGE", "ACTIVITY_LOGGED", "ACTIVITY_LOGGED"];
    for (edition, kinds) in [(Edition::Seed, &kinds[1..2]), (Edition::New, &kinds[..])] {
        let rig = Rig::start(edition).await;
        let mut stream = open(&rig).await;
        assert_eq!(rig.platform.listening(&rig.alpha), 1);
        let row = rig.platform.canvas_says(&rig.alpha, "hi").unwrap();
        let told = frames(&mut stream, kinds.len()).await;
        let told_kinds: Vec<&Value> = told.iter().map(|frame| &frame["type"]).collect();
        assert_eq!(told_kinds, kinds);
        assert!(!json!(told).to_string().contains(&row));
        assert_eq!(told[kinds.len() - 1]["data"]["method"], "message/send");
    }
}

#[tokio::test]
async fn late_row_event_follows_visibility() {
    let rig = Rig::start(Edition::Seed).await;
    let mut stream = open(&rig).await;
    rig.platform
        .set_late_messages(Late::Within(Duration::from_millis(50)));
    rig.platform.canvas_says(&rig.alpha, "hi").unwrap();
    let told = frames(&mut stream, 1).await;
    assert_eq!(told[0]["type"], "ACTIVITY_LOGGED");
    assert_eq!(rig.page(&rig.alpha, "").await.len(), 1);
}

#[tokio::test]
async fn a_stream_can_be_missing_or_end() {
    let rig = Rig::start(Edition::New).await;
    let mut stream = open(&rig).await;
    rig.platform.end_event_streams();
    assert!(stream.chunk().await.unwrap().is_none());
    rig.platform.set_event_stream(EventStream::Ends);
    let mut stream = open(&rig).await;
    assert!(stream.chunk().await.unwrap().is_none());
    rig.platform.set_event_stream(EventStream::Off);
    let call = rig.own(Method::GET, &rig.alpha, "/events/stream");
    assert_eq!(call.send().await.unwrap().status(), 404);
    rig.platform.set_event_stream(EventStream::On);
    let other = rig.bare(
        Method::GET,
        &format!("/workspaces/{}/events/stream", rig.alpha.id),
    );
    assert_eq!(
        other
            .bearer_auth(&rig.beta.token)
            .send()
            .await
            .unwrap()
            .status(),
        401
    );
}

#[tokio::test]
async fn a_silent_stream_ends_with_the_platform() {
    let mut rig = Rig::start(Edition::New).await;
    rig.platform.set_event_stream(EventStream::Silent);
    let mut stream = open(&rig).await;
    rig.platform.canvas_says(&rig.alpha, "hi").unwrap();
    rig.platform.down().await;
    assert!(matches!(stream.chunk().await, Ok(None) | Err(_)));
}
