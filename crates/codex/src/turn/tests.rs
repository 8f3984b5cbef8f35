//! Tests of the fold: whose turn it is, what counts as the answer, and that floods stay small.
//!
//! Notifications are built by hand here; real transcripts are folded in `tests/golden`.

use serde_json::{Value, json};

use bridge_core::port::{Extent, Phase};

use super::*;

fn notice(method: &str, mut params: Value) -> Notification {
    let members = params.as_object_mut().unwrap();
    members.entry("threadId").or_insert(json!("t"));
    members.entry("turnId").or_insert(json!("u"));
    Notification::parse(method, &params)
}

fn started(turn: &str) -> Notification {
    notice(
        "turn/started",
        json!({"turn": {"id": turn, "status": "inProgress", "items": []}}),
    )
}

fn completed(status: &str, items: Value) -> Notification {
    notice(
        "turn/completed",
        json!({"turn": {"id": "u", "status": status, "items": items, "error": null}}),
    )
}

fn said(id: &str, text: &str, phase: Value) -> Notification {
    notice(
        "item/completed",
        json!({"item": {"type": "agentMessage", "id": id, "text": text, "phase": phase}}),
    )
}

fn delta(id: &str, text: &str) -> Notification {
    notice(
        "item/agentMessage/delta",
        json!({"itemId": id, "delta": text}),
    )
}

fn command(method: &str, status: &str) -> Notification {
    notice(
        method,
        json!({"item": {"type": "commandExecution", "id": "c", "command": "ls", "cwd": "/",
                        "status": status}}),
    )
}

fn asked(client_id: &str, turn: &str) -> Notification {
    notice(
        "item/started",
        json!({"turnId": turn, "item": {"type": "userMessage", "id": "m", "clientId": client_id,
                                        "content": []}}),
    )
}

fn usage(total: u64, last: u64) -> Notification {
    notice(
        "thread/tokenUsage/updated",
        json!({"tokenUsage": {"total": {"inputTokens": total}, "last": {"inputTokens": last}}}),
    )
}

fn fold() -> TurnFold {
    TurnFold::new(ThreadId::new("t"), Some(TurnId::new("u")), None)
}

fn outcome(fold: &mut TurnFold, last: &Notification) -> TurnOutcome {
    match fold.apply(last) {
        Some(TurnNews::Completed(outcome)) => *outcome,
        other => panic!("{other:?}"),
    }
}

fn answer_text(outcome: &TurnOutcome) -> Option<&str> {
    outcome.end.answer.as_deref()
}

#[test]
fn only_our_thread_and_turn_count() {
    let mut fold = fold();
    let stranger = [
        notice(
            "turn/completed",
            json!({"threadId": "x", "turn": {"id": "u", "status": "completed"}}),
        ),
        notice(
            "turn/completed",
            json!({"turn": {"id": "other", "status": "completed"}}),
        ),
        notice(
            "item/completed",
            json!({"turnId": "other", "item": {"type": "fileChange"}}),
        ),
        notice(
            "error",
            json!({"turnId": "other", "willRetry": false, "error": {"message": "x"}}),
        ),
        Notification::parse("warning", &json!({"message": "x"})),
    ];
    for notification in &stranger {
        assert_eq!(fold.apply(notification), None);
        assert!(!fold.concerns(notification));
    }
    assert!(!fold.has_effects());
    let end = outcome(&mut fold, &completed("completed", json!([])));
    assert_eq!((end.end.answer, end.error), (None, None));
    assert_eq!(fold.apply(&completed("completed", json!([]))), None);
}

#[test]
fn turn_is_matched_by_client_id() {
    let ours = ClientId::new("m1.1");
    let mut fold = TurnFold::new(ThreadId::new("t"), None, Some(ours));
    assert_eq!(fold.apply(&started("foreign")), None);
    assert_eq!(fold.apply(&asked("somebody", "foreign")), None);
    assert_eq!(fold.apply(&started("u")), None);
    assert_eq!(
        fold.apply(&asked("m1.1", "u")),
        Some(TurnNews::Started {
            turn_id: TurnId::new("u")
        })
    );
    assert_eq!(fold.bind(TurnId::new("phantom")), None);
    assert_eq!(fold.turn_id(), Some(&TurnId::new("u")));
}

#[test]
fn turn_starts_whichever_event_comes_first() {
    let ours = || Some(ClientId::new("m1.1"));
    let running = Some(TurnNews::Started {
        turn_id: TurnId::new("u"),
    });

    let mut before = TurnFold::new(ThreadId::new("t"), None, ours());
    assert_eq!(before.bind(TurnId::new("u")), None);
    assert_eq!(before.aim, Aim::Expected(TurnId::new("u")));
    assert_eq!(before.apply(&started("u")), running);

    let mut after = TurnFold::new(ThreadId::new("t"), None, ours());
    assert_eq!(after.apply(&started("u")), None);
    assert_eq!(after.bind(TurnId::new("u")), running);
    assert_eq!(after.aim, Aim::Running(TurnId::new("u")));

    let mut attached = fold();
    attached.apply(&delta("a", "late"));
    assert_eq!(attached.aim, Aim::Running(TurnId::new("u")));

    let mut nameless = TurnFold::new(ThreadId::new("t"), None, None);
    assert_eq!(nameless.apply(&started("u")), running);
}

/// What is being written after this delta.
fn written(fold: &mut TurnFold, item: &str, text: &str) -> TextUpdate {
    assert_eq!(fold.apply(&delta(item, text)), Some(TurnNews::Text));
    fold.writing().cloned().unwrap()
}

#[test]
fn text_reports_extent_and_phase() {
    let message = |text: &str| json!({"item": {"type": "agentMessage", "id": "b", "text": text, "phase": "commentary"}});
    let mut fold = fold();
    let update = |fold: &mut TurnFold, item: &str, text: &str| {
        let spoken = written(fold, item, text);
        (spoken.extent, spoken.phase, spoken.text)
    };
    let joined = update(&mut fold, "a", "tial");
    assert_eq!(joined, (Extent::Middle, Phase::Unmarked, "tial".to_owned()));
    fold.apply(&notice("item/started", message("")));
    let begun = update(&mut fold, "b", "I look");
    let aside = Phase::Commentary;
    assert_eq!(begun, (Extent::Head, aside, "I look".to_owned()));
    let ended = notice("item/completed", message("I look first"));
    fold.apply(&ended);
    let whole = completed_text(&ended).unwrap();
    assert_eq!((whole.extent, whole.phase), (Extent::Whole, aside));
    let long = notice("item/completed", message(&"x".repeat(MAX_DRAFT_BYTES + 1)));
    assert_eq!(completed_text(&long).unwrap().extent, Extent::Head);
}

#[test]
fn retried_stream_text_is_not_joined() {
    let mut fold = fold();
    assert_eq!(written(&mut fold, "a", "par").text, "par");
    assert_eq!(written(&mut fold, "a", "tial").text, "partial");
    let retry = notice(
        "error",
        json!({"willRetry": true, "error": {"message": "Reconnecting... 1/1"}}),
    );
    assert_eq!(
        fold.apply(&retry),
        Some(TurnNews::Retrying {
            message: "Reconnecting... 1/1".to_owned()
        })
    );
    assert_eq!(written(&mut fold, "b", "par").text, "par");
    fold.apply(&said("b", "partial then whole", json!(null)));
    let end = outcome(&mut fold, &completed("completed", json!([])));
    assert_eq!(answer_text(&end), Some("partial then whole"));
    assert_eq!(end.error, None);
}

#[test]
fn missed_final_message_comes_from_completion() {
    let mut fold = fold();
    let items =
        json!([{"type": "agentMessage", "id": "a", "text": "whole", "phase": "final_answer"}]);
    let end = outcome(&mut fold, &completed("completed", items));
    assert_eq!(answer_text(&end), Some("whole"));
}

#[test]
fn cut_turn_answers_only_with_final_text() {
    let cut = |phase: Value| {
        let mut fold = fold();
        fold.apply(&said("a", "text", phase));
        outcome(&mut fold, &completed("interrupted", json!([])))
    };
    assert_eq!(answer_text(&cut(json!(null))), None);
    assert_eq!(answer_text(&cut(json!("commentary"))), None);
    assert_eq!(answer_text(&cut(json!("final_answer"))), Some("text"));
}

#[test]
fn declined_items_are_no_effects() {
    let mut declined = fold();
    declined.apply(&command("item/started", "inProgress"));
    assert!(declined.has_effects());
    declined.apply(&command("item/completed", "declined"));
    assert!(!declined.has_effects());

    let mut open = fold();
    open.apply(&command("item/started", "inProgress"));
    assert!(
        outcome(&mut open, &completed("interrupted", json!([])))
            .end
            .touched
    );

    let mut done = fold();
    done.apply(&command("item/completed", "failed"));
    assert!(
        outcome(&mut done, &completed("completed", json!([])))
            .end
            .touched
    );

    let mut changed = fold();
    changed.apply(&notice("turn/diff/updated", json!({"diff": ""})));
    assert!(!changed.has_effects());
    changed.apply(&notice("turn/diff/updated", json!({"diff": "--- a"})));
    assert!(changed.has_effects());

    let mut unknown = fold();
    unknown.apply(&notice(
        "item/started",
        json!({"item": {"type": "teleport", "id": "z"}}),
    ));
    assert!(unknown.has_effects());
}

#[test]
fn repeated_usage_is_counted_once() {
    let mut fold = fold();
    for report in [usage(1010, 10), usage(1010, 10), usage(1030, 20)] {
        fold.apply(&report);
    }
    let end = outcome(&mut fold, &completed("completed", json!([])));
    assert_eq!(end.end.usage.input_tokens, 30);
}

#[test]
fn failed_turn_keeps_its_error() {
    let failure = notice(
        "error",
        json!({"willRetry": false, "error": {"message": "boom", "codexErrorInfo": "other"}}),
    );
    let mut failed = fold();
    assert_eq!(failed.apply(&failure), None);
    let end = outcome(&mut failed, &completed("failed", json!([])));
    assert_eq!(end.error.unwrap().message, "boom");

    let mut recovered = fold();
    recovered.apply(&failure);
    assert_eq!(
        outcome(&mut recovered, &completed("completed", json!([]))).error,
        None
    );
}

#[test]
fn a_flood_of_deltas_stays_small() {
    let mut fold = fold();
    let piece = "é".repeat(512);
    let mut news = 0;
    for n in 0..20_000 {
        let delta = delta("a", &piece);
        assert!(fold.concerns(&delta));
        if fold.apply(&delta) == Some(TurnNews::Text) {
            news += 1;
            assert!(fold.writing().unwrap().text.len() <= MAX_DRAFT_BYTES);
        }
        fold.apply(&notice(
            "item/started",
            json!({"item": {"type": "mcpToolCall", "id": format!("i{n}"), "server": "s",
                            "tool": "t", "status": "inProgress"}}),
        ));
    }
    assert_eq!(news, MAX_DRAFT_BYTES / piece.len());
    assert!(fold.open_effects.len() <= MAX_OPEN_EFFECTS);
    assert!(fold.draft.as_ref().unwrap().text.text.capacity() <= 2 * MAX_DRAFT_BYTES);
    assert!(
        outcome(&mut fold, &completed("completed", json!([])))
            .end
            .touched
    );
}

#[test]
fn turn_reports_received_client_ids() {
    let ours = || Some(ClientId::new("m1.1"));
    let new = || TurnFold::new(ThreadId::new("t"), Some(TurnId::new("u")), ours());
    let mut fold = new();
    for client_id in ["m1.1", "m1.1", "m2.1"] {
        fold.apply(&asked(client_id, "u"));
    }
    let end = outcome(&mut fold, &completed("completed", json!([])));
    assert_eq!(
        end.end.received,
        [ClientId::new("m1.1"), ClientId::new("m2.1")]
    );
    assert!(!end.joined);
    let mut fold = new();
    fold.apply(&asked("somebody", "u"));
    fold.apply(&asked("m1.1", "u"));
    let end = outcome(&mut fold, &completed("completed", json!([])));
    assert!(end.joined, "{end:?}");
    let mut fold = new();
    for n in 0..2 * MAX_RECEIVED {
        fold.apply(&asked(&format!("m{n}.1"), "u"));
    }
    let end = outcome(&mut fold, &completed("completed", json!([])));
    assert_eq!(end.end.received.len(), MAX_RECEIVED);
}

#[test]
fn unread_message_differs_from_silence() {
    let item = json!({"type": "agentMessage", "id": "a", "words": "renamed"});
    let mut fold = fold();
    fold.apply(&notice("item/completed", json!({ "item": item })));
    let end = outcome(&mut fold, &completed("completed", json!([])));
    assert_eq!(
        (end.end.answer.is_none(), end.doubt.is_some()),
        (true, true)
    );
    let mut fold = self::fold();
    fold.apply(&command("item/completed", "completed"));
    let silent = outcome(&mut fold, &completed("completed", json!([])));
    assert!(silent.doubt.is_none());
}

#[test]
fn unknown_ends_are_doubted() {
    let doubt = |seen: &[Notification], end: &Notification| {
        let mut fold = fold();
        for notification in seen {
            fold.apply(notification);
        }
        outcome(&mut fold, end).doubt
    };
    let answered = [said("a", "yes", json!(null))];
    assert_eq!(doubt(&answered, &completed("completed", json!([]))), None);
    let succeeded = doubt(&answered, &completed("succeeded", json!([])));
    assert!(succeeded.unwrap().contains("`succeeded`"));
    assert!(doubt(&[], &completed("completed", json!([]))).is_some());
    assert_eq!(doubt(&[], &completed("interrupted", json!([]))), None);
    let renamed = json!([{"type": "assistantText", "id": "a", "text": "yes"}]);
    assert!(doubt(&[], &completed("completed", renamed.clone())).is_some());
    assert_eq!(doubt(&answered, &completed("completed", renamed)), None);
    let command = [command("item/completed", "completed")];
    assert_eq!(doubt(&command, &completed("completed", json!([]))), None);
}

#[test]
fn unmarked_steered_turn_is_doubted() {
    let mut fold = fold();
    fold.apply(&said("a", "yes", json!(null)));
    let unmarked = |id: &str| {
        let item = json!({"type": "userMessage", "id": id, "content": []});
        notice("item/completed", json!({ "item": item }))
    };
    fold.apply(&unmarked("m"));
    fold.apply(&unmarked("m"));
    fold.apply(&unmarked("n"));
    let end = outcome(&mut fold, &completed("completed", json!([])));
    assert!(end.doubt.is_some());
}
