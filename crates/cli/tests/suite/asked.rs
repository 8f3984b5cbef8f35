//! What Codex asks, over the real Codex and driven through the agent itself: each kind of question is shown whole and
//! takes each kind of answer, a question survives a change of daemons, and nobody answers for somebody else.

use crate::agent::{self, Codex};
use crate::fake;
use crate::foreign::Foreign;
use crate::world::{World, gone, processes_with, within};
use bridge_core::port::{
    Agent, ApprovalRequest, LostTurn, RequestKey, Responded, Started, ThreadSpec, TurnEnd,
    TurnEvent, TurnSpec, TurnStatus, TurnStream,
};
use bridge_core::value::{
    Class, ClientId, IncarnationId, ItemId, RequestDecision, RequestKind, RequestVerdict, Sandbox,
    ThreadId, Timestamp, TurnId,
};
use bridge_host::CodexStream;
use bridge_testkit::MemoryLedger;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

const QUESTIONS: &str = r#"tool:request_user_input:{"questions":[{"id":"color","header":"C","question":"Which color?","options":[{"label":"Red","description":"r"},{"label":"Blue","description":"b"}]}]} ;; echo:ok"#;
const PERMISSIONS: &str = r#"tool:request_permissions:{"reason":"the net","permissions":{"network":{"enabled":true}}} ;; echo:ok"#;
const TOOL: &str = "nstool:mcp__asker:form:{} ;; echo:ok";

pub(crate) struct Rig {
    pub(crate) world: World,
    ledger: MemoryLedger,
    pub(crate) codex: Codex,
}

/// A turn that is followed.
struct Turn {
    spec: TurnSpec,
    incarnation: IncarnationId,
    turn_id: TurnId,
    stream: CodexStream,
}

impl Rig {
    pub(crate) async fn new() -> Self {
        let world = World::new().await;
        world.configure_codex(&configured(&world));
        let ledger = MemoryLedger::new();
        let codex = agent::codex_over(&world, ledger.clone());
        Self {
            world,
            ledger,
            codex,
        }
    }

    async fn begin(&self, text: &str) -> Turn {
        self.begin_as(text, agent::spec(&self.world)).await
    }

    async fn begin_as(&self, text: &str, spec: ThreadSpec) -> Turn {
        let incarnation = self.codex.ready(spec.codex_home.as_deref()).await.unwrap();
        let thread = self.codex.open_thread(&spec).await.unwrap();
        self.begin_on(thread, text, spec, incarnation).await
    }

    async fn begin_on(
        &self,
        thread: ThreadId,
        text: &str,
        spec: ThreadSpec,
        incarnation: IncarnationId,
    ) -> Turn {
        let spec = TurnSpec {
            text: text.to_owned(),
            ..turn_spec(&thread, &spec)
        };
        let Started { turn_id, stream } = self.codex.start_turn(&spec).await.unwrap();
        Turn {
            spec,
            incarnation,
            turn_id,
            stream,
        }
    }

    /// Another daemon takes over, and finds the turn again.
    async fn replaced(self, turn: Turn) -> (Self, Turn) {
        drop(turn.stream);
        self.codex.hand_over().await;
        let codex = agent::codex_over(&self.world, self.ledger.clone());
        codex.adopt().await.unwrap();
        let lost = LostTurn {
            turn: turn.spec.clone(),
            turn_id: None,
            after_turn: None,
            incarnation: turn.incarnation.clone(),
        };
        let looked = codex.look_up(&lost).await.unwrap();
        let stream = looked.stream.unwrap();
        (Self { codex, ..self }, Turn { stream, ..turn })
    }

    async fn respond(
        &self,
        asked: &ApprovalRequest,
        decision: RequestDecision,
        answers: Option<Value>,
    ) -> Responded {
        let verdict = verdict(decision, answers);
        self.codex.respond(&asked.key, &verdict).await.unwrap()
    }

    async fn told(
        &self,
        asked: &ApprovalRequest,
        decision: RequestDecision,
        answers: Option<Value>,
    ) {
        let responded = self.respond(asked, decision, answers).await;
        assert_eq!(responded, Responded::Delivered, "{asked:?}");
    }

    fn last_output(&self) -> String {
        let requests = self.world.model.requests();
        let outputs = requests.iter().rev().find_map(|seen| seen.outputs.last());
        outputs.cloned().unwrap_or_default()
    }
}

/// Codex with all that it can ask for, and an MCP server that asks.
fn configured(world: &World) -> String {
    let asker = fake::beside("mcp-asker");
    format!(
        "{}\n[features]\nrequest_permissions_tool = true\ndefault_mode_request_user_input = true\n[mcp_servers.asker]\ncommand = {asker:?}\n",
        world.model.codex_config()
    )
}

fn turn_spec(thread: &ThreadId, spec: &ThreadSpec) -> TurnSpec {
    TurnSpec {
        thread: thread.clone(),
        spec: spec.clone(),
        client_id: ClientId::new("m1.1"),
        text: "echo:again".to_owned(),
        images: Vec::new(),
        trace: None,
    }
}

fn verdict(decision: RequestDecision, answers: Option<Value>) -> RequestVerdict {
    RequestVerdict {
        decision,
        answers: answers.map(|answers| answers.to_string()),
        by: bridge_core::value::DecidedBy::caller("ann"),
        via: "cli".to_owned(),
        at: Timestamp(0),
    }
}

impl Turn {
    /// What Codex asks next.
    async fn asked(&mut self) -> ApprovalRequest {
        let wait = async {
            loop {
                match self.stream.next().await {
                    TurnEvent::Request(asked) => return asked,
                    over @ (TurnEvent::Ended(_) | TurnEvent::Lost { .. }) => panic!("{over:?}"),
                    TurnEvent::Named { .. }
                    | TurnEvent::Alive
                    | TurnEvent::Raw(_)
                    | TurnEvent::Stderr(_)
                    | TurnEvent::Item(_)
                    | TurnEvent::Text(_)
                    | TurnEvent::Retrying { .. }
                    | TurnEvent::Resolved(_)
                    | TurnEvent::Confirmed(_) => {}
                }
            }
        };
        within("a question of codex", wait).await
    }

    async fn end(self) -> TurnEnd {
        agent::end(self.stream).await
    }

    async fn must_answer(self, text: &str) {
        let end = self.end().await;
        let said = (end.status, end.answer.as_deref());
        assert_eq!(said, (TurnStatus::Completed, Some(text)), "{end:?}");
    }
}

#[tokio::test]
async fn command_runs_only_after_approval() {
    let rig = Rig::new().await;
    let mut turn = rig.begin("escal:touch one ;; echo:ok").await;
    let asked = turn.asked().await;
    let dir = rig.world.path().display().to_string();
    assert_eq!(asked.kind, RequestKind::Command);
    assert_eq!(asked.method, "item/commandExecution/requestApproval");
    let shown = format!(
        "command: /bin/bash -lc 'touch one'\ncwd: {dir}\nsandbox: read-only, and if accepted it may run outside of it\nreason: mock wants to escalate\n"
    );
    assert_eq!(asked.shown, shown);
    assert!(!rig.world.path().join("one").exists());
    let unfit = rig
        .respond(&asked, RequestDecision::Accept, Some(json!({"a": 1})))
        .await;
    assert!(matches!(unfit, Responded::Invalid { .. }), "{unfit:?}");
    rig.told(&asked, RequestDecision::Accept, None).await;
    let twice = rig.respond(&asked, RequestDecision::Decline, None).await;
    assert_eq!(twice, Responded::Gone);
    turn.must_answer("ok").await;
    assert!(rig.world.path().join("one").exists());
    rig.codex.stop().await;
    let late = rig.respond(&asked, RequestDecision::Accept, None).await;
    assert_eq!(late, Responded::Disconnected);
}

#[tokio::test]
async fn declined_file_change_is_not_written() {
    let rig = Rig::new().await;
    let mut turn = rig.begin("patch:new.txt:hello ;; echo:ok").await;
    let asked = turn.asked().await;
    let file = rig.world.path().join("new.txt");
    assert_eq!(asked.kind, RequestKind::FileChange);
    assert_eq!(
        asked.shown,
        format!(
            "files: add {0}\ndiff:\n  add {0}:\n    hello\nsandbox: read-only\n",
            file.display()
        )
    );
    assert_eq!(asked.headline, format!("add {}", file.display()));
    rig.told(&asked, RequestDecision::Decline, None).await;
    turn.must_answer("ok").await;
    assert!(!file.exists());
    rig.codex.stop().await;
}

#[tokio::test]
async fn questions_and_forms_take_answers_that_fit() {
    let rig = Rig::new().await;
    let mut turn = rig.begin(QUESTIONS).await;
    let asked = turn.asked().await;
    assert_eq!(asked.kind, RequestKind::UserInput);
    assert!(
        asked
            .shown
            .starts_with("question `color`: Which color?\n- choice `Red`: r\n"),
        "{}",
        asked.shown
    );
    for unfit in [None, Some(json!({"colour": "Red"}))] {
        let responded = rig.respond(&asked, RequestDecision::Accept, unfit).await;
        assert!(
            matches!(responded, Responded::Invalid { .. }),
            "{responded:?}"
        );
    }
    let answers = Some(json!({"color": "Red"}));
    rig.told(&asked, RequestDecision::Accept, answers).await;
    turn.must_answer("ok").await;
    assert!(rig.last_output().contains("Red"), "{}", rig.last_output());

    let mut turn = rig.begin(TOOL).await;
    let asked = turn.asked().await;
    assert!(asked.shown.contains("run tool \"form\""), "{}", asked.shown);
    rig.told(&asked, RequestDecision::Accept, None).await;
    let form = turn.asked().await;
    assert_eq!(form.kind, RequestKind::Elicitation);
    assert!(
        form.shown.contains("\"required\":[\"name\"]"),
        "{}",
        form.shown
    );
    let unfit = rig
        .respond(&form, RequestDecision::Accept, Some(json!({"count": 1})))
        .await;
    let why = "the form needs `name`".to_owned();
    assert_eq!(unfit, Responded::Invalid { why });
    let answers = Some(json!({"name": "Ann"}));
    rig.told(&form, RequestDecision::Accept, answers).await;
    turn.must_answer("ok").await;
    assert!(rig.last_output().contains("Ann"), "{}", rig.last_output());
    rig.codex.stop().await;
}

#[tokio::test]
async fn session_approval_suppresses_repeat_requests() {
    let rig = Rig::new().await;
    let plain = "nstool:mcp__asker:plain:{} ;; nstool:mcp__asker:plain:{} ;; echo:ok";
    let mut turn = rig.begin(plain).await;
    let asked = turn.asked().await;
    rig.told(&asked, RequestDecision::AcceptForSession, None)
        .await;
    turn.must_answer("ok").await;
    let permissions = PERMISSIONS.replace(" ;; echo:ok", "");
    let mut turn = rig.begin(&format!("{permissions} ;; echo:ok")).await;
    let asked = turn.asked().await;
    assert_eq!(asked.kind, RequestKind::Permissions);
    assert!(asked.shown.contains("\"enabled\":true"), "{}", asked.shown);
    rig.told(&asked, RequestDecision::Accept, None).await;
    turn.must_answer("ok").await;
    assert!(
        rig.last_output().contains("enabled"),
        "{}",
        rig.last_output()
    );
    rig.codex.stop().await;
}

#[tokio::test]
async fn cancel_ends_the_turn_whatever_was_asked() {
    let rig = Rig::new().await;
    for text in [
        "escal:touch one ;; echo:no",
        "patch:new.txt:hello ;; echo:no",
        PERMISSIONS,
        QUESTIONS,
        TOOL,
    ] {
        let mut turn = rig.begin(text).await;
        let asked = turn.asked().await;
        rig.told(&asked, RequestDecision::Cancel, None).await;
        let end = turn.end().await;
        let said = (end.status, end.answer);
        assert_eq!(said, (TurnStatus::Interrupted, None), "{text}");
    }
    rig.codex.stop().await;
}

/// E29 and codex.md 2.8: ids count through the life of a process, so a question keeps its name over a change of
/// daemons, and one that is asked later never has it.
#[tokio::test]
async fn approval_id_is_stable_across_daemons() {
    let mut rig = Rig::new().await;
    let mut names = Vec::new();
    for text in [
        "escal:touch one ;; echo:ok",
        "patch:new.txt:hello ;; echo:ok",
        QUESTIONS,
        TOOL,
    ] {
        let mut turn = rig.begin(text).await;
        let before = turn.asked().await;
        assert!(!names.contains(&before.key), "{before:?} in {names:?}");
        let (next, mut turn) = rig.replaced(turn).await;
        rig = next;
        let again = turn.asked().await;
        assert_eq!(again, before);
        let other_life = ApprovalRequest {
            key: RequestKey {
                incarnation: IncarnationId::new("another"),
                ..again.key.clone()
            },
            ..again.clone()
        };
        let other_item = ApprovalRequest {
            key: RequestKey {
                item_id: Some(ItemId::new("call_another")),
                ..again.key.clone()
            },
            ..again.clone()
        };
        let strangers = [
            (other_life, Responded::Disconnected),
            (other_item, Responded::Gone),
        ];
        for (stranger, expected) in strangers {
            let heard = rig.respond(&stranger, RequestDecision::Decline, None).await;
            assert_eq!(heard, expected);
        }
        rig.told(&again, RequestDecision::Decline, None).await;
        turn.must_answer("ok").await;
        names.push(again.key);
    }
    rig.codex.stop().await;
}

/// Another client of the same Codex answers: the follower hears that the question is settled.
#[tokio::test]
async fn foreign_decision_settles_the_request() {
    let rig = Rig::new().await;
    let mut turn = rig.begin("escal:touch one ;; echo:ok").await;
    let asked = turn.asked().await;
    let mut foreign = Foreign::client_in(&rig.world.path().join("run")).await;
    let thread = turn.spec.thread.as_str();
    foreign
        .call("thread/resume", json!({"threadId": thread}))
        .await;
    foreign.answer_next(json!({"decision": "decline"})).await;
    let settled = within("the end of the question", async {
        loop {
            if let TurnEvent::Resolved(settled) = turn.stream.next().await {
                return settled;
            }
        }
    });
    assert_eq!(settled.await, asked.key);
    let late = rig.respond(&asked, RequestDecision::Accept, None).await;
    assert_eq!(late, Responded::Gone);
    turn.must_answer("ok").await;
    assert!(!rig.world.path().join("one").exists());
    rig.codex.stop().await;
}

async fn exists(path: &Path) {
    let mut look = tokio::time::interval(Duration::from_millis(5));
    let made = async {
        while !path.exists() {
            look.tick().await;
        }
    };
    within("a file of a command", made).await;
}

/// Another client gives a thread of ours everything in mid-turn: the turn is stopped, and before the next one the thread
/// is what it should be.
#[tokio::test]
async fn permission_escalation_stops_turn_resets_thread() {
    let rig = Rig::new().await;
    let turn = rig.begin("hold:gate echo:no").await;
    rig.world.model.wait_held("gate").await.unwrap();
    let mut foreign = Foreign::client_in(&rig.world.path().join("run")).await;
    let thread = turn.spec.thread.clone();
    let named = json!({"threadId": thread.as_str()});
    foreign.call("thread/resume", named.clone()).await;
    let everything = json!({"threadId": thread.as_str(), "approvalPolicy": "never",
                            "sandboxPolicy": {"type": "dangerFullAccess"}});
    foreign.call("thread/settings/update", everything).await;
    let (spec, incarnation) = (turn.spec.spec.clone(), turn.incarnation.clone());
    let end = turn.end().await;
    assert_eq!(end.status, TurnStatus::Interrupted);
    let failure = end.failure.unwrap();
    assert_eq!(failure.class, Class::Config);
    assert!(failure.reason.contains("danger-full-access"), "{failure:?}");

    let early = turn_spec(&thread, &spec);
    assert!(rig.codex.start_turn(&early).await.is_err());
    rig.codex.resume_thread(&thread, &spec).await.unwrap();
    let reported = foreign.call("thread/resume", named).await;
    assert_eq!(reported["sandbox"]["type"], "readOnly", "{reported:#}");
    assert_eq!(reported["approvalPolicy"], "on-request");
    let turn = rig.begin_on(thread, "echo:right", spec, incarnation).await;
    turn.must_answer("right").await;
    rig.codex.stop().await;
}

/// A tier that was given less after its thread was loaded has less from its next turn on.
#[tokio::test]
async fn a_loaded_thread_follows_the_configuration() {
    let rig = Rig::new().await;
    let writer = ThreadSpec {
        sandbox: Sandbox::WorkspaceWrite,
        ..agent::spec(&rig.world)
    };
    let turn = rig.begin_as("shell:touch one ;; echo:ok", writer).await;
    let (thread, incarnation) = (turn.spec.thread.clone(), turn.incarnation.clone());
    turn.must_answer("ok").await;
    assert!(rig.world.path().join("one").exists());
    let reader = agent::spec(&rig.world);
    rig.codex.resume_thread(&thread, &reader).await.unwrap();
    let text = "shell:touch two ;; echo:ok";
    let turn = rig.begin_on(thread, text, reader, incarnation).await;
    turn.must_answer("ok").await;
    assert!(!rig.world.path().join("two").exists());
    rig.codex.stop().await;
}

/// A turn with commands in the background that take no hint, one of them in a session of its own. They hold the mark.
async fn deaf_turn(rig: &Rig, mark: &str, then: &str) -> Turn {
    let deaf = |name: &str| {
        format!("trap : TERM INT HUP; touch {name}; while true; do sleep 1; : {mark}; done")
    };
    let commands = format!("setsid bash -c '{}' & {}", deaf("two"), deaf("one"));
    let call = json!({"cmd": commands, "yield_time_ms": 250});
    let spec = ThreadSpec {
        sandbox: Sandbox::WorkspaceWrite,
        ..agent::spec(&rig.world)
    };
    let turn = rig
        .begin_as(&format!("tool:exec_command:{call} ;; {then}"), spec)
        .await;
    for name in ["one", "two"] {
        exists(&rig.world.path().join(name)).await;
    }
    turn
}

/// Codex answers when it has sent the signal; the kernel takes a moment.
async fn all_gone(mark: &str) {
    for (pid, _) in processes_with(mark) {
        gone(pid).await;
    }
}

#[tokio::test]
async fn interrupted_turn_leaves_no_process() {
    let rig = Rig::new().await;
    let mark = format!("interrupted-{}", std::process::id());
    let turn = deaf_turn(&rig, &mark, "hold:gate echo:no").await;
    rig.world.model.wait_held("gate").await.unwrap();
    assert_ne!(processes_with(&mark), []);
    let (thread, turn_id) = (turn.spec.thread.clone(), turn.turn_id.clone());
    let (interrupted, end) = tokio::join!(rig.codex.interrupt(&thread, &turn_id), turn.end());
    assert_eq!(interrupted, Ok(()));
    assert_eq!(end.status, TurnStatus::Interrupted);
    all_gone(&mark).await;
    rig.codex.stop().await;
    assert_eq!(rig.world.processes(), []);
}

/// Codex ends the turn by itself then, and nobody else would clean up.
#[tokio::test]
async fn cancelled_approval_leaves_no_process() {
    let rig = Rig::new().await;
    let mark = format!("cancelled-{}", std::process::id());
    let mut turn = deaf_turn(&rig, &mark, "escal:true ;; echo:no").await;
    let asked = turn.asked().await;
    assert_ne!(processes_with(&mark), []);
    rig.told(&asked, RequestDecision::Cancel, None).await;
    assert_eq!(turn.end().await.status, TurnStatus::Interrupted);
    all_gone(&mark).await;
    rig.codex.stop().await;
}
