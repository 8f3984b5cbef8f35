//! What each class of failure does to a message whose attempt certainly ended.

use crate::rows::{Given, turn};
use bridge_core::limits;
use bridge_core::port::Change;
use bridge_core::step::{Applied, Fail, Pace};
use bridge_core::value::{
    Class, CutPolicy, Failure, Life, MessageId, MessageState, NextInput, Sandbox, StateName,
    Timestamp, Turn, TurnId, Usage,
};

const NOW: Timestamp = Timestamp(1_000_000);
const PACE: Pace = Pace {
    backoff_base_ms: 2_000,
    config_probe_ms: 15_000,
    jitter: 1_000,
};

/// What is decided about a running message after a failure of this class.
fn fail(class: Class, turn: Turn, seen_now: bool) -> Applied<()> {
    let state = MessageState::Running {
        turn_id: TurnId::new("u"),
    };
    let message = crate::fixture::message(state, |life| {
        life.attempt = 1;
        life.spent = 1;
    });
    let fail = Fail {
        message_id: MessageId::new("m"),
        failure: Failure::new(class, "it broke"),
        touched: seen_now,
        usage: Usage::default(),
        on_cut: CutPolicy::Continue,
        pace: PACE,
    };
    let mut given = Given::message(message).turn(turn);
    given.run(fail, NOW.0).unwrap()
}

/// The life that the message has then.
fn after(class: Class, turn: Turn, seen_now: bool) -> Life {
    let mut lives =
        fail(class, turn, seen_now)
            .changes
            .into_iter()
            .filter_map(|change| match change {
                Change::UpdateState { life, .. } => Some(life),
                _ => None,
            });
    let life = lives.next().expect("the message moves");
    assert_eq!(lives.next(), None, "it moves once");
    life
}

fn held_until(life: &Life) -> Option<Timestamp> {
    life.state.hold().map(|hold| hold.until)
}

#[test]
fn turn_with_effects_is_continued() {
    let next = |sandbox, on_row, now| {
        let life = after(Class::Transient, turn(sandbox, on_row), now);
        (life.input, life.continues)
    };
    let write = Sandbox::WorkspaceWrite;
    assert_eq!(next(write, false, false), (NextInput::Message, 0));
    assert_eq!(next(write, false, true), (NextInput::Continue, 1));
    // The daemon that saw the effect died; the one that saw the failure did not see it.
    assert_eq!(next(write, true, false), (NextInput::Continue, 1));
    assert_eq!(next(Sandbox::ReadOnly, true, true), (NextInput::Message, 0));
}

#[test]
fn a_capacity_time_is_believed_within_reason() {
    let until = |at| {
        let class = Class::Capacity { until: at };
        let life = after(class, turn(Sandbox::ReadOnly, false), false);
        assert_eq!(life.spent, 0, "capacity burns no attempt");
        held_until(&life).unwrap()
    };
    let soonest = NOW.plus_ms(4_000);
    assert_eq!(until(None), soonest);
    assert_eq!(
        until(Some(Timestamp(5))),
        soonest,
        "a time in the past is no hot loop"
    );
    assert_eq!(until(Some(NOW.plus_ms(60_000))), NOW.plus_ms(60_000));
    let latest = NOW.plus_ms(limits::HELD_AGE_MAX_MS);
    assert_eq!(until(Some(Timestamp(i64::MAX))), latest);
}

#[test]
fn retried_attempt_leaves_an_event() {
    let decision = fail(Class::Transient, turn(Sandbox::ReadOnly, false), false);
    let told = decision.changes.iter().any(|change| {
        matches!(change, Change::NewEvent(event) if event.text == "it broke" && event.ordinal == 1)
    });
    assert!(told, "{:?}", decision.changes);
}

#[test]
fn each_class_has_its_consequence() {
    let read_only = || turn(Sandbox::ReadOnly, false);
    let transient = after(Class::Transient, read_only(), false);
    assert_eq!(held_until(&transient), Some(NOW.plus_ms(2_000)));
    assert_eq!(transient.spent, 1);
    let config = after(Class::Config, read_only(), false);
    assert_eq!(held_until(&config), Some(NOW.plus_ms(15_000)));
    assert_eq!(config.spent, 0);
    for class in [Class::Permanent, Class::Bug] {
        let dead = after(class, read_only(), false);
        assert_eq!(dead.state.name(), StateName::Dead);
    }
    let unclear = after(Class::Ambiguous, read_only(), false);
    assert_eq!(unclear.state, MessageState::Unclear { hold: None });
}
