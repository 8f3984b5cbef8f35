//! S2: another process holds the ledger's lock, as a backup tool may. Shorter than the timeout it is only a wait,
//! longer it is a passing failure, and no transition is lost either way.

use crate::given::{World, key, text};
use crate::rig::{Place, again, told};
use bridge_core::port::{LedgerError, RowsError};
use bridge_core::value::Class;
use bridge_store::{OpenError, Options, SqliteLedger};
use rusqlite::Connection;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

const HOLD: &str = "CODEX_BRIDGE_TEST_S2_HOLD";

/// Another process that holds the lock until it is told to let go.
struct Holder {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Holder {
    fn of(ledger: &Path) -> Self {
        let mut child = again(&[], HOLD, ledger.to_str().unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("it is held") {
            line.clear();
            assert_ne!(said.read_line(&mut line).unwrap(), 0, "it ended");
        }
        Self { child, said }
    }

    fn let_go(mut self) {
        drop(self.child.stdin.take());
        self.said.read_to_end(&mut Vec::new()).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

/// Whether this is the process that holds the lock; then it has done so.
fn held_here() -> bool {
    let Some(path) = told(HOLD) else {
        return false;
    };
    let conn = Connection::open(path).unwrap();
    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    println!("it is held");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    conn.execute_batch("ROLLBACK").unwrap();
    true
}

#[tokio::test]
async fn s2_short_lock_only_delays() {
    if held_here() {
        return;
    }
    assert_eq!(Options::default().busy_timeout, Duration::from_secs(5));
    let place = Place::new();
    let ledger = place.open();
    let holder = Holder::of(&place.path);
    let waiting = tokio::spawn({
        let world = World::over(&ledger);
        async move { world.tries(text("a", "m1")).await }
    });
    let world = World::over(&ledger);
    assert_eq!(
        world.reads(|rows| rows.backlog()).await,
        0,
        "reads do not wait"
    );
    holder.let_go();
    waiting.await.unwrap().unwrap();
    assert_eq!(world.reads(|rows| rows.backlog()).await, 1);
}

#[tokio::test]
async fn s2_long_lock_is_transient_error() {
    if held_here() {
        return;
    }
    let place = Place::new();
    let options = Options {
        busy_timeout: Duration::from_millis(20),
        ..Options::default()
    };
    let ledger = SqliteLedger::open(&place.path, &key(), options).unwrap();
    let world = World::over(&ledger);
    let holder = Holder::of(&place.path);
    for _ in 0..3 {
        let error = world.tries(text("a", "m1")).await.unwrap_err();
        assert!(
            matches!(error, LedgerError::Rows(RowsError::Backend { .. })),
            "{error}"
        );
        assert!(error.to_string().contains("locked"), "{error}");
        assert_eq!(error.class(), Class::Transient);
    }
    let error = SqliteLedger::open(&place.path, &key(), options).unwrap_err();
    assert!(
        matches!(error, OpenError::Sqlite { .. }) && !error.is_damage(),
        "{error:?}"
    );
    holder.let_go();
    world.does(text("a", "m1")).await;
    assert_eq!(world.reads(|rows| rows.backlog()).await, 1);
}
