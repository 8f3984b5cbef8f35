//! How a task stands and what its envelope holds, over rows made by hand.

use super::envelope::TaskView;
use super::rows::TaskRows;
use super::shape::TaskDetail;
use crate::task_view::TaskShape;
use bridge_core::task::TaskMessage;
use bridge_core::value::{
    Answer, AnswerSource, ApprovalPolicy, AskedDigest, BootId, ChannelId, ClientId, ConversationId,
    Deciders, EffectDigest, Epoch, EventKind, ExternalId, IncarnationId, ItemEvent, Life, Message,
    MessageId, MessageState, ReadAccess, Request, RequestId, RequestKind, RequestState, Round,
    Sandbox, SenderKind, Seq, Task, TaskId, TaskStart, TaskTerms, ThreadId, Tier, Timestamp,
    Transport, Turn, TurnId, TurnState, Usage, Wants,
};
use serde_json::{Value, json};

fn message(seq: i64, state: MessageState) -> Message {
    let at = Timestamp(seq);
    Message {
        message_id: MessageId::new(format!("m{seq}")),
        conversation_id: ConversationId::new("c"),
        seq: Seq(seq),
        channel: ChannelId::new("task"),
        external_id: ExternalId::new(format!("x{seq}")),
        kind: SenderKind::Person,
        sender: "ann".to_owned(),
        tier: Tier::Tool,
        body: "do\n\tit".to_owned(),
        attachments: Vec::new(),
        said_at: at,
        hops: 0,
        round: Round(0),
        received_at: at,
        trace: None,
        life: Life::new(at).moved(state, at),
    }
}

fn answer(seq: i64) -> Answer {
    Answer {
        message_id: MessageId::new(format!("m{seq}")),
        attempt: 1,
        source: AnswerSource::Live,
        text: format!("answer {seq}"),
        created_at: Timestamp(2_500),
    }
}

fn task() -> Task {
    Task {
        task_id: TaskId::new("codex-0123456789ab"),
        channel: ChannelId::new("task"),
        conversation_id: ConversationId::new("c"),
        owner: "local owner".to_owned(),
        sequence: 0,
        created_at: Timestamp(1_000),
        start: Some(TaskStart {
            prompt_summary: "do it".to_owned(),
            asked: AskedDigest::of([Some("do it")]),
            terms: TaskTerms {
                cwd: "/work".to_owned(),
                model: None,
                sandbox: Sandbox::ReadOnly,
                approval_policy: ApprovalPolicy::OnRequest,
                codex_home: None,
                reads: ReadAccess::Disk,
            },
        }),
    }
}

pub(super) fn rows(states: Vec<(MessageState, bool)>) -> TaskRows {
    let messages = (1..)
        .zip(states)
        .map(|(seq, (state, answered))| TaskMessage {
            message: message(seq, state),
            answer: answered.then(|| answer(seq)),
            files: Vec::new(),
            requests: Vec::new(),
            notice: None,
        });
    TaskRows {
        task: Some(task()),
        notification: None,
        conversation: None,
        messages: messages.collect(),
        turns: Vec::new(),
        events: Vec::new(),
        transport: Transport::Socket,
    }
}

pub(super) fn asks(kind: RequestKind) -> Request {
    Request {
        request_id: RequestId::new("0123456789abcdefghjkmnpqrs"),
        message_id: MessageId::new("m1"),
        attempt: 1,
        incarnation: IncarnationId::new("i"),
        rpc_id: "0".to_owned(),
        item_id: None,
        method: "item/commandExecution/requestApproval".to_owned(),
        wants: match kind {
            RequestKind::UserInput => Wants::Text,
            _ => Wants::Approval,
        },
        secret_answer: kind == RequestKind::UserInput,
        digest: EffectDigest::of(&kind, "make"),
        kind,
        headline: "run make".to_owned(),
        shown: "make".to_owned(),
        payload: "{\"command\":\"make\"}".to_owned(),
        deciders: Deciders::Owner,
        state: RequestState::Open,
        created_at: Timestamp(2_000),
        deadline: Timestamp(9_000),
        effect: None,
        reminded: false,
        resends: 0,
    }
}

pub(super) fn running() -> MessageState {
    MessageState::Running {
        turn_id: TurnId::new("t"),
    }
}

fn reason(text: &str) -> String {
    text.to_owned()
}

#[test]
fn a_task_stands_where_its_messages_are() {
    let dead = || MessageState::Dead {
        reason: reason("broken"),
    };
    let cancelled = || MessageState::Cancelled {
        reason: reason("stopped by ann"),
    };
    let parked = MessageState::Parked {
        until: Timestamp(9),
        reason: reason("cut"),
    };
    let steered = MessageState::Steered {
        leader: MessageId::new("m1"),
    };
    let received = || MessageState::Received { hold: None };
    for (states, word) in [
        (vec![(received(), false)], "queued"),
        (vec![(MessageState::Claimed, false)], "starting"),
        (vec![(MessageState::Starting, false)], "starting"),
        (vec![(running(), false)], "working"),
        (vec![(running(), false), (steered, false)], "working"),
        (
            vec![(MessageState::Unclear { hold: None }, false)],
            "unclear",
        ),
        (vec![(parked, false)], "parked"),
        (vec![(MessageState::Answered, true)], "completed"),
        (vec![(MessageState::Done, true)], "completed"),
        (vec![(dead(), false)], "failed"),
        (vec![(dead(), true)], "completed"),
        (vec![(cancelled(), false)], "cancelled"),
        (
            vec![(MessageState::Done, true), (received(), false)],
            "queued",
        ),
        (
            vec![(MessageState::Done, true), (cancelled(), false)],
            "cancelled",
        ),
        (
            vec![(dead(), false), (MessageState::Done, true)],
            "completed",
        ),
    ] {
        let rows = rows(states);
        assert_eq!(rows.status().as_str(), word, "{:?}", rows.messages);
    }
    let mut asked = rows(vec![(running(), false)]);
    asked.messages[0].requests = vec![asks(RequestKind::Command)];
    assert_eq!(asked.status().as_str(), "waiting_for_approval");
    asked.messages[0].requests = vec![asks(RequestKind::UserInput)];
    assert_eq!(asked.status().as_str(), "waiting_for_user_input");
    asked.messages[0].requests = vec![asks(RequestKind::Elicitation)];
    assert_eq!(
        asked.status().as_str(),
        "waiting_for_approval",
        "a tool of an MCP server is asked about by a form"
    );
    asked.messages[0].requests[0].wants = Wants::Form;
    assert_eq!(asked.status().as_str(), "waiting_for_user_input");
}

fn shown(rows: &TaskRows, detail: TaskDetail) -> Value {
    let task = TaskShape::of(rows, detail);
    serde_json::to_value(TaskView::of(task, detail)).unwrap()
}

fn task_keys() -> Vec<String> {
    let schema = schemars::schema_for!(TaskView);
    let properties = schema.get("properties").and_then(Value::as_object);
    let keys = properties.into_iter().flatten().map(|(key, _)| key);
    keys.cloned().collect()
}

#[test]
fn task_view_matches_described_keys() {
    let mut rows = rows(vec![(MessageState::Done, true)]);
    rows.events = vec![ItemEvent {
        message_id: MessageId::new("m1"),
        ordinal: 1,
        attempt: 1,
        kind: EventKind::Completed,
        text: "ran make".to_owned(),
        at: Timestamp(2_000),
    }];
    let view = shown(&rows, TaskDetail::Whole);
    let mut keys: Vec<String> = view.as_object().unwrap().keys().cloned().collect();
    let mut described = task_keys();
    keys.sort();
    described.sort();
    assert_eq!(keys, described);
    for (key, value) in [
        ("status", json!("completed")),
        ("final_summary", json!("answer 1")),
        ("answer", json!("answer 1")),
        ("created_at", json!(1.0)),
        ("completed_at", json!(2.5)),
        ("notification_status", Value::Null),
        ("last_progress_summary", json!("item/completed: ran make")),
        ("degraded_mode", json!("none")),
    ] {
        assert_eq!(view[key], value, "{key}");
    }
    let event = &view["recent_events"][0];
    assert_eq!(event["source_event_type"], "item/completed");
    assert_eq!(event["normalized_status"], "working");
    assert_eq!(event["created_at"], json!(2.0));
    assert!(
        shown(&rows, TaskDetail::Notification)
            .get("answer")
            .is_none()
    );
    assert!(
        shown(&rows, TaskDetail::Line)
            .get("recent_events")
            .is_none()
    );
}

#[test]
fn pending_requests_keep_original_payload() {
    let mut rows = rows(vec![(running(), false)]);
    rows.messages[0].requests = vec![asks(RequestKind::Command)];
    let view = shown(&rows, TaskDetail::Whole);
    let asked = &view["pending_requests"][0];
    assert_eq!(asked["payload"], json!({ "command": "make" }));
    assert_eq!(asked["code"], "012345");
    assert_eq!(asked["status"], "pending");
    assert_eq!(asked["deadline"], json!(9.0));
}

fn ended_turn() -> Turn {
    Turn {
        message_id: MessageId::new("m1"),
        attempt: 1,
        client_id: ClientId::new("m1.1"),
        epoch: Epoch(1),
        boot_id: BootId::new("b"),
        incarnation: IncarnationId::new("i"),
        thread: ThreadId::new("th"),
        after_turn: None,
        turn_id: Some(TurnId::new("tu")),
        sandbox: Sandbox::ReadOnly,
        state: TurnState::Ended,
        touched: false,
        started_at: Timestamp(1),
        ended_at: Some(Timestamp(2)),
        usage: Usage::default(),
    }
}

#[test]
fn turn_end_carries_its_status() {
    let why = || "why".to_owned();
    for (state, answered, status) in [
        (MessageState::Done, true, "completed"),
        (MessageState::Dead { reason: why() }, false, "failed"),
        (
            MessageState::Cancelled { reason: why() },
            false,
            "cancelled",
        ),
        (MessageState::Received { hold: None }, false, "failed"),
    ] {
        let mut rows = rows(vec![(state, answered)]);
        rows.turns = vec![ended_turn()];
        let told = shown(&rows, TaskDetail::Whole);
        let events = told["recent_events"].as_array().unwrap();
        assert_eq!(events[0]["normalized_status"], "working");
        assert_eq!(events[1]["source_event_type"], "turn/completed");
        assert_eq!(events[1]["normalized_status"], status);
    }
}

#[test]
fn imported_task_shows_its_own_times() {
    let mut rows = rows(vec![(MessageState::Done, false)]);
    let at = |ordinal: u32, text: &str| ItemEvent {
        message_id: MessageId::new("m1"),
        ordinal,
        attempt: 0,
        kind: EventKind::Imported,
        text: text.to_owned(),
        at: Timestamp(500),
    };
    rows.messages[0].message.life.updated_at = Timestamp(9_000);
    rows.events = vec![
        at(1, "turn/started [working] {}"),
        at(2, "bridge/imported [] the older tool had it as completed"),
    ];
    let told = shown(&rows, TaskDetail::Whole);
    assert_eq!(told["updated_at"], json!(0.5));
    assert_eq!(told["completed_at"], json!(0.5));
    assert_eq!(told["last_progress_summary"], "turn/started: {}");
    assert_eq!(
        told["recent_events"][0]["source_event_type"],
        "turn/started"
    );
    assert_eq!(told["recent_events"][0]["normalized_status"], "working");
}
