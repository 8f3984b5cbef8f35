//! Replays what the real binary said (`golden/*.jsonl`, codex-cli 0.166.0 against a scripted
//! model) through link, fold and oracle, and compares whole outcomes.

use std::collections::BTreeMap;
use std::path::Path;

use bridge_codex::AgentText;
use bridge_codex::link::{Event, Link, LinkOptions};
use bridge_codex::oracle::{Effects, Found, OurState, OurTurn, history};
use bridge_codex::turn::{TurnFold, TurnNews, TurnOutcome, TurnUsage};
use bridge_codex::version::{PINNED, Version};
use bridge_codex::wire::account::AccountReadParams;
use bridge_codex::wire::error_info::{ClassHint, ErrorInfo};
use bridge_codex::wire::ids::{ClientId, ItemId, ThreadId, TurnId};
use bridge_codex::wire::method::{
    AccountRead, Initialize, Method, ThreadRead, ThreadResume, ThreadStart, ThreadTurnsList,
    TurnInterrupt, TurnStart, TurnSteer,
};
use bridge_codex::wire::policy::SandboxPolicy;
use bridge_codex::wire::thread::ThreadOpened;
use bridge_codex::wire::turn::TurnError;
use bridge_codex::wire::usage::TokenUsage;
use bridge_codex::wire::values::{ApprovalPolicy, ApprovalsReviewer, SortDirection, TurnStatus};
use bridge_codex::wire::{Outcome, ServerRequest};
use serde_json::Value;

fn lines(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn read<M: Method>(value: &Value) -> M::Response {
    serde_json::from_value(value.clone()).unwrap_or_else(|e| panic!("{}: {e}", M::NAME))
}

/// One transcript on its way through the crate.
struct Replay {
    link: Link,
    sent: BTreeMap<i64, Value>,
    asked: Option<ServerRequest>,
    opened: Option<ThreadOpened>,
    folds: Vec<TurnFold>,
    outcomes: Vec<TurnOutcome>,
    news: Vec<String>,
}

impl Replay {
    fn run(name: &str) -> Self {
        let mut replay = Self {
            link: Link::new(LinkOptions::default()),
            sent: BTreeMap::new(),
            asked: None,
            opened: None,
            folds: Vec::new(),
            outcomes: Vec::new(),
            news: Vec::new(),
        };
        for line in lines(name) {
            match line["dir"].as_str() {
                Some(">") => replay.outgoing(&line["msg"]),
                Some("<") => replay.incoming(&line["msg"]),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(
            replay.link.in_flight(),
            0,
            "{name}: every request was answered"
        );
        assert_eq!(replay.link.counters().malformed_lines, 0);
        assert_eq!(replay.link.counters().malformed_notifications, 0);
        replay
    }

    fn outgoing(&mut self, message: &Value) {
        if message.get("method").is_none() {
            return self.answered(message);
        }
        let Some(id) = message["id"].as_i64() else {
            return;
        };
        let params = AccountReadParams::default();
        let (_, text) = self.link.request::<AccountRead>(&params, 0).unwrap();
        assert!(
            text.starts_with(&format!("{{\"id\":{id},")),
            "ids run in step: {text}"
        );
        self.sent.insert(id, message.clone());
        if message["method"] == "thread/queue/add" {
            let client_id = message["params"]["clientUserMessageId"].as_str().unwrap();
            self.fold(message, None, Some(ClientId::from(client_id)));
        }
    }

    /// The recorded answer must be the one that our builder makes for that decision.
    fn answered(&self, message: &Value) {
        let asked = self.asked.as_ref().expect("an answer follows a request");
        let ours: Outcome = match message["result"]["decision"].as_str() {
            Some("accept") => asked.accept().unwrap(),
            Some("decline") => asked.decline(),
            Some("cancel") => asked.cancel(),
            other => panic!("{other:?}"),
        };
        let text = self.link.respond(&asked.id, ours);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), *message);
    }

    fn incoming(&mut self, message: &Value) {
        match self.link.handle(&message.to_string(), 1) {
            Event::Response { result, .. } => {
                let id = message["id"].as_i64().unwrap();
                let request = self.sent[&id].clone();
                self.response(&request, &result.unwrap());
            }
            Event::Request(request) => {
                self.news.push(format!("asks: {}", request.headline()));
                self.asked = Some(request);
            }
            Event::Notification(notification) => {
                for fold in &mut self.folds {
                    match fold.apply(&notification) {
                        Some(TurnNews::Completed(outcome)) => self.outcomes.push(*outcome),
                        Some(TurnNews::Item {
                            stage,
                            headline,
                            effect,
                            ..
                        }) => {
                            let mark = if effect { "!" } else { "" };
                            self.news.push(format!("{stage:?}{mark}: {headline}"));
                        }
                        Some(TurnNews::Retrying { message }) => self.news.push(message),
                        Some(TurnNews::Text { text, .. }) => {
                            self.news.push(format!("text: {text}"))
                        }
                        Some(TurnNews::Started { .. } | TurnNews::Usage(_)) | None => {}
                    }
                }
            }
            Event::Ignored(_) => {}
        }
    }

    fn response(&mut self, request: &Value, result: &Value) {
        match request["method"].as_str().unwrap() {
            "initialize" => {
                let response = read::<Initialize>(result);
                let version = Version::from_user_agent(&response.user_agent).unwrap();
                assert_eq!(version.to_string(), PINNED);
            }
            "thread/start" => self.opened = Some(read::<ThreadStart>(result)),
            "turn/start" => {
                let turn = read::<TurnStart>(result).turn;
                assert_eq!(turn.status, TurnStatus::InProgress);
                self.fold(request, Some(turn.id), None);
            }
            "turn/steer" => {
                let turn_id = read::<TurnSteer>(result).turn_id;
                assert_eq!(Some(&turn_id), self.folds[0].turn_id());
            }
            "turn/interrupt" => drop(read::<TurnInterrupt>(result)),
            "thread/queue/add" => {}
            other => panic!("{other}"),
        }
    }

    fn fold(&mut self, request: &Value, turn_id: Option<TurnId>, client_id: Option<ClientId>) {
        let thread_id = ThreadId::from(request["params"]["threadId"].as_str().unwrap());
        self.folds
            .push(TurnFold::new(thread_id, turn_id, client_id));
    }
}

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
fn a_broken_stream_is_retried_and_its_text_not_joined() {
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
        }]
    );
    assert!(replay.news.contains(&"Reconnecting... 1/1".to_owned()));
}

#[test]
fn an_accepted_command_runs_and_counts_as_effect() {
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
fn an_interrupt_ends_the_turn_without_an_answer() {
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
        }]
    );
    assert_eq!(
        ErrorInfo::Absent.class_hint(message),
        ClassHint::ServerError
    );
}

#[test]
fn a_queued_message_is_found_by_its_client_id() {
    let replay = Replay::run("queue.jsonl");
    let turn = |turn_id: &str, item_id: &str, text: &str, before| TurnOutcome {
        turn_id: TurnId::from(turn_id),
        status: TurnStatus::Completed,
        answer: answer(item_id, text),
        error: None,
        effects: false,
        items: 2,
        usage: usage(before, 1),
    };
    let mut second = turn(
        "01a1e0e8-7771-7ee2-b96f-cd58e772a502",
        "msg_06c9d7a238134e36a7f4b154",
        "second",
        1,
    );
    second.items = 2;
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

fn recorded(name: &str) -> Value {
    lines("history.jsonl")
        .into_iter()
        .find(|line| line["name"] == name)
        .unwrap_or_else(|| panic!("{name}"))["msg"]["result"]
        .clone()
}

fn found(turns: &[bridge_codex::wire::Turn], client_id: &str, after: usize) -> Found {
    history(turns, &ClientId::from(client_id), Some(&turns[after].id))
}

fn state(found: Found) -> OurState {
    match found {
        Found::Ours(OurTurn {
            state,
            opened_by_us: true,
            ..
        }) => state,
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
        Found::Ours(OurTurn {
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
        })
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
    assert!(matches!(
        opened.sandbox,
        SandboxPolicy::WorkspaceWrite { .. }
    ));

    let summary = read::<ThreadTurnsList>(&recorded("list-default"));
    let summary = summary.into_oldest_first(&SortDirection::Descending);
    let unloaded = Found::Unloaded {
        turn_id: summary[4].id.clone(),
    };
    assert_eq!(found(&summary, "m5.1", 3), unloaded);

    let live = read::<ThreadRead>(&recorded("read-live")).thread.turns;
    assert_eq!(state(found(&live, "m5.1", 3)), OurState::InProgress);
}
