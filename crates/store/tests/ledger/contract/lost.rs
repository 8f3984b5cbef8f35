//! Turns whose end was not seen, and what reconcile and resume make of them.

use crate::fixture::Fixture;
use crate::given::{World, answered, begin, conversation, found, message, reconcile};
use bridge_core::port::{TurnHistory, TurnStatus};
use bridge_core::step::{Action, Resume};
use bridge_core::value::{AnswerSource, BootId, NextInput, Sandbox, StateName, TurnState};

pub(super) async fn an_answer_in_the_history_is_harvested<F: Fixture>() {
    for status in [
        TurnStatus::Completed,
        TurnStatus::Interrupted,
        TurnStatus::Failed,
    ] {
        let fixture = F::open();
        let mut world = World::over(fixture.ledger());
        world.loses("a", "m1", Sandbox::WorkspaceWrite).await;
        let history = found("m1", status, Some("done before"), &["wrote a file"]);
        let follow = world.does(reconcile("m1", history)).await.outcome;
        assert!(!follow);
        assert_eq!(world.state("m1").await, StateName::Answered);
        let answer = world
            .reads(|rows| rows.answer(&message("m1")))
            .await
            .unwrap();
        assert_eq!(answer.source, AnswerSource::Harvested);
        assert_eq!(world.sends("a").await.body, "done before");
    }
}

pub(super) async fn a_turn_that_runs_is_followed_again<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.loses("a", "m1", Sandbox::ReadOnly).await;
    let history = found("m1", TurnStatus::InProgress, None, &["ran a command"]);
    assert!(world.does(reconcile("m1", history)).await.outcome);
    assert_eq!(world.state("m1").await, StateName::Running);
    let turn = world
        .reads(|rows| rows.turn(&message("m1"), 1))
        .await
        .unwrap();
    assert_eq!((turn.state, turn.touched), (TurnState::Attached, true));
    world.does(answered("m1", "yes", None)).await;
}

pub(super) async fn a_turn_that_is_not_there_is_begun_again<F: Fixture>() {
    for (boot, input) in [
        ("boot", NextInput::Message),
        ("another boot", NextInput::Continue),
    ] {
        let fixture = F::open();
        let mut world = World::over(fixture.ledger());
        world.loses("a", "m1", Sandbox::WorkspaceWrite).await;
        let mut look = reconcile("m1", TurnHistory::Absent);
        look.boot_id = BootId::new(boot);
        world.does(look).await;
        let life = world.message("m1").await.life;
        assert_eq!((life.state.name(), life.spent), (StateName::Received, 0));
        assert_eq!(life.input, input, "{boot}");
        assert_eq!(world.claims().await, "m1");
        assert_eq!(world.message("m1").await.life.attempt, 2);
        world.does(begin("m1", Sandbox::WorkspaceWrite)).await;
        let turns = world
            .reads(|rows| {
                let id = message("m1");
                Ok([rows.turn(&id, 1)?, rows.turn(&id, 2)?].map(|turn| turn.map(|t| t.state)))
            })
            .await;
        assert_eq!(turns, [Some(TurnState::Ended), Some(TurnState::Begun)]);
    }
}

pub(super) async fn a_foreign_thread_counts_as_absent<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.loses("a", "m1", Sandbox::ReadOnly).await;
    world.does(reconcile("m1", TurnHistory::Foreign)).await;
    let failure = world.message("m1").await.life.failure.unwrap();
    assert!(
        failure.reason.contains("somebody else"),
        "{}",
        failure.reason
    );
}

pub(super) async fn an_unreadable_history_lets_the_thread_go<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.receives(&[("a", "m1")]).await;
    world.claims().await;
    world.binds("a", "thread").await;
    world.does(begin("m1", Sandbox::ReadOnly)).await;
    world.does(crate::given::lose("m1")).await;
    let why = "the file is gone".to_owned();
    world
        .does(reconcile("m1", TurnHistory::Unreadable { why }))
        .await;
    let room = world
        .reads(|rows| rows.conversation(&conversation("a")))
        .await;
    assert_eq!(room.unwrap().thread, None);
    assert_eq!(world.claims().await, "m1");
}

pub(super) async fn resume_brings_every_state_to_where_it_can_go_on<F: Fixture>() {
    let mut fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.runs("a", "m1", Sandbox::ReadOnly).await;
    world.starts("b", "m2", Sandbox::ReadOnly).await;
    world.loses("c", "m3", Sandbox::ReadOnly).await;
    world.starts("d", "m4", Sandbox::ReadOnly).await;
    world.does(answered("m4", "yes", None)).await;
    world.receives(&[("e", "m5")]).await;
    assert_eq!(world.claims().await, "m5");
    world.receives(&[("f", "m6")]).await;
    fixture.reopen();
    let now = world.now;
    let world = World {
        ledger: fixture.ledger().clone(),
        now,
    };
    let left = world.reads(|rows| rows.unfinished(None, 100)).await;
    assert_eq!(left.len(), 6);
    let looks = |id| Action::Reconcile {
        message_id: message(id),
    };
    let conversation_id = conversation("d");
    for (id, state, action) in [
        ("m1", StateName::Unclear, looks("m1")),
        ("m2", StateName::Unclear, looks("m2")),
        ("m3", StateName::Unclear, looks("m3")),
        (
            "m4",
            StateName::Answered,
            Action::Deliver { conversation_id },
        ),
        ("m5", StateName::Received, Action::Schedule),
        ("m6", StateName::Received, Action::Schedule),
    ] {
        let message_id = message(id);
        let resumed = world.does(Resume { message_id }).await;
        assert!(
            resumed.actions.contains(&action),
            "{id}: {:?}",
            resumed.actions
        );
        assert_eq!(world.state(id).await, state, "{id}");
    }
}
