//! Attempts that end without an answer.

use crate::fixture::Fixture;
use crate::given::{World, fail};
use bridge_core::value::{Class, MessageState, NextInput, Sandbox, StateName, Timestamp};

pub(super) async fn each_class_leads_where_it_should<F: Fixture>() {
    for (class, state, spent, notices) in [
        (Class::Transient, StateName::Received, 1, 0),
        (Class::Capacity { until: None }, StateName::Received, 0, 1),
        (Class::Config, StateName::Received, 0, 1),
        (Class::Permanent, StateName::Dead, 1, 1),
        (Class::Ambiguous, StateName::Unclear, 1, 0),
        (Class::Bug, StateName::Dead, 1, 1),
    ] {
        let fixture = F::open();
        let mut world = World::over(fixture.ledger());
        world.runs("a", "m1", Sandbox::ReadOnly).await;
        world.does(fail("m1", class.clone())).await;
        let message = world.message("m1").await;
        assert_eq!(message.life.state.name(), state, "{class:?}");
        assert_eq!(message.life.spent, spent, "{class:?}");
        assert_eq!(message.life.failure.unwrap().class, class);
        let id = message.message_id;
        let replies = world.reads(move |rows| rows.replies(&id)).await;
        assert_eq!(replies.len(), notices, "{class:?}");
    }
}

pub(super) async fn a_wait_for_capacity_ends_when_it_was_said<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.runs("a", "m1", Sandbox::ReadOnly).await;
    let until = Some(Timestamp(world.now.0 + 77_000));
    world.does(fail("m1", Class::Capacity { until })).await;
    let MessageState::Received { hold: Some(hold) } = world.message("m1").await.life.state else {
        panic!("it is not held");
    };
    assert_eq!(Some(hold.until), until);
    assert_eq!(hold.failure.class, Class::Capacity { until });
    assert_eq!(world.idles().await, until);
}

pub(super) async fn a_touched_turn_is_continued<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.runs("a", "m1", Sandbox::WorkspaceWrite).await;
    let mut cut = fail("m1", Class::Transient);
    cut.touched = true;
    world.does(cut).await;
    let life = world.message("m1").await.life;
    assert_eq!((life.input, life.continues), (NextInput::Continue, 1));
}
