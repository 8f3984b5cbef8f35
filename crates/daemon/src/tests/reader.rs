//! Which node of a fleet reads a polled channel: one that can.

use super::files::Node;
use bridge_channel::Secret;
use bridge_channel::molecule::{
    Delivery, FirstStart, Molecule, Origin, Origins, Settings, TokenSource,
};
use bridge_core::port::{FleetRead, OnUnknown};
use bridge_core::value::{NodeId, Tier, reader_of};
use bridge_sim::molecule::{Edition, MoleculeOptions, MoleculePlatform, Workspace};
use bridge_testkit::MemoryLedger;
use std::time::Duration;
use tokio::time::{advance, pause, resume};

fn channel(platform: &MoleculePlatform, own: &Workspace) -> Molecule {
    let settings = Settings {
        workspace: own.id.clone(),
        platform_url: platform.url(),
        token: TokenSource::Value(Secret::new(own.token.clone())),
        org_id: None,
        allow_http: false,
        origins: Origins::of([Origin::Canvas], Tier::Owner),
        first_start: FirstStart { minutes: 10 },
        poll: Duration::from_millis(50),
        wake: false,
        max_reply_chars: 16_000,
        name: None,
        delivery: Delivery::Poll,
        on_unknown: OnUnknown::Hold,
    };
    Molecule::open(settings).unwrap()
}

async fn half_a_minute() {
    pause();
    advance(Duration::from_secs(31)).await;
    resume();
}

#[tokio::test]
async fn failing_reader_leaves_channel_to_next() {
    let options = MoleculeOptions {
        edition: Edition::New,
        ..MoleculeOptions::default()
    };
    let platform = MoleculePlatform::start(options).await.unwrap();
    let own = platform.add_workspace("alpha");
    let (on_a, on_b) = (channel(&platform, &own), channel(&platform, &own));
    let rows = MemoryLedger::new();
    let (a, b) = (Node::over(&rows, "a"), Node::over(&rows, "b"));
    let reader = || {
        let nodes = rows.snapshot().unwrap().nodes().unwrap();
        reader_of(&nodes, on_a.channel()).map(NodeId::to_string)
    };
    let read_by = |name: &str| Some(name.to_owned());
    a.daemon.offer(&on_a).await.unwrap();
    platform.set_database(false);
    assert!(!on_a.works_again().await);
    half_a_minute().await;
    a.daemon.offer(&on_a).await.unwrap();
    assert_eq!(reader(), read_by("a"), "no other node offers it");
    b.daemon.offer(&on_b).await.unwrap();
    assert_eq!(reader(), read_by("a"));
    a.daemon.offer(&on_a).await.unwrap();
    assert_eq!(reader(), read_by("b"));
    a.daemon.offer(&on_a).await.unwrap();
    assert_eq!(reader(), read_by("b"), "it does not work again yet");
    assert!(!on_b.works_again().await);
    half_a_minute().await;
    b.daemon.offer(&on_b).await.unwrap();
    assert_eq!(reader(), read_by("b"), "it is the last one");
    platform.set_database(true);
    a.daemon.offer(&on_a).await.unwrap();
    assert_eq!(reader(), read_by("a"));
}
