//! Tests of the oracle: one per row of the table that reconcile decides by.
//!
//! Turns are built by hand here; histories of the real binary are read in `tests/golden`.

use serde_json::{Value, json};

use super::*;
use bridge_core::port::TurnStatus as Status;
use bridge_core::value::Class;

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

fn ask(turns: &[Turn]) -> Result<TurnHistory, HistoryError> {
    look(turns, None)
}

fn look(turns: &[Turn], turn_id: Option<&str>) -> Result<TurnHistory, HistoryError> {
    let (client_id, after) = (ClientId::new("c"), TurnId::new("last"));
    let turn_id = turn_id.map(TurnId::new);
    let wanted = Wanted {
        client_id: &client_id,
        turn_id: turn_id.as_ref(),
        after: Some(&after),
    };
    history(turns, wanted)
}

/// A user message as a Codex writes it that calls the mark otherwise.
fn unmarked(id: &str) -> Value {
    json!({"type": "userMessage", "id": id, "clientMark": "c", "content": []})
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

fn ours(found: Result<TurnHistory, HistoryError>) -> RecordedTurn {
    match found {
        Ok(TurnHistory::Turn(ours)) => ours,
        other => panic!("{other:?}"),
    }
}

#[test]
fn ours_in_progress() {
    let found = ask(&with_anchor(vec![turn(
        "u",
        "inProgress",
        json!([user("c"), command("ls"), agent("so far", json!(null))]),
    )]));
    assert_eq!(
        ours(found),
        RecordedTurn {
            turn_id: TurnId::new("u"),
            status: Status::InProgress,
            answer: None,
            effects: vec!["running `ls`".to_owned()],
            received: vec![ClientId::new("c")],
            failure: None,
        }
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
    assert_eq!(found.status, Status::Completed);
    assert_eq!(found.answer.as_deref(), Some("done"));
}

#[test]
fn cut_turn_yields_only_final_answer() {
    let cut = |status: &str, phase: Value| {
        let items = json!([user("c"), agent("text", phase)]);
        let found = ours(ask(&with_anchor(vec![turn("u", status, items)])));
        (found.status, found.answer)
    };
    assert_eq!(
        cut("interrupted", json!("final_answer")),
        (Status::Interrupted, Some("text".to_owned()))
    );
    assert_eq!(cut("interrupted", json!(null)), (Status::Interrupted, None));
    assert_eq!(cut("failed", json!("commentary")), (Status::Failed, None));
}

#[test]
fn failed_turn_is_classified() {
    let mut failed = turn("u", "failed", json!([user("c")]));
    let error = json!({"message": "no", "codexErrorInfo": "unauthorized"});
    failed.error = Some(serde_json::from_value(error).unwrap());
    let failure = ours(ask(&with_anchor(vec![failed]))).failure.unwrap();
    assert_eq!(failure.class, Class::Config);
    assert!(failure.reason.ends_with(": no"), "{}", failure.reason);
}

#[test]
fn unknown_status_is_inconclusive() {
    let open = json!([user("c"), agent("so far", json!(null))]);
    let found = ask(&with_anchor(vec![turn("u", "paused", open)]));
    let paused = "paused".to_owned();
    assert_eq!(found, Err(HistoryError::UnknownStatus(paused)));
    let said = json!([user("c"), agent("done", json!("final_answer"))]);
    let found = ours(ask(&with_anchor(vec![turn("u", "succeeded", said)])));
    assert_eq!(found.status, Status::Completed);
    assert_eq!(found.answer.as_deref(), Some("done"));
}

#[test]
fn turn_id_finds_unmarked_turn() {
    let cut = |items: Value| with_anchor(vec![turn("u", "interrupted", items)]);
    let one = cut(json!([unmarked("m"), command("rm")]));
    let found = ours(look(&one, Some("u")));
    assert_eq!(found.received, [ClientId::new("c")]);
    assert_eq!(found.effects.len(), 1);
    let steered = cut(json!([unmarked("m"), unmarked("n")]));
    assert_eq!(look(&steered, Some("u")), Err(HistoryError::NoMarks));
    let not_there = look(&with_anchor(vec![]), Some("u"));
    assert_eq!(not_there, Ok(TurnHistory::Absent), "gone after a kill");
}

#[test]
fn unmarked_messages_prove_no_absence() {
    let stranger = |items: Value| turn("f", "completed", items);
    let missing = with_anchor(vec![stranger(json!([unmarked("m")]))]);
    assert_eq!(ask(&missing), Err(HistoryError::NoMarks));
    // The member is there and always empty, in our own earlier turn as well.
    let empty = json!({"type": "userMessage", "id": "m", "clientId": null, "content": []});
    let anchor = turn("last", "completed", json!([empty]));
    let turns = [anchor, stranger(json!([empty]))];
    assert_eq!(ask(&turns), Err(HistoryError::NoMarks));
    let turns = with_anchor(vec![stranger(json!([empty]))]);
    assert_eq!(ask(&turns), Ok(TurnHistory::Foreign));
}

#[test]
fn unknown_item_may_be_the_answer() {
    let words = json!({"type": "assistantText", "id": "a", "text": "done"});
    let found = ask(&with_anchor(vec![turn(
        "u",
        "completed",
        json!([user("c"), words]),
    )]));
    assert_eq!(found, Err(HistoryError::UnreadableAnswer));
    let both = json!([user("c"), words, agent("done", json!(null))]);
    let found = ours(ask(&with_anchor(vec![turn("u", "completed", both)])));
    assert_eq!(found.answer.as_deref(), Some("done"));
}

#[test]
fn finds_steered_message_in_another_turn() {
    let items = json!([user("first"), user("c"), agent("both", json!(null))]);
    let found = ours(ask(&with_anchor(vec![turn("u", "completed", items)])));
    assert_eq!(found.received, [ClientId::new("first"), ClientId::new("c")]);
}

#[test]
fn unreadable_message_is_marked_unread() {
    let message = json!({"type": "agentMessage", "id": "a", "words": "renamed"});
    let items = json!([user("c"), message]);
    let found = ask(&with_anchor(vec![turn("u", "completed", items.clone())]));
    assert_eq!(found, Err(HistoryError::UnreadableAnswer));
    // A turn that was cut has no answer to miss.
    let found = ours(ask(&with_anchor(vec![turn("u", "interrupted", items)])));
    assert_eq!(found.answer, None);
}

#[test]
fn empty_cut_turns_are_absent() {
    assert_eq!(ask(&with_anchor(vec![])), Ok(TurnHistory::Absent));
    let empty = vec![
        turn("a", "interrupted", json!([])),
        turn("b", "interrupted", json!([])),
    ];
    assert_eq!(ask(&with_anchor(empty)), Ok(TurnHistory::Absent));
    let client_id = ClientId::new("c");
    let wanted = Wanted {
        client_id: &client_id,
        turn_id: None,
        after: None,
    };
    assert_eq!(history(&[], wanted), Ok(TurnHistory::Absent));
}

#[test]
fn turn_without_message_is_beginning() {
    let found = ours(ask(&with_anchor(vec![turn("u", "inProgress", json!([]))])));
    assert_eq!(found.turn_id, TurnId::new("u"));
    assert_eq!((found.status, found.received), (Status::InProgress, vec![]));
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
            json!([{"type": "userMessage", "id": "m", "clientId": null, "content": []}]),
        ),
        turn("f", "failed", json!([])),
    ] {
        assert_eq!(ask(&with_anchor(vec![stranger])), Ok(TurnHistory::Foreign));
    }
}

#[test]
fn unloaded_items_are_inconclusive() {
    let mut summary = turn("u", "interrupted", json!([]));
    summary.items_view = Some(crate::wire::values::ItemsView::Summary);
    let unloaded = Ok(unloaded());
    assert_eq!(ask(&with_anchor(vec![summary.clone()])), unloaded);
    summary.items = vec![Item::from_value(&user("c"))];
    assert_eq!(ask(&with_anchor(vec![summary])), unloaded);
}

#[test]
fn missing_anchor_is_inconclusive_without_match() {
    let others = [turn("a", "completed", json!([user("x")]))];
    assert_eq!(ask(&others), Err(HistoryError::NoAnchor));
    let with_ours = [turn("a", "completed", json!([user("c")]))];
    assert_eq!(ours(ask(&with_ours)).turn_id, TurnId::new("a"));
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
    assert_eq!(ours(ask(&turns)).turn_id, TurnId::new("a"));
}

#[test]
fn few_effects_are_listed() {
    let mut items = vec![user("c")];
    items.extend((0..50).map(|n| command(&format!("cmd {n}"))));
    let found = ours(ask(&with_anchor(vec![turn(
        "u",
        "interrupted",
        Value::Array(items),
    )])));
    assert_eq!(found.effects.len(), MAX_LISTED_EFFECTS);
}
