//! Who is claimed next, and who must wait.

use crate::fixture::Fixture;
use crate::given::{World, Write, answered, attach, begin, fail, message, text};
use bridge_core::limits::ATTEMPTS_MAX;
use bridge_core::port::Change;
use bridge_core::step::{ClaimOutcome, Resume};
use bridge_core::value::{Class, MessageState, Sandbox, SenderKind, StateName, Timestamp};

pub(super) async fn people_go_first_and_then_the_oldest<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    for (key, id, kind) in [
        ("a", "m4", SenderKind::Agent),
        ("b", "m3", SenderKind::Person),
        ("c", "m1", SenderKind::Agent),
        ("d", "m2", SenderKind::Person),
    ] {
        world.pass_ms(1);
        let mut text = text(key, id);
        text.kind = kind;
        text.sender = id.to_owned();
        world.does(text).await;
    }
    let mut same_time = text("e", "m0");
    same_time.kind = SenderKind::Person;
    same_time.sender = "m0".to_owned();
    world.does(same_time).await;
    let heads = world
        .reads(move |rows| {
            rows.heads(
                Timestamp(i64::MAX),
                &bridge_core::port::HeadFilter::default(),
                3,
            )
        })
        .await;
    let ids: Vec<_> = heads
        .iter()
        .map(|head| head.message.message_id.as_str())
        .collect();
    assert_eq!(ids, ["m3", "m0", "m2"]);
    for expected in ["m3", "m0", "m2", "m4", "m1"] {
        assert_eq!(world.claims().await, expected);
    }
    assert_eq!(world.idles().await, None);
}

pub(super) async fn one_message_of_a_conversation_is_in_flight<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world
        .receives(&[("a", "m1"), ("a", "m2"), ("a", "m3"), ("b", "n1")])
        .await;
    assert_eq!(world.claims().await, "m1");
    assert_eq!(world.claims().await, "n1");
    assert_eq!(world.idles().await, None);
    world.does(begin("m1", Sandbox::ReadOnly)).await;
    assert_eq!(world.idles().await, None);
    world.does(attach("m1")).await;
    assert_eq!(world.idles().await, None);
    world.does(crate::given::lose("m1")).await;
    assert_eq!(world.idles().await, None);
    let found = bridge_core::port::TurnHistory::Absent;
    world.does(crate::given::reconcile("m1", found)).await;
    assert_eq!(world.claims().await, "m1");
    world.does(begin("m1", Sandbox::ReadOnly)).await;
    world.does(answered("m1", "yes", None)).await;
    assert_eq!(world.claims().await, "m2");
    assert_eq!(world.idles().await, None);
    let flight = world.reads(|rows| rows.flight(&[])).await;
    assert_eq!(flight.iter().map(|of| of.turns).sum::<u32>(), 2);
    world.does(fail("m2", Class::Permanent)).await;
    assert_eq!(world.claims().await, "m3");
}

pub(super) async fn a_waiting_head_blocks_only_its_conversation<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.receives(&[("a", "m1"), ("a", "m2")]).await;
    assert_eq!(world.claims().await, "m1");
    world.does(fail("m1", Class::Transient)).await;
    let due = world.idles().await.unwrap();
    assert_eq!(due.since_ms(world.now), 2_000);
    world.receives(&[("b", "n1")]).await;
    assert_eq!(world.claims().await, "n1");
    assert_eq!(world.idles().await, Some(due));
    world.now = due.plus_ms(-1);
    assert_eq!(world.idles().await, Some(due));
    world.now = due;
    assert_eq!(world.claims().await, "m1");
    assert_eq!(world.idles().await, None);
}

pub(super) async fn the_cap_is_kept<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world
        .receives(&[("a", "m1"), ("b", "m2"), ("c", "m3")])
        .await;
    assert!(matches!(world.claim(2).await, ClaimOutcome::Claimed { .. }));
    assert!(matches!(world.claim(2).await, ClaimOutcome::Claimed { .. }));
    assert_eq!(world.claim(2).await, ClaimOutcome::Full { next_due: None });
    world.does(fail("m1", Class::Permanent)).await;
    assert!(matches!(world.claim(2).await, ClaimOutcome::Claimed { .. }));
}

pub(super) async fn a_message_that_spent_its_attempts_is_buried<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.receives(&[("a", "m1"), ("a", "m2")]).await;
    // The first death is nobody's fault.
    for _ in 0..=ATTEMPTS_MAX {
        assert_eq!(world.claims().await, "m1");
        let message_id = message("m1");
        world.does(Resume { message_id }).await;
    }
    assert_eq!(world.claim(1).await, ClaimOutcome::Buried);
    assert_eq!(world.state("m1").await, StateName::Dead);
    let notice = world.sends("a").await;
    assert!(
        notice.body.contains("There is no answer"),
        "{}",
        notice.body
    );
    assert_eq!(world.claims().await, "m2");
}

pub(super) async fn d8_kills_before_a_turn_have_a_reason<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.receives(&[("a", "m1")]).await;
    for _ in 0..=ATTEMPTS_MAX {
        assert_eq!(world.claims().await, "m1");
        let message_id = message("m1");
        world.does(Resume { message_id }).await;
    }
    assert_eq!(world.claim(1).await, ClaimOutcome::Buried);
    let life = world.message("m1").await.life;
    let reason = "given up after 4 attempts, 3 of which count (the limit is 3); the last one: the daemon stopped before Codex was given this message";
    assert_eq!(
        life.state,
        MessageState::Dead {
            reason: reason.to_owned()
        }
    );
    assert_eq!((life.attempt, life.spent), (4, ATTEMPTS_MAX));
    let notice = world.sends("a").await;
    assert!(notice.body.contains(reason), "{}", notice.body);
}

pub(super) async fn a_message_that_comes_back_goes_before_those_behind_it<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world
        .receives(&[("a", "m1"), ("a", "m2"), ("a", "m3")])
        .await;
    assert_eq!(world.claims().await, "m1");
    world.does(fail("m1", Class::Permanent)).await;
    redrive(&world, "m1").await;
    assert_eq!(world.claims().await, "m1");
    assert_eq!(world.idles().await, None);
}

pub(super) async fn a_returning_message_waits_for_the_flight_of_a_later_one<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world
        .receives(&[("a", "m1"), ("a", "m2"), ("a", "m3")])
        .await;
    assert_eq!(world.claims().await, "m1");
    world.does(fail("m1", Class::Permanent)).await;
    assert_eq!(world.claims().await, "m2");
    redrive(&world, "m1").await;
    assert_eq!(world.idles().await, None);
    world.does(fail("m2", Class::Permanent)).await;
    assert_eq!(world.claims().await, "m1");
    assert_eq!(world.idles().await, None);
}

/// A person sends a dead message again.
async fn redrive<L: bridge_core::port::Ledger>(world: &World<L>, id: &str) {
    let life = world.message(id).await.life;
    let again = Change::UpdateState {
        message_id: message(id),
        from: life.state.name(),
        life: life.moved(MessageState::Received { hold: None }, world.now),
    };
    world.does(Write(vec![again])).await;
}
