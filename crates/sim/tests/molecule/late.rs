//! Rows that come into sight behind a cursor: what a poller that trusts `since_id` loses, and that one which holds its
//! cursor back does not.

use std::collections::BTreeSet;

use bridge_sim::molecule::{Edition, Late};

use crate::rig::{Rig, message, texts};

const SENDERS: usize = 40;
const EACH: usize = 10;
/// Looks that the latest row is hidden for.
const LOOKS: u32 = 4;

/// The rows that a poller sees which always goes on from the newest row that it knew `back` pages ago.
async fn poll(rig: &Rig, back: usize) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut cursors: Vec<String> = vec![rig.platform.canvas_says(&rig.alpha, "start").unwrap()];
    let mut empty = 0;
    let senders = async {
        let sends = (0..SENDERS).map(|sender| send_all(rig, sender));
        futures_util::future::join_all(sends).await;
        true
    };
    let mut senders = std::pin::pin!(senders);
    let mut done = false;
    while !done || empty <= LOOKS {
        let cursor = &cursors[cursors.len().saturating_sub(1 + back)];
        let query = format!("?since_id={cursor}&limit=500");
        let page = tokio::select! {
            biased;
            ended = &mut senders, if !done => {
                done = ended;
                continue;
            }
            page = rig.page(&rig.alpha, &query) => page,
        };
        let before = seen.len();
        seen.extend(
            page.iter()
                .map(|row| row["id"].as_str().unwrap().to_owned()),
        );
        if seen.len() == before {
            empty += 1;
        }
        let newest = page
            .last()
            .map(|row| row["id"].as_str().unwrap().to_owned());
        let same = cursors.last().unwrap().clone();
        cursors.push(newest.unwrap_or(same));
    }
    seen
}

async fn send_all(rig: &Rig, sender: usize) {
    for number in 0..EACH {
        let id = format!("{sender}-{number}");
        assert_eq!(
            rig.send(&rig.beta, &rig.alpha, &message(&id, &id)).await.0,
            200
        );
    }
}

#[tokio::test]
async fn late_rows_are_lost_without_cursor_lag() {
    for edition in [Edition::Seed, Edition::New] {
        let rig = Rig::start(edition).await;
        rig.platform.set_late_messages(Late::Looks(LOOKS));
        let seen = poll(&rig, 0).await;
        let stored = rig.platform.inbox_of(&rig.alpha).len() - 1;
        assert_eq!(stored, SENDERS * EACH);
        println!("{edition:?}: {} of {stored} lost", stored - seen.len());
        assert!(seen.len() < stored, "nothing was lost, so nothing was late");
    }
}

#[tokio::test]
async fn lagging_cursor_loses_no_late_rows() {
    for edition in [Edition::Seed, Edition::New] {
        let rig = Rig::start(edition).await;
        rig.platform.set_late_messages(Late::Looks(LOOKS));
        let back = usize::try_from(LOOKS).unwrap() + 1;
        assert_eq!(poll(&rig, back).await.len(), SENDERS * EACH);
    }
}

#[tokio::test]
async fn receipt_waits_for_row_visibility() {
    let rig = Rig::start(Edition::New).await;
    let late = Late::Within(std::time::Duration::from_millis(20));
    rig.platform.set_late_messages(late);
    for number in 1..=5 {
        let body = message(&format!("m{number}"), "hi");
        assert_eq!(rig.send(&rig.beta, &rig.alpha, &body).await.0, 200);
        assert_eq!(rig.page(&rig.alpha, "").await.len(), number);
    }
}

#[tokio::test]
async fn held_row_appears_behind_later_rows() {
    let rig = Rig::start(Edition::New).await;
    rig.platform.set_late_messages(Late::Held);
    rig.platform.canvas_says(&rig.alpha, "early").unwrap();
    rig.platform.set_late_messages(Late::Never);
    let later = rig.platform.canvas_says(&rig.alpha, "later").unwrap();
    assert_eq!(texts(&rig.page(&rig.alpha, "").await), ["later"]);
    rig.platform.release_rows(&rig.alpha);
    let after = rig.page(&rig.alpha, &format!("?since_id={later}")).await;
    assert!(after.is_empty());
    assert_eq!(texts(&rig.page(&rig.alpha, "").await), ["later", "early"]);
}
