//! What the stores that outlive a process promise beyond the contract: durability, shared commits, and that one transition's
//! failure is its own.

use crate::fixture::Durable;
use crate::given::{World, Write, message, text};
use crate::view::everything;
use bridge_core::port::{Change, LedgerError, RowsError};
use bridge_core::step::{Received, RunError, Transition, Tx};
use bridge_core::value::{AuditEntry, ChannelId, RequestId, Sandbox, Timestamp};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Waker};
use tokio::sync::oneshot;

/// A transition that stops the writer until it is let go.
#[derive(Clone)]
pub(crate) struct Gate {
    entered: Arc<Mutex<Option<oneshot::Sender<()>>>>,
    release: Arc<Mutex<mpsc::Receiver<()>>>,
}

/// The other side of a gate.
pub(crate) struct Keeper {
    pub(crate) entered: oneshot::Receiver<()>,
    pub(crate) release: mpsc::Sender<()>,
}

pub(crate) fn gate() -> (Gate, Keeper) {
    let (entered, has_entered) = oneshot::channel();
    let (let_go, release) = mpsc::channel();
    let keeper = Keeper {
        entered: has_entered,
        release: let_go,
    };
    let gate = Gate {
        entered: Arc::new(Mutex::new(Some(entered))),
        release: Arc::new(Mutex::new(release)),
    };
    (gate, keeper)
}

impl Transition for Gate {
    type Outcome = ();
    const NAME: &'static str = "gate";

    fn apply(self, _tx: &mut Tx<'_>, _now: Timestamp) -> Result<(), RunError> {
        // Run again, it is open.
        let Some(entered) = self.entered.lock().unwrap().take() else {
            return Ok(());
        };
        entered.send(()).unwrap();
        self.release.lock().unwrap().recv().unwrap();
        Ok(())
    }
}

/// A transition with a bug.
#[derive(Clone)]
pub(crate) struct Panics;

impl Transition for Panics {
    type Outcome = ();
    const NAME: &'static str = "panics";

    fn apply(self, _tx: &mut Tx<'_>, _now: Timestamp) -> Result<(), RunError> {
        panic!("on purpose")
    }
}

pub(crate) type Pending<'a, V> = Pin<Box<dyn Future<Output = V> + Send + 'a>>;

/// Hands a transition in without waiting for its verdict.
pub(crate) fn hand_in<'a, V>(future: impl Future<Output = V> + Send + 'a) -> Pending<'a, V> {
    let mut future: Pending<'a, V> = Box::pin(future);
    let polled = future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
    future
}

async fn rows_survive_the_process<F: Durable>() {
    let mut disk = F::open();
    let mut world = World::over(disk.ledger());
    world.runs("a", "m1", Sandbox::WorkspaceWrite).await;
    world.receives(&[("a", "m2"), ("b", "m3")]).await;
    let now = world.now;
    let before = everything(disk.ledger(), now).await;
    drop(world);
    disk.reopen();
    assert_eq!(everything(disk.ledger(), now).await, before);
}

async fn what_waits_shares_one_commit<F: Durable>() {
    let disk = F::open();
    let ledger = disk.ledger();
    let world = World::over(ledger);
    let (gate, keeper) = gate();
    let held = hand_in(world.tries(gate));
    keeper.entered.await.unwrap();
    let commits = disk.commits();
    let waiting: Vec<_> = (0..100)
        .map(|n| hand_in(world.tries(text(&format!("k{n}"), &format!("m{n}")))))
        .collect();
    keeper.release.send(()).unwrap();
    held.await.unwrap();
    for (n, pending) in waiting.into_iter().enumerate() {
        let received = pending.await.unwrap().outcome;
        assert_eq!(received, Received::New(message(&format!("m{n}"))));
    }
    let shared = disk.commits() - commits;
    assert!(F::COMMITS_OF_A_HUNDRED.contains(&shared), "{shared}");
}

async fn reads_see_only_committed_rows<F: Durable>() {
    let disk = F::open();
    let world = World::over(disk.ledger());
    let (first, first_keeper) = gate();
    let (second, second_keeper) = gate();
    let first = hand_in(world.tries(first));
    first_keeper.entered.await.unwrap();
    let mut received = hand_in(world.tries(text("a", "m1")));
    let second = hand_in(world.tries(second));
    first_keeper.release.send(()).unwrap();
    first.await.unwrap();
    second_keeper.entered.await.unwrap();
    assert_eq!(world.reads(|rows| rows.backlog()).await, 0);
    let early = received
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    assert!(early.is_pending());
    second_keeper.release.send(()).unwrap();
    second.await.unwrap();
    received.await.unwrap();
    assert_eq!(world.reads(|rows| rows.backlog()).await, 1);
}

async fn panic_rolls_back_only_its_transition<F: Durable>() {
    let disk = F::open();
    let world = World::over(disk.ledger());
    let (gate, keeper) = gate();
    let held = hand_in(world.tries(gate));
    keeper.entered.await.unwrap();
    let before = hand_in(world.tries(text("a", "m1")));
    let panics = hand_in(world.tries(Panics));
    let after = hand_in(world.tries(text("a", "m2")));
    keeper.release.send(()).unwrap();
    held.await.unwrap();
    before.await.unwrap();
    let error = panics.await.unwrap_err();
    assert!(matches!(error, LedgerError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("on purpose"), "{error}");
    after.await.unwrap();
    assert_eq!(world.claims().await, "m1");
}

async fn failed_transitions_leave_others_unchanged<F: Durable>() {
    let torn = |position: &str| {
        Write(vec![
            Change::Cursor {
                channel: ChannelId::new("torn"),
                position: position.to_owned(),
                at: Timestamp(1),
            },
            Change::Reminded {
                request_id: RequestId::new("nothing"),
            },
        ])
    };
    let note = |subject: &str| {
        Write(vec![Change::Audit(AuditEntry {
            at: Timestamp(1),
            actor: "somebody".to_owned(),
            what: "looked".to_owned(),
            subject: subject.to_owned(),
            detail: String::new(),
        })])
    };
    let disk = F::open();
    let world = World::over(disk.ledger());
    let (gate, keeper) = gate();
    let held = hand_in(world.tries(gate));
    keeper.entered.await.unwrap();
    let noted_first = hand_in(world.tries(note("m0")));
    let first = hand_in(world.tries(text("a", "m1")));
    let fails = hand_in(world.tries(torn("1")));
    let second = hand_in(world.tries(text("a", "m2")));
    let fails_too = hand_in(world.tries(torn("2")));
    let third = hand_in(world.tries(text("b", "m3")));
    let noted = hand_in(world.tries(note("m1")));
    let commits = disk.commits();
    keeper.release.send(()).unwrap();
    held.await.unwrap();
    for torn in [fails, fails_too] {
        let error = torn.await.unwrap_err();
        assert!(
            matches!(error, LedgerError::Rows(RowsError::Conflict { .. })),
            "{error}"
        );
    }
    for whole in [first, second, third] {
        whole.await.unwrap();
    }
    for noted in [noted_first, noted] {
        noted.await.unwrap();
    }
    assert_eq!(disk.commits() - commits, 2);

    let without = F::open();
    let beside = World::over(without.ledger());
    beside.tries(note("m0")).await.unwrap();
    for received in [text("a", "m1"), text("a", "m2"), text("b", "m3")] {
        beside.tries(received).await.unwrap();
    }
    beside.tries(note("m1")).await.unwrap();
    let now = world.now;
    let found = everything(disk.ledger(), now).await;
    assert_eq!(found, everything(without.ledger(), now).await);
    let cursor = world.reads(|rows| rows.cursor(&ChannelId::new("torn")));
    assert_eq!(cursor.await, None);
}

async fn dropped_caller_keeps_its_transition<F: Durable>() {
    let disk = F::open();
    let world = World::over(disk.ledger());
    let (gate, keeper) = gate();
    let held = hand_in(world.tries(gate));
    keeper.entered.await.unwrap();
    drop(hand_in(world.tries(text("a", "m1"))));
    keeper.release.send(()).unwrap();
    held.await.unwrap();
    world.does(Write(Vec::new())).await;
    assert_eq!(world.reads(|rows| rows.backlog()).await, 1);
}

/// Runs every promise on every store.
macro_rules! on_each {
    ($($store:ident: $fixture:ty),* ; $promises:tt) => {
        $(on_each!(@store $store $fixture $promises);)*
    };
    (@store $store:ident $fixture:ty { $($promise:ident),* $(,)? }) => {
        mod $store {
            $(#[tokio::test]
            async fn $promise() {
                super::$promise::<$fixture>().await;
            })*
        }
    };
}

on_each! {
    sqlite: crate::fixture::OnDisk,
    postgres: crate::fixture::OnPostgres;
    {
        rows_survive_the_process,
        what_waits_shares_one_commit,
        reads_see_only_committed_rows,
        panic_rolls_back_only_its_transition,
        failed_transitions_leave_others_unchanged,
        dropped_caller_keeps_its_transition,
    }
}
