//! How places at Codex are shared out.

use crate::fixture::Fixture;
use crate::given::{World, answered, begin, claim, failure, lose, message, reconcile, text};
use bridge_core::port::{Ledger, TurnHistory};
use bridge_core::step::{Claim, ClaimOutcome, DeferReconcile};
use bridge_core::value::{ChannelId, Class, Sandbox, Tier};

/// Receives a text of this sender in a conversation of its own.
async fn from<L: Ledger>(world: &mut World<L>, sender: &str, id: &str) {
    world.pass_ms(1);
    let mut text = text(id, id);
    text.sender = sender.to_owned();
    world.does(text).await;
}

pub(super) async fn senders_take_turns<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    for id in ["a1", "a2", "a3", "a4"] {
        from(&mut world, "ann", id).await;
    }
    assert_eq!(world.claims().await, "a1");
    assert_eq!(world.claims().await, "a2");
    from(&mut world, "bob", "b1").await;
    from(&mut world, "bob", "b2").await;
    let mut order = Vec::new();
    for _ in 0..4 {
        order.push(world.claims().await);
    }
    assert_eq!(
        order,
        ["b1", "a3", "b2", "a4"],
        "bob does not wait behind ann's heap"
    );
}

pub(super) async fn one_suspect_works_at_a_time<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    for id in ["m1", "m2"] {
        world.starts(id, id, Sandbox::ReadOnly).await;
    }
    for id in ["m1", "m2"] {
        world.does(lose(id)).await;
        world.does(reconcile(id, TurnHistory::Absent)).await;
    }
    world.receives(&[("m3", "m3")]).await;
    assert_eq!(world.claims().await, "m1");
    assert_eq!(world.claims().await, "m3", "m2 is a suspect like m1");
    assert_eq!(world.idles().await, None, "it waits for no time");
    world.does(begin("m1", Sandbox::ReadOnly)).await;
    world.does(answered("m1", "yes", None)).await;
    assert_eq!(world.claims().await, "m2");
}

pub(super) async fn writers_of_one_directory_take_turns<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.receives(&[("a", "m1"), ("b", "m2")]).await;
    let mut reader = text("c", "m3");
    reader.tier = Tier::Peer;
    world.does(reader).await;
    let one_writer = |now| Claim {
        one_writer: vec!["/work".to_owned()],
        readers: vec![Tier::Peer],
        ..claim(9, now)
    };
    let claimed = |outcome| match outcome {
        ClaimOutcome::Claimed { message, .. } => Some(message.message_id.to_string()),
        _ => None,
    };
    let first = world.does(one_writer(world.now)).await.outcome;
    assert_eq!(claimed(first).as_deref(), Some("m1"));
    let second = world.does(one_writer(world.now)).await.outcome;
    assert_eq!(claimed(second).as_deref(), Some("m3"), "who only reads may");
    let third = world.does(one_writer(world.now)).await.outcome;
    assert_eq!(claimed(third), None);
    world.does(begin("m1", Sandbox::WorkspaceWrite)).await;
    world.does(answered("m1", "yes", None)).await;
    let fourth = world.does(one_writer(world.now)).await.outcome;
    assert_eq!(claimed(fourth).as_deref(), Some("m2"));
}

pub(super) async fn a_channel_has_its_own_cap<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.receives(&[("a", "m1"), ("b", "m2")]).await;
    let mut other = text("c", "m3");
    other.channel = ChannelId::new("other");
    world.does(other).await;
    let capped = |now| Claim {
        turns_per_channel: 1,
        ..claim(9, now)
    };
    let mut claimed = Vec::new();
    while let ClaimOutcome::Claimed { message, .. } = world.does(capped(world.now)).await.outcome {
        claimed.push(message.message_id.to_string());
    }
    assert_eq!(claimed, ["m1", "m3"]);
}

pub(super) async fn a_lost_turn_that_cannot_be_seen_takes_no_place<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.starts("a", "m1", Sandbox::ReadOnly).await;
    world.receives(&[("a", "m2"), ("b", "n1")]).await;
    world.does(lose("m1")).await;
    assert_eq!(world.claim(1).await, ClaimOutcome::Full { next_due: None });
    let blind = DeferReconcile {
        message_id: message("m1"),
        failure: failure(Class::Config),
        until: world.now.plus_ms(500),
    };
    world.does(blind).await;
    assert_eq!(world.claims().await, "n1");
    assert_eq!(
        world.idles().await,
        None,
        "its own conversation waits for it"
    );
    world.does(reconcile("m1", TurnHistory::Absent)).await;
    assert_eq!(world.claims().await, "m1");
}
