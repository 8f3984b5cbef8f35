//! Rows become arrivals: once each in the order they were said, again until they are on disk, and never because of
//! a bad neighbour not at all.

use crate::stage::{channel, platform};
use bridge_channel::{Activity, Arrival, Inbox, Page, Standing};
use bridge_core::port::LedgerError;
use bridge_core::step::{Received, Verdict};
use bridge_core::value::{ChannelId, ExternalId, MessageId};
use bridge_sim::{Call, Fault, Memory, Platform};
use serde_json::json;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Longest wait for anything; only a broken test gets there.
const PATIENCE: Duration = Duration::from_secs(30);

/// A door that keeps what it takes, after the answers it was told to give first.
#[derive(Clone)]
struct Recorder {
    taken: Arc<watch::Sender<Vec<Arrival>>>,
    first: Arc<Mutex<VecDeque<Answer>>>,
}

enum Answer {
    Full,
    Failed,
}

impl Recorder {
    fn new(first: impl IntoIterator<Item = Answer>) -> Self {
        Self {
            taken: Arc::new(watch::Sender::new(Vec::new())),
            first: Arc::new(Mutex::new(first.into_iter().collect())),
        }
    }

    /// Waits until so many arrivals were taken; gives their texts.
    async fn bodies(&self, count: usize) -> Vec<String> {
        let mut taken = self.taken.subscribe();
        let reached = taken.wait_for(|taken| taken.len() >= count);
        let reached = tokio::time::timeout(PATIENCE, reached).await;
        let taken = reached.unwrap_or_else(|_| panic!("never {count} arrivals"));
        let taken = taken.unwrap();
        taken.iter().map(|arrival| arrival.body.clone()).collect()
    }
}

impl Inbox for Recorder {
    async fn take_page(&self, page: Page) -> Result<Vec<Received>, LedgerError> {
        let mut taken = Vec::new();
        for arrival in page.arrivals {
            taken.push(self.take_in(arrival).await?);
        }
        Ok(taken)
    }

    async fn cursor(&self, _channel: &ChannelId) -> Result<Option<String>, LedgerError> {
        Ok(None)
    }

    async fn standing(&self, _: &ChannelId, _: &ExternalId) -> Result<Standing, LedgerError> {
        Ok(Standing::New)
    }

    async fn activity(&self, _channel: &ChannelId) -> Activity {
        Activity::default()
    }

    async fn take_in(&self, arrival: Arrival) -> Result<Received, LedgerError> {
        let first = self.first.lock().unwrap().pop_front();
        match first {
            Some(Answer::Full) => return Ok(Received::Full),
            Some(Answer::Failed) => {
                let what = "the disk is full".to_owned();
                return Err(LedgerError::Unavailable { what });
            }
            None => {}
        }
        let id = MessageId::new(arrival.external_id.as_str());
        let mut known = false;
        self.taken.send_modify(|taken| {
            known = taken
                .iter()
                .any(|before| before.external_id == arrival.external_id);
            if !known {
                taken.push(arrival);
            }
        });
        Ok(if known {
            Received::Duplicate(id)
        } else {
            Received::New(id)
        })
    }
}

/// Fetches until it is dropped.
struct Fetching(CancellationToken);

impl Drop for Fetching {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

fn fetch(platform: &Platform, door: &Recorder) -> Fetching {
    let stop = CancellationToken::new();
    let (channel, door, stopped) = (channel(platform), door.clone(), stop.clone());
    tokio::spawn(async move { channel.fetch(door, stopped).await });
    Fetching(stop)
}

#[tokio::test]
async fn rows_arrive_in_order_and_promptly() {
    let platform = platform(Memory::Idempotent).await;
    for text in ["one", "two"] {
        platform.post("a", "ann", text).unwrap();
    }
    let door = Recorder::new([]);
    let _fetching = fetch(&platform, &door);
    assert_eq!(door.bodies(2).await, ["one", "two"]);
    let before = std::time::Instant::now();
    platform.post("a", "ann", "three").unwrap();
    assert_eq!(door.bodies(3).await, ["one", "two", "three"]);
    assert!(
        before.elapsed() < Duration::from_secs(5),
        "not by the clock"
    );
}

#[tokio::test]
async fn rejected_rows_are_fetched_again() {
    let platform = platform(Memory::Idempotent).await;
    for text in ["one", "two"] {
        platform.post("a", "ann", text).unwrap();
    }
    let door = Recorder::new([Answer::Full, Answer::Failed]);
    let _fetching = fetch(&platform, &door);
    assert_eq!(door.bodies(2).await, ["one", "two"]);
}

#[tokio::test]
async fn a_platform_that_fails_is_polled_again() {
    let platform = platform(Memory::Idempotent).await;
    platform.post("a", "ann", "one").unwrap();
    let refuse = Fault::Refuse {
        status: 503,
        retry_after: None,
    };
    platform.script(Call::Inbox, [refuse]);
    let door = Recorder::new([]);
    let _fetching = fetch(&platform, &door);
    assert_eq!(door.bodies(1).await, ["one"]);
}

#[tokio::test]
async fn a_bad_row_harms_no_other() {
    let platform = platform(Memory::Idempotent).await;
    platform.plant(json!("nonsense")).unwrap();
    platform.plant(json!({"text": 7})).unwrap();
    platform.post("a", "ann", "good").unwrap();
    let door = Recorder::new([]);
    let _fetching = fetch(&platform, &door);
    let bodies = door.bodies(2).await;
    assert_eq!(bodies[1], "good");
    let taken = door.taken.borrow().clone();
    assert!(
        matches!(&taken[0].verdict, Verdict::Unfit { tell: false, reason } if reason.contains("no message")),
        "{taken:?}"
    );
    assert_eq!(taken[1].verdict, Verdict::Fit);
}

#[tokio::test]
async fn oversized_page_is_fetched_in_parts() {
    let platform = platform(Memory::Idempotent).await;
    let long = "x".repeat(3 << 20);
    for _ in 0..8 {
        platform.post("a", "ann", &long).unwrap();
    }
    platform.post("a", "ann", "short").unwrap();
    let door = Recorder::new([]);
    let _fetching = fetch(&platform, &door);
    door.bodies(9).await;
    let taken = door.taken.borrow().clone();
    let longest = taken.iter().map(|arrival| arrival.body.len()).max();
    assert!(longest.unwrap() < 10_000, "not kept whole");
    assert_eq!(taken[8].body, "short");
}
