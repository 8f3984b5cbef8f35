//! The thread of a run of `codex exec` gets its name.

use crate::fixture::message;
use crate::rows::{Given, turn};
use bridge_core::port::Change;
use bridge_core::step::Name;
use bridge_core::value::{MessageId, MessageState, Sandbox, ThreadId, Turn};

/// What a name changes where the conversation and the turn have these threads.
fn named(bound: &str, run_on: &str) -> Vec<Change> {
    let starting = message(MessageState::Starting, |life| life.attempt = 1);
    let mut given = Given::message_on(bound, starting).turn(Turn {
        thread: ThreadId::new(run_on),
        ..turn(Sandbox::WorkspaceWrite, false)
    });
    let name = Name {
        message_id: MessageId::new("m"),
        thread: ThreadId::new("t"),
    };
    given.run(name, 1).unwrap().changes
}

#[test]
fn turn_and_conversation_are_named_once() {
    let unnamed = ThreadId::unnamed("x");
    let changes = named(unnamed.as_str(), unnamed.as_str());
    let [Change::Bind { from, to, .. }, Change::Turn(turn)] = changes.as_slice() else {
        panic!("{changes:?}");
    };
    let name = ThreadId::new("t");
    assert_eq!((from, to), (&Some(unnamed), &Some(name.clone())));
    assert_eq!(turn.thread, name);
    assert_eq!(named("t", "t"), [], "it has a name already");
}

#[test]
fn moved_conversation_keeps_its_thread() {
    let changes = named("elsewhere", "exec-x");
    assert!(
        matches!(changes.as_slice(), [Change::Turn(_)]),
        "{changes:?}"
    );
}
