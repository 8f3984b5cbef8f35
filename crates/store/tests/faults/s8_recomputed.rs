//! S8: somebody else commits while a transition waits for its turn. The decision is made on the rows as they are when
//! it gets it, and made anew when it is tried again: nothing rests on what was read before.

use crate::given::{World, claim, key, text};
use crate::rig::Place;
use bridge_core::port::{Ledger, LedgerError, RowsError};
use bridge_core::step::ClaimOutcome;
use bridge_store::{Options, SqliteLedger};
use rusqlite::Connection;
use std::time::Duration;

/// Takes a message out of the queue behind the ledger's back.
const BURY_M1: &str =
    "UPDATE message SET state = 'dead', reason = 'by hand', queue = NULL WHERE message_id = 'm1'";

fn claimed(outcome: ClaimOutcome) -> String {
    match outcome {
        ClaimOutcome::Claimed { message, .. } => message.message_id.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn s8_delayed_transition_sees_current_rows() {
    let place = Place::new();
    let ledger = place.open();
    let mut world = World::over(&ledger);
    world.receives(&[("a", "m1"), ("b", "m2")]).await;
    let commits = ledger.commits();
    let other = Connection::open(&place.path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let now = world.now;
    let waiting = tokio::spawn({
        let ledger = ledger.clone();
        async move { ledger.transact(claim(10, now), now).await }
    });
    assert_eq!(world.reads(|rows| rows.backlog()).await, 2, "reads go on");
    other.execute_batch(BURY_M1).unwrap();
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(claimed(waiting.await.unwrap().unwrap().outcome), "m2");
    assert_eq!(ledger.commits(), commits + 1);
}

#[tokio::test]
async fn s8_retried_transition_is_recomputed() {
    let place = Place::new();
    let options = Options {
        busy_timeout: Duration::from_millis(10),
        ..Options::default()
    };
    let ledger = SqliteLedger::open(&place.path, &key(), options).unwrap();
    let mut world = World::over(&ledger);
    world.receives(&[("a", "m1"), ("b", "m2")]).await;
    let step = claim(10, world.now);
    let other = Connection::open(&place.path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = world.tries(step.clone()).await.unwrap_err();
    assert!(
        matches!(error, LedgerError::Rows(RowsError::Backend { .. })),
        "{error}"
    );
    other.execute_batch(BURY_M1).unwrap();
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(claimed(world.does(step).await.outcome), "m2");
}

/// A reader's snapshot is never the ground of a write: a writer with an old snapshot would meet SQLITE_BUSY_SNAPSHOT.
#[tokio::test]
async fn s8_concurrent_writers_only_wait() {
    let place = Place::new();
    let ledger = place.open();
    let world = World::over(&ledger);
    let path = place.path.clone();
    let other = tokio::task::spawn_blocking(move || {
        let conn = Connection::open(path).unwrap();
        conn.busy_timeout(Duration::from_secs(30)).unwrap();
        for n in 0..200 {
            let insert = "INSERT INTO cursor VALUES (?1, 'p', NULL, 0)";
            conn.execute(insert, [format!("c{n}")]).unwrap();
        }
    });
    for n in 0..200 {
        world.does(text(&format!("k{n}"), &format!("m{n}"))).await;
    }
    other.await.unwrap();
    assert_eq!(world.reads(|rows| rows.backlog()).await, 200);
}
