//! What each recorded turn amounts to, as whole outcomes.
//!
//! One test per transcript.

use bridge_codex::AgentText;
use bridge_codex::turn::{TurnOutcome, TurnUsage};
use bridge_codex::version::PINNED;
use bridge_codex::wire::error_info::{ClassHint, ErrorInfo};
use bridge_codex::wire::ids::{ClientId, ItemId, TurnId};
use bridge_codex::wire::policy::SandboxPolicy;
use bridge_codex::wire::turn::TurnError;
use bridge_codex::wire::usage::TokenUsage;
use bridge_codex::wire::values::{ApprovalPolicy, ApprovalsReviewer, TurnStatus};

use crate::replay::Replay;

/// Usage after `calls` calls of the scripted model, the thread having made `before` ones earlier.
fn usage(before: u64, calls: u64) -> Option<TurnUsage> {
    let tokens = |calls: u64| TokenUsage {
        total_tokens: 110 * calls,
        input_tokens: 100 * calls,
        cached_input_tokens: 20 * calls,
        output_tokens: 10 * calls,
        reasoning_output_tokens: 0,
    };
    Some(TurnUsage {
        turn: tokens(calls),
        thread: tokens(before + calls),
        context_window: Some(258_400),
    })
}

fn answer(item_id: &str, text: &str) -> Option<AgentText> {
    Some(AgentText {
        item_id: ItemId::from(item_id),
        text: text.to_owned(),
        phase: None,
    })
}

#[test]
fn plain_turn() {
    let replay = Replay::run("plain-turn.jsonl");
    assert_eq!(
        replay.outcomes,
        [TurnOutcome {
            turn_id: TurnId::from("01a1e0e8-5675-7202-8e9a-746452f5a3fd"),
            status: TurnStatus::Completed,
            answer: answer("msg_f9cadddd85e04df9bf92200b", "w0 w1 w2 "),
            error: None,
            effects: false,
            items: 2,
            usage: usage(0, 1),
            received: vec![],
            joined: false,
            unread: false,
        }]
    );
    assert_eq!(
        replay.news,
        [
            "Started: asked: stream:3:5",
            "Completed: asked: stream:3:5",
            "Started: says:",
            "text: w0 ",
            "text: w0 w1 ",
            "text: w0 w1 w2 ",
            "Completed: says: w0 w1 w2",
        ]
    );
    let opened = replay.opened.unwrap();
    assert_eq!(opened.cwd, "/workdir");
    assert_eq!(opened.model, "mock-model");
    assert_eq!(opened.approval_policy, ApprovalPolicy::Never);
    assert_eq!(opened.approvals_reviewer, ApprovalsReviewer::User);
    assert_eq!(
        opened.sandbox,
        SandboxPolicy::ReadOnly {
            network_access: false
        }
    );
    assert_eq!(opened.active_permission_profile, None);
    assert_eq!(opened.thread.cli_version.as_deref(), Some(PINNED));
    let ignored = &replay.link.counters().unknown_notifications;
    assert_eq!(ignored["thread/readState/changed"], 1);
}

#[test]
fn broken_stream_retry_joins_no_text() {
    let replay = Replay::run("broken-stream-retry.jsonl");
    assert_eq!(
        replay.outcomes,
        [TurnOutcome {
            turn_id: TurnId::from("01a1e0e8-68ed-7272-8f37-a3a5da4ec8ad"),
            status: TurnStatus::Completed,
            answer: answer("msg_df32a2ebc33b461a8f6fae9f", "partial then whole"),
            error: None,
            effects: false,
            items: 2,
            usage: usage(0, 1),
            received: vec![],
            joined: false,
            unread: false,
        }]
    );
    assert!(replay.news.contains(&"Reconnecting... 1/1".to_owned()));
}

#[test]
fn accepted_command_counts_as_effect() {
    let replay = Replay::run("command-accept.jsonl");
    assert_eq!(
        replay.outcomes,
        [TurnOutcome {
            turn_id: TurnId::from("01a1e0e8-58fa-7990-835f-3e1e75615c37"),
            status: TurnStatus::Completed,
            answer: answer("msg_c94b864ff7a147c5b6a1394a", "end"),
            error: None,
            effects: true,
            items: 3,
            usage: usage(0, 2),
            received: vec![],
            joined: false,
            unread: false,
        }]
    );
    let told: Vec<&str> = replay.news.iter().map(String::as_str).collect();
    assert_eq!(
        told[2..5],
        [
            "Started!: running `echo hi`",
            "asks: run `echo hi` in /workdir (mock wants to escalate)",
            "Completed!: running `echo hi`",
        ]
    );
}

#[test]
fn a_declined_command_has_no_effect() {
    let replay = Replay::run("command-decline.jsonl");
    assert_eq!(
        replay.outcomes,
        [TurnOutcome {
            turn_id: TurnId::from("01a1e0e8-5c82-7680-ad1c-de08e6730d9a"),
            status: TurnStatus::Completed,
            answer: answer("msg_77c0dac6f51544818a4b3bc5", "end"),
            error: None,
            effects: false,
            items: 3,
            usage: usage(0, 2),
            received: vec![],
            joined: false,
            unread: false,
        }]
    );
}

#[test]
fn a_cancelled_command_interrupts_the_turn() {
    let replay = Replay::run("command-cancel.jsonl");
    assert_eq!(
        replay.outcomes,
        [TurnOutcome {
            turn_id: TurnId::from("01a1e0e8-5f2d-7c63-894c-b62b94903471"),
            status: TurnStatus::Interrupted,
            answer: None,
            error: None,
            effects: false,
            items: 2,
            usage: usage(0, 1),
            received: vec![],
            joined: false,
            unread: false,
        }]
    );
}

#[test]
fn an_accepted_file_change_counts_as_effect() {
    let replay = Replay::run("filechange-accept.jsonl");
    assert_eq!(
        replay.outcomes,
        [TurnOutcome {
            turn_id: TurnId::from("01a1e0e8-6175-7103-922f-1b7c07d51af9"),
            status: TurnStatus::Completed,
            answer: answer("msg_f758d39b15a24f1aa1eaf98d", "end"),
            error: None,
            effects: true,
            items: 3,
            usage: usage(0, 2),
            received: vec![],
            joined: false,
            unread: false,
        }]
    );
    let asked = replay.asked.unwrap();
    assert_eq!(asked.headline(), "change files");
    assert_eq!(
        asked.item_id(),
        Some(&ItemId::from("call_b706bff8aeb74a328a7050de"))
    );
}

#[test]
fn interrupted_turn_has_no_answer() {
    let replay = Replay::run("interrupt.jsonl");
    assert_eq!(
        replay.outcomes,
        [TurnOutcome {
            turn_id: TurnId::from("01a1e0e8-6bfb-7aa1-901f-fa7f5a1176d7"),
            status: TurnStatus::Interrupted,
            answer: None,
            error: None,
            effects: false,
            items: 1,
            usage: None,
            received: vec![],
            joined: false,
            unread: false,
        }]
    );
}

#[test]
fn a_steer_stays_in_the_turn() {
    let replay = Replay::run("steer.jsonl");
    assert_eq!(
        replay.outcomes,
        [TurnOutcome {
            turn_id: TurnId::from("01a1e0e8-6f0f-7f02-885c-e3031b2389e7"),
            status: TurnStatus::Completed,
            answer: answer("msg_2f8e9e61b44648fbabe89735", "steered"),
            error: None,
            effects: false,
            items: 3,
            usage: usage(0, 1),
            received: vec![],
            joined: false,
            unread: false,
        }]
    );
}

#[test]
fn a_failed_turn_says_why() {
    let replay = Replay::run("turn-failed-500.jsonl");
    let message =
        "We\u{2019}re currently experiencing high demand, which may cause temporary errors.";
    assert_eq!(
        replay.outcomes,
        [TurnOutcome {
            turn_id: TurnId::from("01a1e0e8-645a-7602-b58e-76b783a8c3f8"),
            status: TurnStatus::Failed,
            answer: None,
            error: Some(TurnError {
                message: message.to_owned(),
                info: ErrorInfo::InternalServerError,
                details: None,
            }),
            effects: false,
            items: 1,
            usage: None,
            received: vec![],
            joined: false,
            unread: false,
        }]
    );
    assert_eq!(
        ErrorInfo::Absent.class_hint(message),
        ClassHint::ServerError
    );
}

#[test]
fn queued_message_matches_client_id() {
    let replay = Replay::run("queue.jsonl");
    let turn = |turn_id: &str, item_id: &str, text: &str, before: u64| TurnOutcome {
        turn_id: TurnId::from(turn_id),
        status: TurnStatus::Completed,
        answer: answer(item_id, text),
        error: None,
        effects: false,
        items: 2,
        usage: usage(before, 1),
        received: vec![ClientId::from(format!("m-{}", before + 1).as_str())],
        joined: false,
        unread: false,
    };
    let second = turn(
        "01a1e0e8-7771-7ee2-b96f-cd58e772a502",
        "msg_06c9d7a238134e36a7f4b154",
        "second",
        1,
    );
    assert_eq!(
        replay.outcomes,
        [
            turn(
                "01a1e0e8-7333-75d3-bfd5-ebea2514f4f9",
                "msg_cabd4699112148a69dd4c028",
                "first",
                0
            ),
            second,
        ]
    );
}
