//! What the oracle reads from histories that kills left behind.
//!
//! `history.jsonl` holds responses of `thread/read`, `thread/resume` and `thread/turns/list`.

use bridge_codex::AgentText;
use bridge_codex::oracle::{Effects, Found, OurState, OurTurn, history};
use bridge_codex::wire::Turn;
use bridge_codex::wire::error_info::{ClassHint, ErrorInfo};
use bridge_codex::wire::ids::ClientId;
use bridge_codex::wire::method::{ThreadRead, ThreadResume, ThreadTurnsList};
use bridge_codex::wire::policy::SandboxPolicy;
use bridge_codex::wire::values::{ApprovalPolicy, SortDirection};
use serde_json::Value;

use crate::{lines, read};

fn recorded(name: &str) -> Value {
    lines("history.jsonl")
        .into_iter()
        .find(|line| line["name"] == name)
        .unwrap_or_else(|| panic!("{name}"))["msg"]["result"]
        .clone()
}

fn found(turns: &[Turn], client_id: &str, after: usize) -> Found {
    history(turns, &ClientId::from(client_id), Some(&turns[after].id))
}

fn state(found: Found) -> OurState {
    match found {
        Found::Ours(ours) if ours.opened_by_us => ours.state,
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
    assert!(matches!(
        state(found(&turns, "m1.1", 0)),
        OurState::Completed { answer: Some(AgentText { text, .. }) } if text == "first answer"
    ));
    assert!(matches!(
        state(found(&turns, "m4.1", 2)),
        OurState::Cut { failed: true, error: Some(error), final_answer: None }
            if error.message.starts_with("Incomplete response returned")
    ));
    assert_eq!(
        found(&turns, "m5.1", 3),
        Found::Ours(Box::new(OurTurn {
            turn_id: turns[4].id.clone(),
            opened_by_us: true,
            state: OurState::Cut {
                failed: false,
                error: None,
                final_answer: None,
            },
            effects: Effects {
                count: 1,
                headlines: vec!["running `echo x > g.txt`".to_owned()],
            },
            received: vec![ClientId::from("m5.1")],
            unread: false,
        }))
    );
    assert_eq!(
        found(&turns[..6], "e0.1", 4),
        Found::Absent { empty_turns: 1 }
    );
    assert_eq!(
        found(&turns[..9], "e3.1", 4),
        Found::Absent { empty_turns: 4 }
    );
    assert_eq!(
        found(&turns[..10], "e3.1", 4),
        Found::Foreign {
            turn_ids: vec![turns[9].id.clone()]
        }
    );
    let unmarked = state(found(&turns, "e10.1", 14));
    assert!(matches!(
        unmarked,
        OurState::Cut {
            failed: false,
            final_answer: None,
            ..
        }
    ));
}

#[test]
fn a_400_is_recognised_by_its_body() {
    let turns = read::<ThreadRead>(&recorded("read-after-kills"))
        .thread
        .turns;
    let OurState::Cut {
        error: Some(error), ..
    } = state(found(&turns, "m3.1", 1))
    else {
        panic!();
    };
    assert_eq!(error.info, ErrorInfo::Other("other".to_owned()));
    assert_eq!(error.info.class_hint(&error.message), ClassHint::BadRequest);
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
    let unloaded = Found::Unloaded {
        turn_id: summary[4].id.clone(),
    };
    assert_eq!(found(&summary, "m5.1", 3), unloaded);

    let live = read::<ThreadRead>(&recorded("read-live")).thread.turns;
    assert_eq!(state(found(&live, "m5.1", 3)), OurState::InProgress);
}
