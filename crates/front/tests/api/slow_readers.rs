//! Slow readers of events: nobody waits for them, nothing piles up, and they get the current state instead of every change.

use crate::service::{Reader, TestService};
use bridge_core::step::Cancel;
use bridge_core::value::MessageId;
use bridge_front::{BridgeService, LiveUpdate};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn n8_lagging_reader_gets_latest_state() {
    let service = TestService::new();
    let router = service.router();
    let mut slow = Reader::open(&router, "/v1/events", None).await;
    service.receives("m1").await;
    let began = tokio::time::Instant::now();
    for _ in 0..50_000 {
        service
            .hub()
            .publish(&MessageId::new("m1"), LiveUpdate::Changed);
    }
    service
        .cancel(
            MessageId::new("m1"),
            bridge_core::value::Actor::named("ann"),
        )
        .await
        .unwrap();
    assert_eq!(
        began.elapsed().as_millis(),
        0,
        "nobody waited for the reader"
    );
    let events = slow.rest().await;
    assert_eq!(events.len(), 2, "{events:#?}");
    assert!(events[0].starts_with("event: ready"), "{events:#?}");
    assert!(events[1].contains("\"state\":\"cancelled\""), "{events:#?}");
}

#[tokio::test(start_paused = true)]
async fn n8_lagging_reader_gets_reset() {
    let service = TestService::new();
    let router = service.router();
    let mut slow = Reader::open(&router, "/v1/events", None).await;
    for n in 0..1_100 {
        service.receives(&format!("m{n:04}")).await;
    }
    service.pass_ms(1);
    let events = slow.rest().await;
    assert!(
        events.iter().any(|event| event.starts_with("event: reset")),
        "{events:#?}"
    );
    assert!(events.len() < 10, "{}", events.len());
    service.pass_ms(60_000);
    service.receives("later").await;
    let events = slow.rest().await;
    assert_eq!(events.len(), 1, "{events:#?}");
    assert!(
        events[0].contains("\"message_id\":\"later\""),
        "{events:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn n8_slow_message_watcher_gets_end() {
    let service = TestService::new();
    let router = service.router();
    service.receives("m1-long-enough").await;
    let id = MessageId::new("m1-long-enough");
    let mut slow = Reader::open(&router, "/v1/messages/m1-long-enough/events", None).await;
    for n in 0..50_000 {
        service
            .hub()
            .publish(&id, LiveUpdate::Diff(format!("text {n}").into()));
    }
    service
        .cancel(id, bridge_core::value::Actor::named("ann"))
        .await
        .unwrap();
    let events = slow.rest().await;
    assert!(events.len() < 100, "{}", events.len());
    assert!(events.last().unwrap().starts_with("event: end"));
}

#[tokio::test(start_paused = true)]
async fn reconnect_with_last_event_id_resumes() {
    let service = TestService::new();
    let router = service.router();
    let mut first = Reader::open(&router, "/v1/events", None).await;
    service.receives("m1").await;
    let events = first.rest().await;
    let ids = events.iter().flat_map(|event| event.lines());
    let last = ids
        .filter_map(|line| line.strip_prefix("id: "))
        .next_back()
        .unwrap()
        .to_owned();
    drop(first);
    service.pass_ms(60_000);
    service.receives("m2").await;
    service
        .cancel(
            MessageId::new("m1"),
            bridge_core::value::Actor::named("ann"),
        )
        .await
        .unwrap();
    service.pass_ms(60_000);
    let mut again = Reader::open(&router, "/v1/events", Some(&last)).await;
    let events = again.rest().await;
    let count = |words: &str| events.iter().filter(|event| event.contains(words)).count();
    assert_eq!(count("event: ready"), 1, "{events:#?}");
    assert_eq!(count("\"message_id\":\"m2\""), 1, "{events:#?}");
    assert_eq!(count("\"state\":\"cancelled\""), 1, "{events:#?}");
    for too_old in ["1", "99999999999999"] {
        let mut reader = Reader::open(&router, "/v1/events", Some(too_old)).await;
        assert!(
            reader.rest().await[0].starts_with("event: reset"),
            "{too_old}"
        );
    }
}

/// An event's id speaks for everything before it, also for news that still waits behind it.
#[tokio::test(start_paused = true)]
async fn n8_reconnect_delivers_missed_change() {
    let service = TestService::new();
    let router = service.router();
    let mut slow = Reader::open(&router, "/v1/events", None).await;
    let mut seen = slow.next().await;
    service.receives("m1").await;
    service.receives("m2").await;
    service.pass_ms(40_000);
    let first = slow.next().await;
    assert!(first.contains("\"message_id\":\"m1\""), "{first}");
    seen.push_str(&first);
    drop(slow);
    let mut ids = seen.lines().filter_map(|line| line.strip_prefix("id: "));
    let mut again = Reader::open(&router, "/v1/events", ids.next_back()).await;
    let events = again.rest().await;
    let second = |event: &String| event.contains("\"message_id\":\"m2\"");
    assert!(events.iter().any(second), "{events:#?}");
}

/// Not every change is announced; news of others must not keep a stream from looking.
#[tokio::test(start_paused = true)]
async fn unannounced_changes_are_published_under_load() {
    let service = TestService::new();
    let router = service.router();
    let mut reader = Reader::open(&router, "/v1/events", None).await;
    service.receives("m1").await;
    service.receives("m2").await;
    reader.next().await;
    reader.next().await;
    reader.next().await;
    let hub = service.hub().clone();
    let busy = tokio::spawn(async move {
        let mut every = tokio::time::interval(Duration::from_secs(1));
        loop {
            every.tick().await;
            hub.publish(&MessageId::new("m1"), LiveUpdate::Changed);
        }
    });
    let (message_id, by) = (
        MessageId::new("m2"),
        bridge_core::value::Actor::named("ann"),
    );
    service.does(Cancel { message_id, by }).await.unwrap();
    let event = reader.next().await;
    assert!(event.contains("\"state\":\"cancelled\""), "{event}");
    busy.abort();
}
