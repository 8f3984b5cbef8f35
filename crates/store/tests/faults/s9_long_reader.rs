//! S9: somebody holds the ledger open for reading. Our own questions are bounded in time; behind a foreign one the log
//! grows for everybody to see, and shrinks again when it is gone.

use crate::given::{World, key, text};
use crate::rig::{PATIENCE, Place};
use bridge_core::port::{Ledger, LedgerError, RowsError};
use bridge_core::step::Receive;
use bridge_store::{Options, SqliteLedger};
use rusqlite::Connection;
use std::time::Duration;

/// What the log is cut back to.
const KEPT: u64 = 32 * 1024 * 1024;

fn big(n: usize) -> Receive {
    let id = format!("m{n}");
    Receive {
        body: "x".repeat(1_000_000),
        ..text(&id, &id)
    }
}

#[tokio::test]
async fn s9_log_shrinks_after_reader_ends() {
    let place = Place::new();
    let ledger = place.open();
    let world = World::over(&ledger);
    world.does(text("a", "first")).await;
    let reader = Connection::open(&place.path).unwrap();
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM message")
        .unwrap();
    let log = || ledger.gauge().vitals().log_bytes;
    let mut n = 0;
    while log() < KEPT + 4_000_000 {
        world.does(big(n)).await;
        n += 1;
    }
    let seen: i64 = reader
        .query_row("SELECT count(*) FROM message", [], |row| row.get(0))
        .unwrap();
    assert_eq!(seen, 1, "the reader still sees its snapshot");
    reader.execute_batch("ROLLBACK").unwrap();
    for more in 0..4 {
        world.does(big(n + more)).await;
    }
    assert!(log() <= KEPT, "{} bytes", log());
    assert_eq!(world.reads(|rows| rows.backlog()).await as usize, n + 5);
}

#[tokio::test]
async fn s9_endless_read_is_interrupted() {
    let place = Place::new();
    let options = Options {
        readers: 1,
        read_max: Duration::from_millis(20),
        ..Options::default()
    };
    let ledger = SqliteLedger::open(&place.path, &key(), options).unwrap();
    World::over(&ledger).does(text("a", "m1")).await;
    let endless = ledger.read(|rows| -> Result<(), RowsError> {
        loop {
            rows.counts()?;
        }
    });
    let ended = tokio::time::timeout(PATIENCE, endless).await.unwrap();
    let Err(LedgerError::Rows(RowsError::Backend { what })) = ended else {
        panic!("{ended:?}");
    };
    assert!(what.contains("interrupted"), "{what}");
    assert_eq!(
        ledger.read(|rows| rows.backlog()).await,
        Ok(1),
        "the next one is answered"
    );
}
