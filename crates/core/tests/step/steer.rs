//! Messages that join a running turn: none joins behind one whose text may be lost.

use crate::fixture;
use crate::rows::{Given, turn};
use bridge_core::port::{Change, RecordedTurn, TurnHistory, TurnStatus};
use bridge_core::step::{Join, JoinUnknown, Pace, Reconcile};
use bridge_core::value::{
    BootId, ClientId, CutPolicy, ExternalId, Message, MessageId, MessageState, Sandbox, Seq, TurnId,
};

fn member(name: &str, seq: i64, state: MessageState) -> Message {
    let attempt = u32::from(!matches!(state, MessageState::Received { .. }));
    Message {
        message_id: MessageId::new(name),
        external_id: ExternalId::new(name),
        seq: Seq(seq),
        ..fixture::message(state, |life| life.attempt = attempt)
    }
}

/// A leader `m`, a follower `second` and a message `third` that wants to join.
fn given(leader: MessageState) -> Given {
    let leader = fixture::message(leader, |life| life.attempt = 1);
    let seq = leader.seq.0;
    let steered = MessageState::Steered {
        leader: leader.message_id.clone(),
    };
    let waiting = MessageState::Received { hold: None };
    Given::message(leader)
        .turn(turn(Sandbox::WorkspaceWrite, false))
        .with(Change::NewMessage(member("second", seq + 1, steered)))
        .with(Change::NewMessage(member("third", seq + 2, waiting)))
}

fn third_joins(given: &mut Given) -> bool {
    let join = Join {
        message_id: MessageId::new("third"),
    };
    given.run(join, 10).unwrap().outcome.is_some()
}

fn reattach(received: &[&str]) -> Given {
    let mut given = given(MessageState::Unclear { hold: None });
    let reconcile = Reconcile {
        attachments: Vec::new(),
        message_id: MessageId::new("m"),
        found: TurnHistory::Turn(RecordedTurn {
            turn_id: TurnId::new("u"),
            status: TurnStatus::InProgress,
            answer: None,
            effects: Vec::new(),
            received: received.iter().map(|id| ClientId::new(*id)).collect(),
            failure: None,
        }),
        boot_id: BootId::new("boot"),
        reply_max_chars: None,
        on_cut: CutPolicy::Continue,
        pace: Pace {
            backoff_base_ms: 2_000,
            config_probe_ms: 15_000,
            jitter: 0,
        },
    };
    assert!(given.run(reconcile, 5).unwrap().outcome);
    given
}

#[test]
fn join_waits_while_earlier_receipt_is_unknown() {
    assert!(!third_joins(&mut reattach(&["m.1"])));
    assert!(third_joins(&mut reattach(&["m.1", "second.1"])));

    let running = || MessageState::Running {
        turn_id: TurnId::new("u"),
    };
    assert!(third_joins(&mut given(running())));
    let mut unknown = given(running());
    let second = JoinUnknown {
        message_id: MessageId::new("second"),
        why: "codex did not say".to_owned(),
    };
    unknown.run(second, 5).unwrap();
    assert!(!third_joins(&mut unknown));
}
