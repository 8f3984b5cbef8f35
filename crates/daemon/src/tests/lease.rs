//! What a node does not begin once its lease is over: no database can refuse it.

use super::stage::Stage;
use bridge_core::port::Read;
use bridge_core::value::MessageId;
use bridge_host::keeper::{BootInstant, KeeperLease};
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
