//! Slow readers of events: nobody waits for them, nothing piles up, and they are told what is, not all that was.

use crate::desk::{Reader, TestDesk};
use bridge_core::value::MessageId;
use bridge_front::{Desk, Live};

#[tokio::test(start_paused = true)]
async fn n8_a_reader_that_fell_behind_is_told_what_is_and_nothing_piles_up() {
    let desk = TestDesk::new();
    let router = desk.router();
    let mut slow = Reader::open(&router, "/v1/events", None).await;
    desk.receives("m1").await;
    let began = tokio::time::Instant::now();
    for _ in 0..50_000 {
        desk.hub().publish(&MessageId::new("m1"), Live::Changed);
    }
    desk.cancel(MessageId::new("m1"), "ann").await.unwrap();
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
async fn n8_a_reader_that_missed_too_much_is_told_to_look_at_the_lists() {
    let desk = TestDesk::new();
    let router = desk.router();
    let mut slow = Reader::open(&router, "/v1/events", None).await;
    for n in 0..1_100 {
        desk.receives(&format!("m{n:04}")).await;
    }
    let events = slow.rest().await;
    assert!(
        events.iter().any(|event| event.starts_with("event: reset")),
        "{events:#?}"
    );
    assert!(events.len() < 10, "{}", events.len());
    desk.pass_ms(60_000);
    desk.receives("later").await;
    let events = slow.rest().await;
    assert_eq!(events.len(), 1, "{events:#?}");
    assert!(
        events[0].contains("\"message_id\":\"later\""),
        "{events:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn n8_a_slow_watcher_of_one_message_gets_its_end() {
    let desk = TestDesk::new();
    let router = desk.router();
    desk.receives("m1-long-enough").await;
    let id = MessageId::new("m1-long-enough");
    let mut slow = Reader::open(&router, "/v1/messages/m1-long-enough/events", None).await;
    for n in 0..50_000 {
        desk.hub()
            .publish(&id, Live::Text(format!("text {n}").into()));
    }
    desk.cancel(id, "ann").await.unwrap();
    let events = slow.rest().await;
    assert!(events.len() < 100, "{}", events.len());
    assert!(events.last().unwrap().starts_with("event: end"));
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_back_with_an_id_misses_nothing() {
    let desk = TestDesk::new();
    let router = desk.router();
    let mut first = Reader::open(&router, "/v1/events", None).await;
    desk.receives("m1").await;
    let events = first.rest().await;
    let ids = events.iter().flat_map(|event| event.lines());
    let last = ids
        .filter_map(|line| line.strip_prefix("id: "))
        .last()
        .unwrap()
        .to_owned();
    drop(first);
    desk.pass_ms(60_000);
    desk.receives("m2").await;
    desk.cancel(MessageId::new("m1"), "ann").await.unwrap();
    desk.pass_ms(60_000);
    let mut again = Reader::open(&router, "/v1/events", Some(&last)).await;
    let events = again.rest().await;
    let told = |words: &str| events.iter().filter(|event| event.contains(words)).count();
    assert_eq!(told("event: ready"), 1, "{events:#?}");
    assert_eq!(told("\"message_id\":\"m2\""), 1, "{events:#?}");
    assert_eq!(told("\"state\":\"cancelled\""), 1, "{events:#?}");
    for too_old in ["1", "99999999999999"] {
        let mut reader = Reader::open(&router, "/v1/events", Some(too_old)).await;
        assert!(
            reader.rest().await[0].starts_with("event: reset"),
            "{too_old}"
        );
    }
}
