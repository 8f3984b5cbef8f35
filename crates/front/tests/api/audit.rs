//! What acts leave behind: every route of the table that promises an entry in the audit is called once where it acts.

use crate::control::{TASK, begin};
use crate::service::{Put, TestService};
use axum::body::Body;
use axum::http::{Method, Request};
use bridge_core::port::{Change, FleetChange, Ledger, LoanChange};
use bridge_core::value::{
    AuditEntry, BootId, ChannelId, ClientId, ConversationId, Deciders, EffectDigest, Epoch,
    IncarnationId, Life, Loan, LoanId, MessageId, MessageState, NodeId, NodeState,
    Request as Asked, RequestId, RequestKind, RequestState, Sandbox, StateName, Task, TaskId,
    TaskInput, TaskInputKind, ThreadId, Timestamp, Turn, TurnId, TurnState, Usage, Wants,
};
use bridge_front::BridgeService;
use bridge_front::api::{Api, Trace, Verb};
use serde_json::{Value, json};

const FIRST: &str = "t1-first";
const OTHER: &str = "m1-of-ann";
/// Its conversation.
const CONVERSATION: &str = "c-m1-of-ann";
const ASKED: &str = "0123456789abcdefghjkmnpqrs";

pub(crate) fn becomes(id: &str, state: MessageState, at: Timestamp) -> Change {
    let life = Life {
        attempt: 1,
        ..Life::new(at)
    };
    Change::UpdateState {
        message_id: MessageId::new(id),
        from: StateName::Received,
        life: life.moved(state, at),
    }
}

pub(crate) fn running(id: &str, at: Timestamp) -> Vec<Change> {
    let (message_id, turn_id) = (MessageId::new(id), TurnId::new("turn"));
    let turn = Turn {
        client_id: ClientId::of(&message_id, 1),
        message_id,
        attempt: 1,
        epoch: Epoch(1),
        boot_id: BootId::new("boot"),
        incarnation: IncarnationId::new("i"),
        thread: ThreadId::new("thread"),
        after_turn: None,
        turn_id: Some(turn_id.clone()),
        sandbox: Sandbox::ReadOnly,
        state: TurnState::Attached,
        touched: false,
        started_at: at,
        ended_at: None,
        usage: Usage::default(),
    };
    let state = MessageState::Running { turn_id };
    vec![becomes(id, state, at), Change::NewTurn(turn)]
}

pub(crate) fn asks(id: &str, at: Timestamp) -> Vec<Change> {
    let mut changes = running(id, at);
    changes.push(Change::NewRequest(Asked {
        request_id: RequestId::new(ASKED),
        message_id: MessageId::new(id),
        attempt: 1,
        incarnation: IncarnationId::new("i"),
        rpc_id: "0".to_owned(),
        item_id: None,
        method: "item/commandExecution/requestApproval".to_owned(),
        digest: EffectDigest::of(&RequestKind::Command, "make"),
        kind: RequestKind::Command,
        wants: Wants::Approval,
        secret_answer: false,
        headline: "run make".to_owned(),
        shown: "make".to_owned(),
        payload: "{}".to_owned(),
        deciders: Deciders::Owner,
        state: RequestState::Open,
        created_at: at,
        deadline: at.plus_ms(600_000),
        effect: None,
        reminded: false,
        resends: 0,
    }));
    changes
}

pub(crate) fn over(id: &str, at: Timestamp) -> Vec<Change> {
    let reason = "broken".to_owned();
    vec![becomes(id, MessageState::Dead { reason }, at)]
}

/// The message is a task of whoever calls.
fn given(id: &str, at: Timestamp) -> Vec<Change> {
    let task_id = TaskId::new("e1");
    let task = Task {
        task_id: task_id.clone(),
        channel: ChannelId::new("a2a"),
        conversation_id: ConversationId::new(format!("c-{id}")),
        owner: "local owner".to_owned(),
        sequence: 0,
        created_at: at,
        start: None,
    };
    let word = TaskInput {
        task_id,
        ordinal: 1,
        client_message_id: "mine".to_owned(),
        idempotency_key: None,
        kind: TaskInputKind::Message(MessageId::new(id)),
        original: String::new(),
        at,
    };
    vec![Change::NewTask(task), Change::NewTaskInput(word)]
}

/// The conversation has a thread.
fn bound() -> Vec<Change> {
    vec![Change::Bind {
        conversation_id: ConversationId::new(CONVERSATION),
        from: None,
        to: Some(ThreadId::new("thread")),
    }]
}

fn lent(at: Timestamp) -> Vec<Change> {
    vec![Change::Loan(LoanChange::Put(Loan {
        loan_id: LoanId::new("l1"),
        conversation_id: ConversationId::new(CONVERSATION),
        borrower: "local owner".to_owned(),
        since: at,
        until: at.plus_ms(60_000),
        error: None,
    }))]
}

fn draining() -> Vec<Change> {
    vec![Change::Fleet(FleetChange::NodeState {
        node_id: NodeId::new("b"),
        from: NodeState::Active,
        to: NodeState::Draining,
    })]
}

/// Where a route acts: the rows, what is filled into its path, and its body.
fn scene(path: &str, at: Timestamp) -> (Vec<Change>, &'static str, Value) {
    let decision = json!({"decision": "decline"});
    let respond = json!({"request_id": ASKED, "decision": "decline"});
    let instruction = json!({"instruction": "left"});
    match path {
        "/v1/tokens" => (vec![], "", json!({"name": "ci", "scopes": ["read"]})),
        "/v1/logins" => (vec![], "", json!({"scopes": ["read"], "label": "here"})),
        "/v1/tokens/{name}" => (vec![], "known", Value::Null),
        "/v1/nodes/{id}/drain" => (vec![], "b", Value::Null),
        "/v1/nodes/{id}/activate" => (draining(), "b", Value::Null),
        "/v1/conversations/{id}/move" => (vec![], CONVERSATION, json!({"to": "b"})),
        "/v1/conversations/{id}/lend" => (bound(), CONVERSATION, json!({"loan_id": "l1"})),
        "/v1/conversations/{id}/return" => (lent(at), CONVERSATION, json!({})),
        "/v1/reload" => (vec![], "", Value::Null),
        "/v1/stop" => (vec![], "", json!({"sender": "ann"})),
        "/v1/messages/{id}/redrive" | "/v1/messages/{id}/drop" => {
            (over(OTHER, at), OTHER, Value::Null)
        }
        "/v1/dead/retry" | "/v1/dead/discard" => (over(OTHER, at), "", json!({"all": true})),
        "/v1/messages/{id}/cancel" => (vec![], OTHER, Value::Null),
        "/v1/messages/{id}/steer" | "/v1/tasks/{id}/steer" => {
            (running(OTHER, at), OTHER, instruction)
        }
        "/v1/tasks/{id}/interrupt" => (vec![], TASK, Value::Null),
        "/v1/tasks/{id}/respond" => (asks(FIRST, at), TASK, respond),
        "/v1/tasks/notify-completed" => (over(FIRST, at), "", json!({})),
        "/v1/requests/{id}/decision" => (asks(OTHER, at), ASKED, decision),
        "/a2a/tasks/{id}" => (given(OTHER, at), "e1:cancel?A2A-Version=1.0", Value::Null),
        other => panic!("{other} promises an entry in the audit: say here where it acts"),
    }
}

async fn newest_act(service: &TestService) -> AuditEntry {
    let acts = service.ledger().read(|rows| rows.audit(1)).await.unwrap();
    acts.into_iter().next().unwrap()
}

#[tokio::test(start_paused = true)]
async fn threat_28_audited_routes_record_their_action() {
    let mut tried = 0;
    for route in Api::<TestService>::routes() {
        let words = match route.trace {
            Trace::Audit(words) | Trace::RowOrAudit(words) => words,
            Trace::Nothing | Trace::Row => continue,
        };
        // Their callers are sessions: see `sessions`.
        if route.path == "/v1/session" || route.path.starts_with("/v1/push") {
            continue;
        }
        let service = TestService::of_fleet();
        let router = service.router();
        begin(&service, "ann").await;
        service.receives(OTHER).await;
        service.knows("known").await;
        let (rows, id, body) = scene(route.path, service.now());
        service.does(Put(rows)).await.unwrap();
        let path = route.path.replace("{id}", id).replace("{name}", id);
        let method = match route.verb {
            Verb::Post => Method::POST,
            Verb::Delete => Method::DELETE,
            Verb::Get | Verb::Any => panic!("{path} does not act"),
        };
        let request = Request::builder()
            .method(method)
            .uri(&path)
            .header("Content-Type", "application/json")
            .body(Body::from(body.to_string()))
            .unwrap();
        let response = tower::ServiceExt::oneshot(router, request).await.unwrap();
        assert!(response.status().is_success(), "{path}: {response:?}");
        let act = newest_act(&service).await;
        assert_eq!(act.actor, "local owner", "{path}: {act:?}");
        assert!(words.contains(&act.what.as_str()), "{path}: {act:?}");
        tried += 1;
    }
    assert!(tried > 10, "{tried}");
}
