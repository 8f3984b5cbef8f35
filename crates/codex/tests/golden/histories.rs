//! What the oracle reads from histories that kills left behind.
//!
//! `history.jsonl` holds responses of `thread/read`, `thread/resume` and `thread/turns/list`.

use bridge_codex::oracle::{HistoryError, Wanted, history};
use bridge_codex::wire::Turn;
use bridge_codex::wire::config::SandboxPolicy;
use bridge_codex::wire::error_info::{ClassHint, ErrorInfo};
use bridge_codex::wire::method::{ThreadRead, ThreadResume, ThreadTurnsList};
use bridge_codex::wire::values::{ApprovalPolicy, SortDirection};
use bridge_core::port::{RecordedTurn, TurnHistory, TurnStatus};
use bridge_core::value::{Class, ClientId};
use serde_json::Value;

use crate::{lines, read};

fn recorded(name: &str) -> Value {
    lines("history.jsonl")
        .into_iter()
        .find(|line| line["name"] == name)
        .unwrap_or_else(|| panic!("{name}"))["msg"]["result"]
        .clone()
}

fn found(turns: &[Turn], client_id: &str, after: usize) -> Result<TurnHistory, HistoryError> {
    let client_id = ClientId::new(client_id);
    let wanted = Wanted {
        client_id: &client_id,
        turn_id: None,
        after: Some(&turns[after].id),
    };
    history(turns, wanted)
}

/// The turn that was opened by this message.
fn ours(turns: &[Turn], client_id: &str, after: usize) -> RecordedTurn {
    match found(turns, client_id, after) {
        Ok(TurnHistory::Turn(ours)) if ours.received[0].as_str() == client_id => ours,
        other => panic!("{other:?}"),
    }
}

/// Five turns, the last one killed after its command; then twelve turns killed 0 to 44 ms after
/// the response to `turn/start`.
#[test]
fn the_oracle_reads_what_kills_left_behind() {
    let turns = read::<ThreadRead>(&recorded("read-after-kills"))
        .thread
        .turns;
    assert_eq!(turns.len(), 17);
    let first = ours(&turns, "m1.1", 0);
    assert_eq!(first.status, TurnStatus::Completed);
    assert_eq!(first.answer.as_deref(), Some("first answer"));
    let failed = ours(&turns, "m4.1", 2);
    assert_eq!((failed.status, failed.answer), (TurnStatus::Failed, None));
    let reason = failed.failure.unwrap().reason;
    assert!(
        reason.contains(": Incomplete response returned"),
        "{reason}"
    );
    assert_eq!(
        ours(&turns, "m5.1", 3),
        RecordedTurn {
            turn_id: turns[4].id.clone(),
            status: TurnStatus::Interrupted,
            answer: None,
            effects: vec!["running `echo x > g.txt`".to_owned()],
            received: vec![ClientId::new("m5.1")],
            failure: None,
        }
    );
    assert_eq!(found(&turns[..6], "e0.1", 4), Ok(TurnHistory::Absent));
    assert_eq!(found(&turns[..9], "e3.1", 4), Ok(TurnHistory::Absent));
    assert_eq!(found(&turns[..10], "e3.1", 4), Ok(TurnHistory::Foreign));
    let unmarked = ours(&turns, "e10.1", 14);
    assert_eq!(unmarked.status, TurnStatus::Interrupted);
    assert_eq!(unmarked.answer, None);
}

#[test]
fn a_400_is_recognised_by_its_body() {
    let turns = read::<ThreadRead>(&recorded("read-after-kills"))
        .thread
        .turns;
    let error = turns[2].error.as_ref().unwrap();
    assert_eq!(error.info, ErrorInfo::named("other"));
    assert_eq!(error.info.class_hint(&error.message), ClassHint::BadRequest);
    let found = ours(&turns, "m3.1", 1);
    assert_eq!(found.turn_id, turns[2].id);
    assert_eq!(found.failure.unwrap().class, Class::Permanent);
}

#[test]
fn all_ways_to_the_history_agree() {
    let read_turns = read::<ThreadRead>(&recorded("read-after-kills"))
        .thread
        .turns;
    let listed = read::<ThreadTurnsList>(&recorded("list-after-kills"));
    assert_eq!(listed.next_cursor, None);
    assert_eq!(
        listed.into_oldest_first(&SortDirection::Ascending),
        read_turns
    );

    let resumed = read::<ThreadResume>(&recorded("resume-ex"));
    let (opened, page) = resumed.into_parts(&SortDirection::Descending);
    assert_eq!(page, read_turns[2..5]);
    // Started with workspace-write, resumed by a new process without saying so again.
    assert_eq!(
        opened.sandbox,
        SandboxPolicy::ReadOnly {
            network_access: false
        }
    );
    assert_eq!(opened.approval_policy, ApprovalPolicy::OnRequest);

    let summary = read::<ThreadTurnsList>(&recorded("list-default"));
    let summary = summary.into_oldest_first(&SortDirection::Descending);
    assert!(matches!(
        found(&summary, "m5.1", 3),
        Ok(TurnHistory::Unreadable { .. })
    ));

    let live = read::<ThreadRead>(&recorded("read-live")).thread.turns;
    assert_eq!(ours(&live, "m5.1", 3).status, TurnStatus::InProgress);
}
