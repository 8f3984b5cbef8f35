//! The whole table of reconcile: what is found, in which sandbox, after which boot; and what follows from it.

use crate::rows::{Given, turn};
use bridge_core::port::{Change, RecordedTurn, TurnHistory, TurnStatus};
use bridge_core::step::{Pace, Reconcile};
use bridge_core::value::{
    BootId, ConversationId, CutPolicy, Life, Message, MessageId, MessageState, NextInput, Sandbox,
    StateName, ThreadId, Timestamp, Turn, TurnId,
};

const NOW: Timestamp = Timestamp(1_000_000);
const PACE: Pace = Pace {
    backoff_base_ms: 2_000,
    config_probe_ms: 15_000,
    jitter: 1_000,
};

fn message() -> Message {
    crate::fixture::message(MessageState::Unclear { hold: None }, |life| {
        life.attempt = 1;
        life.spent = 1;
    })
}

fn found(status: TurnStatus, answer: Option<&str>, effects: &[&str]) -> TurnHistory {
    TurnHistory::Turn(RecordedTurn {
        turn_id: TurnId::new("u"),
        status,
        answer: answer.map(str::to_owned),
        effects: effects.iter().map(|effect| (*effect).to_owned()).collect(),
        received: Vec::new(),
        failure: None,
    })
}

/// What a decision amounts to, in the words of the table.
fn verdict(found: TurnHistory, turn: Turn, boot: &str) -> &'static str {
    let mut given = Given::message(message()).turn(turn);
    let reconcile = Reconcile {
        attachments: Vec::new(),
        message_id: MessageId::new("m"),
        found,
        boot_id: BootId::new(boot),
        reply_max_chars: None,
        on_cut: CutPolicy::Continue,
        pace: PACE,
    };
    let decision = given.run(reconcile, NOW.0).unwrap();
    let life = decision.changes.iter().find_map(|change| match change {
        Change::UpdateState { life, .. } => Some(life),
        _ => None,
    });
    let life = life.expect("the message moves");
    match (&life.state, life.input, life.spent) {
        (MessageState::Running { .. }, _, _) if decision.outcome => "attach",
        (MessageState::Answered, _, _) => "harvest",
        (MessageState::Received { .. }, NextInput::Continue, _) => "continue",
        (MessageState::Received { .. }, NextInput::Message, 0) => "again, free",
        (MessageState::Received { .. }, NextInput::Message, _) => "again, counted",
        _ => "something else",
    }
}

/// Checks rows of the table: what is found, the sandbox, whether an effect was seen live, the boot, the verdict.
fn check(rows: Vec<(TurnHistory, Sandbox, bool, &str, &str)>) {
    for (what, sandbox, seen, boot, expected) in rows {
        let case = format!("{what:?} in {sandbox:?}, effect seen: {seen}, {boot}");
        assert_eq!(verdict(what, turn(sandbox, seen), boot), expected, "{case}");
    }
}

#[test]
fn found_turn_is_attached_or_harvested() {
    use Sandbox::{ReadOnly, WorkspaceWrite};
    use TurnStatus::{Completed, Failed, InProgress, Interrupted};
    check(vec![
        (
            found(InProgress, None, &[]),
            WorkspaceWrite,
            false,
            "boot",
            "attach",
        ),
        (
            found(Completed, Some("a"), &[]),
            WorkspaceWrite,
            true,
            "boot",
            "harvest",
        ),
        (
            found(Completed, None, &[]),
            ReadOnly,
            false,
            "boot",
            "harvest",
        ),
        // A text that Codex marked as final is an answer although the turn was cut.
        (
            found(Interrupted, Some("a"), &["ran x"]),
            WorkspaceWrite,
            true,
            "boot",
            "harvest",
        ),
        (
            found(Failed, Some("a"), &[]),
            WorkspaceWrite,
            false,
            "boot",
            "harvest",
        ),
    ]);
}

#[test]
fn cut_turn_with_effects_is_continued() {
    use Sandbox::{ReadOnly, WorkspaceWrite};
    use TurnStatus::{Failed, Interrupted};
    check(vec![
        // Its message is durable, so in a sandbox that can write it counts as touched.
        (
            found(Interrupted, None, &[]),
            WorkspaceWrite,
            false,
            "boot",
            "continue",
        ),
        (
            found(Interrupted, None, &["ran x"]),
            WorkspaceWrite,
            false,
            "boot",
            "continue",
        ),
        (
            found(Interrupted, None, &["ran x"]),
            ReadOnly,
            true,
            "boot",
            "again, free",
        ),
        (
            found(Failed, None, &["ran x"]),
            WorkspaceWrite,
            false,
            "boot",
            "continue",
        ),
        (
            found(Failed, None, &[]),
            WorkspaceWrite,
            true,
            "boot",
            "continue",
        ),
        (
            found(Failed, None, &[]),
            WorkspaceWrite,
            false,
            "boot",
            "again, counted",
        ),
    ]);
}

#[test]
fn missing_turn_restarts_unless_memory_lost() {
    use Sandbox::{ReadOnly, WorkspaceWrite};
    let unreadable = || TurnHistory::Unreadable {
        why: "x".to_owned(),
    };
    check(vec![
        // Codex keeps the message before it calls the model: not found means not called,
        (
            TurnHistory::Absent,
            WorkspaceWrite,
            false,
            "boot",
            "again, free",
        ),
        (
            TurnHistory::Foreign,
            WorkspaceWrite,
            false,
            "boot",
            "again, free",
        ),
        // unless an effect was seen live, or the machine lost its memory.
        (
            TurnHistory::Absent,
            WorkspaceWrite,
            true,
            "boot",
            "continue",
        ),
        (
            TurnHistory::Absent,
            WorkspaceWrite,
            false,
            "another boot",
            "continue",
        ),
        (
            TurnHistory::Absent,
            ReadOnly,
            false,
            "another boot",
            "again, free",
        ),
        (unreadable(), WorkspaceWrite, false, "boot", "continue"),
        (unreadable(), ReadOnly, false, "boot", "again, free"),
    ]);
}

#[test]
fn a_lost_history_unbinds_the_thread() {
    let mut given = Given::message(message()).turn(turn(Sandbox::ReadOnly, false));
    let reconcile = Reconcile {
        attachments: Vec::new(),
        message_id: MessageId::new("m"),
        found: TurnHistory::Unreadable {
            why: "empty".to_owned(),
        },
        boot_id: BootId::new("boot"),
        reply_max_chars: None,
        on_cut: CutPolicy::Continue,
        pace: PACE,
    };
    let decision = given.run(reconcile, NOW.0).unwrap();
    let unbound = Change::Bind {
        conversation_id: ConversationId::new("c"),
        from: Some(ThreadId::new("t")),
        to: None,
    };
    assert!(decision.changes.contains(&unbound));
}

#[test]
fn only_an_unclear_message_is_reconciled() {
    let mut done = message();
    done.life.state = MessageState::Done;
    let mut given = Given::message(done);
    let reconcile = Reconcile {
        attachments: Vec::new(),
        message_id: MessageId::new("m"),
        found: TurnHistory::Absent,
        boot_id: BootId::new("boot"),
        reply_max_chars: None,
        on_cut: CutPolicy::Continue,
        pace: PACE,
    };
    let refused = given.run(reconcile, NOW.0).unwrap_err();
    assert_eq!(refused.to_string(), "reconcile message m: it is done");
}

/// The life after a turn in `sandbox` was found cut, of a message that is a suspect already or not.
fn after_death(sandbox: Sandbox, suspect: bool, on_cut: CutPolicy) -> Life {
    let mut message = message();
    message.life.suspect = suspect;
    let mut given = Given::message(message).turn(turn(sandbox, false));
    let reconcile = Reconcile {
        attachments: Vec::new(),
        message_id: MessageId::new("m"),
        found: found(TurnStatus::Interrupted, None, &[]),
        boot_id: BootId::new("boot"),
        reply_max_chars: None,
        on_cut,
        pace: PACE,
    };
    let decision = given.run(reconcile, NOW.0).unwrap();
    let life = decision
        .changes
        .into_iter()
        .find_map(|change| match change {
            Change::UpdateState { life, .. } => Some(life),
            _ => None,
        });
    life.expect("the message moves")
}

#[test]
fn first_codex_death_is_not_counted() {
    let first = after_death(Sandbox::WorkspaceWrite, false, CutPolicy::Continue);
    assert_eq!((first.suspect, first.spent, first.continues), (true, 0, 0));
    assert_eq!(first.input, NextInput::Continue);
    let second = after_death(Sandbox::WorkspaceWrite, true, CutPolicy::Continue);
    assert_eq!(
        (second.suspect, second.spent, second.continues),
        (true, 1, 1)
    );
    let read_only = after_death(Sandbox::ReadOnly, true, CutPolicy::Continue);
    assert_eq!((read_only.spent, read_only.continues), (1, 0));
}

#[test]
fn the_operator_chooses_what_follows_a_cut() {
    use Sandbox::{ReadOnly, WorkspaceWrite};
    for (sandbox, policy, state) in [
        (WorkspaceWrite, CutPolicy::Continue, StateName::Received),
        (WorkspaceWrite, CutPolicy::Ask, StateName::Parked),
        (WorkspaceWrite, CutPolicy::Bury, StateName::Dead),
        // What could not write is run again whatever the policy is.
        (ReadOnly, CutPolicy::Ask, StateName::Received),
        (ReadOnly, CutPolicy::Bury, StateName::Received),
    ] {
        let life = after_death(sandbox, false, policy);
        assert_eq!(life.state.name(), state, "{sandbox:?} {policy:?}");
    }
}
