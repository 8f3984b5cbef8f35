//! S10: the disk is slow. While a commit takes too long the gauge closes the door, and what was handed in is not given
//! up: it is done when its time comes.

use crate::given::{World, key, text};
use crate::rig::{Place, until};
use bridge_core::step::{RunError, Transition, Tx};
use bridge_core::value::Timestamp;
use bridge_store::sqlite::{Limits, Pressure};
use bridge_store::{Options, SqliteLedger};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// A commit that takes as long as it is told to.
#[derive(Clone)]
struct Slow(Arc<Mutex<mpsc::Receiver<()>>>);

impl Transition for Slow {
    type Outcome = ();
    const NAME: &'static str = "slow";

    fn apply(self, _tx: &mut Tx<'_>, _now: Timestamp) -> Result<(), RunError> {
        self.0.lock().unwrap().recv().unwrap();
        Ok(())
    }
}

#[tokio::test]
async fn s10_slow_commit_keeps_waiting_writes() {
    let place = Place::new();
    let limits = Limits {
        slow_commit: Duration::from_millis(200),
        slow_pause: Duration::from_millis(300),
        ..Limits::default()
    };
    let options = Options {
        limits,
        ..Options::default()
    };
    let ledger = SqliteLedger::open(&place.path, &key(), options).unwrap();
    let gauge = ledger.gauge();
    let (let_go, hold) = mpsc::channel();
    let world = World::over(&ledger);
    let slow = tokio::spawn({
        let world = World::over(&ledger);
        async move { world.tries(Slow(Arc::new(Mutex::new(hold)))).await }
    });
    until("the door to close", || gauge.admit().is_err()).await;
    let Err(Pressure::Slow { took, retry_after }) = gauge.admit() else {
        panic!("{:?}", gauge.admit());
    };
    assert!(took >= limits.slow_commit && retry_after == limits.slow_pause);
    let waiting = tokio::spawn({
        let world = World::over(&ledger);
        async move { world.tries(text("a", "m1")).await }
    });
    assert_eq!(world.reads(|rows| rows.backlog()).await, 0, "reads go on");
    let_go.send(()).unwrap();
    slow.await.unwrap().unwrap();
    waiting.await.unwrap().unwrap();
    until("the door to open", || gauge.admit().is_ok()).await;
    assert!(gauge.vitals().last_commit.is_some());
}
