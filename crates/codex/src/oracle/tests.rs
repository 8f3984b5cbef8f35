//! Tests of the oracle: one per row of the table that reconcile decides by.
//!
//! Turns are built by hand here; histories of the real binary are read in `tests/golden`.

use serde_json::{Value, json};

use super::*;
use crate::wire::ids::ItemId;
use crate::wire::values::MessagePhase;

fn turn(id: &str, status: &str, items: Value) -> Turn {
    serde_json::from_value(json!({"id": id, "status": status, "items": items, "itemsView": "full"}))
        .unwrap()
}

fn user(client_id: &str) -> Value {
    json!({"type": "userMessage", "id": "m", "clientId": client_id, "content": []})
}

fn agent(text: &str, phase: Value) -> Value {
    json!({"type": "agentMessage", "id": text, "text": text, "phase": phase})
}

fn command(text: &str) -> Value {
    json!({"type": "commandExecution", "id": text, "command": text, "cwd": "/", "status": "completed"})
}

fn ask(turns: &[Turn]) -> Found {
    history(turns, &ClientId::from("c"), Some(&TurnId::from("last")))
}

fn with_anchor(later: Vec<Turn>) -> Vec<Turn> {
    let mut turns = vec![turn(
        "last",
        "completed",
        json!([user("old"), agent("x", json!(null))]),
    )];
    turns.extend(later);
    turns
}

fn ours(found: Found) -> OurTurn {
    match found {
        Found::Ours(ours) => *ours,
        other => panic!("{other:?}"),
    }
}

#[test]
fn ours_in_progress() {
    let found = ask(&with_anchor(vec![turn(
        "u",
        "inProgress",
        json!([user("c"), command("ls")]),
    )]));
    assert_eq!(
        found,
        Found::Ours(Box::new(OurTurn {
            turn_id: TurnId::from("u"),
            opened_by_us: true,
            state: OurState::InProgress,
            effects: Effects {
                count: 1,
                headlines: vec!["running `ls`".to_owned()],
            },
            received: vec![ClientId::from("c")],
            unread: false,
        }))
    );
}

#[test]
fn ours_completed_with_its_answer() {
    let items = json!([
        user("c"),
        agent("so far", json!("commentary")),
        agent("done", json!(null))
    ]);
    let found = ours(ask(&with_anchor(vec![turn("u", "completed", items)])));
    let OurState::Completed {
        answer: Some(answer),
    } = found.state
    else {
        panic!("{found:?}");
    };
    assert_eq!(answer.text, "done");
}

#[test]
fn cut_turn_yields_only_final_answer() {
    let cut = |status: &str, phase: Value| {
        let items = json!([user("c"), agent("text", phase)]);
        match ours(ask(&with_anchor(vec![turn("u", status, items)]))).state {
            OurState::Cut {
                failed,
                final_answer,
                ..
            } => (failed, final_answer),
            other => panic!("{other:?}"),
        }
    };
    let harvested = AgentText {
        item_id: ItemId::from("text"),
        text: "text".to_owned(),
        phase: Some(MessagePhase::FinalAnswer),
    };
    assert_eq!(
        cut("interrupted", json!("final_answer")),
        (false, Some(harvested))
    );
    assert_eq!(cut("interrupted", json!(null)), (false, None));
    assert_eq!(cut("failed", json!("commentary")), (true, None));
}

#[test]
fn unknown_status_is_unclear() {
    let found = ours(ask(&with_anchor(vec![turn(
        "u",
        "paused",
        json!([user("c")]),
    )])));
    assert_eq!(
        found.state,
        OurState::Unclear {
            status: "paused".to_owned()
        }
    );
}

#[test]
fn finds_steered_message_in_another_turn() {
    let items = json!([user("first"), user("c"), agent("both", json!(null))]);
    let found = ours(ask(&with_anchor(vec![turn("u", "completed", items)])));
    assert!(!found.opened_by_us);
    assert_eq!(
        found.received,
        [ClientId::from("first"), ClientId::from("c")]
    );
}

#[test]
fn unreadable_message_is_marked_unread() {
    let message = json!({"type": "agentMessage", "id": "a", "words": "renamed"});
    let items = json!([user("c"), message]);
    let found = ours(ask(&with_anchor(vec![turn("u", "completed", items)])));
    assert_eq!(found.state, OurState::Completed { answer: None });
    assert!(found.unread);
}

#[test]
fn empty_cut_turns_are_absent() {
    assert_eq!(ask(&with_anchor(vec![])), Found::Absent { empty_turns: 0 });
    let empty = vec![
        turn("a", "interrupted", json!([])),
        turn("b", "interrupted", json!([])),
    ];
    assert_eq!(ask(&with_anchor(empty)), Found::Absent { empty_turns: 2 });
    assert_eq!(
        history(&[], &ClientId::from("c"), None),
        Found::Absent { empty_turns: 0 }
    );
}

#[test]
fn turn_without_message_is_beginning() {
    assert_eq!(
        ask(&with_anchor(vec![turn("u", "inProgress", json!([]))])),
        Found::Beginning {
            turn_id: TurnId::from("u")
        }
    );
}

#[test]
fn turns_of_others_are_foreign() {
    for stranger in [
        turn(
            "f",
            "completed",
            json!([user("x"), agent("y", json!(null))]),
        ),
        turn(
            "f",
            "interrupted",
            json!([{"type": "userMessage", "id": "m", "content": []}]),
        ),
        turn("f", "failed", json!([])),
    ] {
        assert_eq!(
            ask(&with_anchor(vec![stranger])),
            Found::Foreign {
                turn_ids: vec![TurnId::from("f")]
            }
        );
    }
    let many = (0..100)
        .map(|n| turn(&format!("f{n}"), "completed", json!([])))
        .collect();
    let Found::Foreign { turn_ids } = ask(&with_anchor(many)) else {
        panic!();
    };
    assert_eq!(turn_ids.len(), MAX_LISTED_TURNS);
}

#[test]
fn unloaded_items_are_inconclusive() {
    let mut summary = turn("u", "interrupted", json!([]));
    summary.items_view = Some(crate::wire::values::ItemsView::Summary);
    let unloaded = Found::Unloaded {
        turn_id: TurnId::from("u"),
    };
    assert_eq!(ask(&with_anchor(vec![summary.clone()])), unloaded);
    summary.items = vec![Item::from_value(&user("c"))];
    assert_eq!(ask(&with_anchor(vec![summary])), unloaded);
}

#[test]
fn missing_anchor_is_inconclusive_without_match() {
    let others = [turn("a", "completed", json!([user("x")]))];
    assert_eq!(ask(&others), Found::NoAnchor);
    let with_ours = [turn("a", "completed", json!([user("c")]))];
    assert!(matches!(ask(&with_ours), Found::Ours(_)));
}

#[test]
fn of_two_matches_the_answered_one_wins() {
    let turns = with_anchor(vec![
        turn(
            "a",
            "completed",
            json!([user("c"), agent("yes", json!(null))]),
        ),
        turn("b", "interrupted", json!([user("c")])),
    ]);
    assert_eq!(ours(ask(&turns)).turn_id, TurnId::from("a"));
}

#[test]
fn effects_are_counted_all_and_listed_few() {
    let mut items = vec![user("c")];
    items.extend((0..50).map(|n| command(&format!("cmd {n}"))));
    let found = ours(ask(&with_anchor(vec![turn(
        "u",
        "interrupted",
        Value::Array(items),
    )])));
    assert_eq!(found.effects.count, 50);
    assert_eq!(found.effects.headlines.len(), MAX_LISTED_EFFECTS);
}
