//! What a node does not begin once its lease is over: no database can refuse it. And what it sees without a wake-up.

use super::agent::Trouble;
use super::stage::Stage;
use crate::process::clock::now;
use bridge_core::port::{Ledger, Read};
use bridge_core::step::Cancel;
use bridge_core::value::{Actor, MessageId};
use bridge_host::keeper::{BootInstant, KeeperLease};
use std::sync::Arc;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);

pub(super) fn over() -> KeeperLease {
    KeeperLease::new(BootInstant::now())
}

pub(super) fn lasting() -> KeeperLease {
    KeeperLease::new(BootInstant::now().plus(HOUR))
}

fn renew(keepers: &KeeperLease) {
    keepers.renew(BootInstant::now().plus(HOUR));
}

#[tokio::test(start_paused = true)]
async fn replies_wait_for_the_lease() {
    let stage = Stage::new();
    stage.platform.refuse_for(HOUR);
    stage.start();
    stage.shown("one").await;
    stage
        .until("a refused reply", || stage.platform.sends() > 0)
        .await;
    let keepers = over();
    let stage = stage.dies_on_node(keepers.clone());
    assert!(
        !stage
            .reaches(2 * HOUR, || !stage.platform.visible().is_empty())
            .await
    );
    renew(&keepers);
    stage.done("one").await;
    assert_eq!(stage.platform.visible(), ["one"]);
}

#[tokio::test(start_paused = true)]
async fn turns_wait_for_the_lease() {
    let keepers = over();
    let stage = Stage::new().dies_on_node(keepers.clone());
    stage.shown("one").await;
    let is_held = || {
        let rows = stage.ledger.inner().snapshot().unwrap();
        let message = rows.message(&MessageId::new("m-one")).unwrap().unwrap();
        message.life.state.hold().is_some()
    };
    stage.until("a held message", is_held).await;
    assert_eq!(stage.agent.asked("one"), 0);
    renew(&keepers);
    stage.done("one").await;
    assert_eq!(stage.agent.asked("one"), 1);
}

/// Another node took the stop in, and its wake-up was lost.
#[tokio::test(start_paused = true)]
async fn stop_is_seen_without_a_wakeup() {
    let keepers = KeeperLease::new(BootInstant::now().plus(HOUR));
    let stage = Stage::new().dies_on_node(keepers);
    stage.agent.trouble(Trouble::Slow(HOUR));
    tokio::spawn(Arc::clone(&stage.daemon).look_slowly());
    stage.shown("slow").await;
    let message_id = MessageId::new("m-slow");
    let running = || stage.daemon.turns.running.lock().get(&message_id).cloned();
    stage.until("a running turn", || running().is_some()).await;
    let turn = running().unwrap();
    let cancel = Cancel {
        message_id: message_id.clone(),
        by: Actor::named("ann"),
    };
    let elsewhere = stage.ledger.inner();
    elsewhere.transact(cancel, now()).await.unwrap();
    let seen = stage
        .reaches(Duration::from_secs(120), || turn.stop.is_cancelled())
        .await;
    assert!(seen);
}
