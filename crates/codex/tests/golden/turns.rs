//! What each recorded turn amounts to, as whole outcomes.
//!
//! One test per transcript.

use bridge_codex::turn::TurnOutcome;
use bridge_codex::version::PINNED;
use bridge_codex::wire::config::SandboxPolicy;
use bridge_codex::wire::error_info::{ClassHint, ErrorInfo};
use bridge_codex::wire::turn::TurnError;
use bridge_codex::wire::values::{ApprovalPolicy, ApprovalsReviewer};
use bridge_core::port::{TurnEnd, TurnStatus};
use bridge_core::value::{ClientId, ItemId, TurnId, Usage};

use crate::replay::Replay;

/// Usage of a turn with so many calls of the scripted model, whatever the thread used before.
fn usage(calls: i64) -> Usage {
    Usage {
        input_tokens: 100 * calls,
        output_tokens: 10 * calls,
    }
}

/// A turn without failure, effects or steering.
fn ended(turn_id: &str, status: TurnStatus, answer: Option<&str>, calls: i64) -> TurnOutcome {
    TurnOutcome {
        end: TurnEnd {
            turn_id: TurnId::new(turn_id),
            status,
            answer: answer.map(str::to_owned),
            touched: false,
            received: vec![],
            failure: None,
            usage: usage(calls),
        },
        error: None,
        joined: false,
        doubt: None,
    }
}

fn touched(mut outcome: TurnOutcome) -> TurnOutcome {
    outcome.end.touched = true;
    outcome
}

#[test]
fn plain_turn() {
    let replay = Replay::run("plain-turn.jsonl");
    assert_eq!(
        replay.outcomes,
        [ended(
            "01a1e0e8-5675-7202-8e9a-746452f5a3fd",
            TurnStatus::Completed,
            Some("w0 w1 w2 "),
            1
        )]
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
        [ended(
            "01a1e0e8-68ed-7272-8f37-a3a5da4ec8ad",
            TurnStatus::Completed,
            Some("partial then whole"),
            1
        )]
    );
    assert!(replay.news.contains(&"Reconnecting... 1/1".to_owned()));
}

#[test]
fn accepted_command_counts_as_effect() {
    let replay = Replay::run("command-accept.jsonl");
    assert_eq!(
        replay.outcomes,
        [touched(ended(
            "01a1e0e8-58fa-7990-835f-3e1e75615c37",
            TurnStatus::Completed,
            Some("end"),
            2
        ))]
    );
    let news: Vec<&str> = replay.news.iter().map(String::as_str).collect();
    assert_eq!(
        news[2..5],
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
        [ended(
            "01a1e0e8-5c82-7680-ad1c-de08e6730d9a",
            TurnStatus::Completed,
            Some("end"),
            2
        )]
    );
}

#[test]
fn a_cancelled_command_interrupts_the_turn() {
    let replay = Replay::run("command-cancel.jsonl");
    assert_eq!(
        replay.outcomes,
        [ended(
            "01a1e0e8-5f2d-7c63-894c-b62b94903471",
            TurnStatus::Interrupted,
            None,
            1
        )]
    );
}

#[test]
fn an_accepted_file_change_counts_as_effect() {
    let replay = Replay::run("filechange-accept.jsonl");
    assert_eq!(
        replay.outcomes,
        [touched(ended(
            "01a1e0e8-6175-7103-922f-1b7c07d51af9",
            TurnStatus::Completed,
            Some("end"),
            2
        ))]
    );
    let asked = replay.asked.unwrap();
    assert_eq!(asked.headline(), "change files");
    assert_eq!(
        asked.item_id(),
        Some(&ItemId::new("call_b706bff8aeb74a328a7050de"))
    );
}

#[test]
fn interrupted_turn_has_no_answer() {
    let replay = Replay::run("interrupt.jsonl");
    assert_eq!(
        replay.outcomes,
        [ended(
            "01a1e0e8-6bfb-7aa1-901f-fa7f5a1176d7",
            TurnStatus::Interrupted,
            None,
            0
        )]
    );
}

#[test]
fn a_steer_stays_in_the_turn() {
    let replay = Replay::run("steer.jsonl");
    assert_eq!(
        replay.outcomes,
        [ended(
            "01a1e0e8-6f0f-7f02-885c-e3031b2389e7",
            TurnStatus::Completed,
            Some("steered"),
            1
        )]
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
            error: Some(TurnError {
                message: message.to_owned(),
                info: ErrorInfo::named("internalServerError"),
                details: None,
            }),
            ..ended(
                "01a1e0e8-645a-7602-b58e-76b783a8c3f8",
                TurnStatus::Failed,
                None,
                0
            )
        }]
    );
    assert_eq!(
        ErrorInfo::default().class_hint(message),
        ClassHint::ServerError
    );
}

#[test]
fn queued_message_matches_client_id() {
    let replay = Replay::run("queue.jsonl");
    let turn = |turn_id: &str, text: &str, client_id: &str| {
        let mut outcome = ended(turn_id, TurnStatus::Completed, Some(text), 1);
        outcome.end.received = vec![ClientId::new(client_id)];
        outcome
    };
    assert_eq!(
        replay.outcomes,
        [
            turn("01a1e0e8-7333-75d3-bfd5-ebea2514f4f9", "first", "m-1"),
            turn("01a1e0e8-7771-7ee2-b96f-cd58e772a502", "second", "m-2"),
        ]
    );
}
