//! Nodes of a fleet: how they are listed, drained, and given conversations.

use crate::audit::{becomes, running};
use crate::service::{LEASE_MS, Put, TestService};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode};
use bridge_core::port::{Change, FleetChange, Ledger};
use bridge_core::value::{
    ConversationId, Home, MessageId, MessageState, NodeId, NodeState, Reply, ReplyKey, ReplyKind,
    ReplyState, Seq,
};
use bridge_front::api::{Api, Hosts, Listener};
use bridge_front::{
    BridgeService, ConversationStory, MoveView, NodeActView, NodeList, NodeView, Problem,
    StatusView, StoryView,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

const MESSAGE: &str = "m1-of-ann";
const MOVE: &str = "/v1/conversations/m1-of-ann/move";

pub(crate) async fn call<T: DeserializeOwned>(
    service: &TestService,
    method: Method,
    path: &str,
    body: Value,
) -> (StatusCode, T) {
    call_at(&service.router(), method, path, body).await
}

pub(crate) async fn call_at<T: DeserializeOwned>(
    router: &Router,
    method: Method,
    path: &str,
    body: Value,
) -> (StatusCode, T) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("Content-Type", "application/json")
        .body(Body::from(body.to_string()))
        .unwrap();
    let response = tower::ServiceExt::oneshot(router.clone(), request)
        .await
        .unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    let read = serde_json::from_slice(&body);
    let text = String::from_utf8_lossy(&body);
    (
        status,
        read.unwrap_or_else(|error| panic!("{error}: {text}")),
    )
}

pub(crate) async fn get<T: DeserializeOwned>(service: &TestService, path: &str) -> T {
    let (status, found) = call(service, Method::GET, path, Value::Null).await;
    assert_eq!(status, StatusCode::OK, "{path}");
    found
}

async fn nodes(service: &TestService) -> Vec<NodeView> {
    get::<NodeList>(service, "/v1/nodes").await.nodes
}

async fn acts(service: &TestService, path: &str) -> NodeActView {
    let (status, done) = call(service, Method::POST, path, Value::Null).await;
    assert_eq!(status, StatusCode::OK, "{path}");
    done
}

/// What a call that is refused says.
async fn refused(service: &TestService, path: &str, body: Value) -> (u16, String) {
    let (status, problem): (_, Problem) = call(service, Method::POST, path, body).await;
    assert!(status.is_client_error(), "{path}: {status}");
    (problem.status, problem.detail)
}

fn to(node: &str) -> Value {
    json!({ "to": node })
}

/// The message is in a conversation of this node.
async fn is_with(service: &TestService, node: &str) {
    service.receives(MESSAGE).await;
    let home = Change::Fleet(FleetChange::Home {
        from: None,
        to: Home {
            conversation_id: ConversationId::new("c-m1-of-ann"),
            node_id: Some(NodeId::new(node)),
            generation: 1,
            since: service.now(),
        },
    });
    service.does(Put(vec![home])).await.unwrap();
}

async fn works(service: &TestService) {
    let rows = running(MESSAGE, service.now());
    service.does(Put(rows)).await.unwrap();
}

async fn becomes_state(service: &TestService, node: &str, to: NodeState) {
    let change = Change::Fleet(FleetChange::NodeState {
        node_id: NodeId::new(node),
        from: NodeState::Active,
        to,
    });
    service.does(Put(vec![change])).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn nodes_are_listed_with_their_load() {
    let service = TestService::of_fleet();
    is_with(&service, "b").await;
    works(&service).await;
    let nodes = nodes(&service).await;
    let ids: Vec<_> = nodes.iter().map(|node| node.node_id.as_str()).collect();
    assert_eq!(ids, ["a", "b"]);
    assert!(nodes[0].answers && !nodes[1].answers);
    assert_eq!((nodes[0].turns, nodes[0].conversations), (0, 0));
    assert_eq!((nodes[1].turns, nodes[1].conversations), (1, 1));
    for node in &nodes {
        assert_eq!((node.state.as_str(), node.capacity), ("active", 4));
        assert_eq!(node.version, "1.2.3");
        assert_eq!(node.codex_version, "0.150.0");
        assert_eq!((node.lease_ms, node.gone_at), (Some(LEASE_MS), None));
        assert_eq!(node.reads, Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn lapsed_nodes_are_gone() {
    let service = TestService::of_fleet();
    let began = service.now();
    service.loses_others().await;
    let nodes = nodes(&service).await;
    let [a, b] = nodes.as_slice() else {
        panic!("{nodes:?}");
    };
    assert_eq!(
        (a.state.as_str(), a.lease_ms),
        ("active", Some(LEASE_MS - 1))
    );
    assert_eq!((b.state.as_str(), b.lease_ms), ("gone", None));
    assert_eq!(b.gone_at, Some(began.plus_ms(LEASE_MS).into()));
    becomes_state(&service, "b", NodeState::Left).await;
    let left = get::<NodeList>(&service, "/v1/nodes").await.nodes;
    assert_eq!(left[1].state, "left");
    let status: StatusView = get(&service, "/v1/status").await;
    assert_eq!(status.nodes.map(|nodes| nodes.len()), Some(1));
}

#[tokio::test(start_paused = true)]
async fn one_daemon_shows_no_nodes() {
    let service = TestService::new();
    service.receives(MESSAGE).await;
    assert!(nodes(&service).await.is_empty());
    let status: Value = get(&service, "/v1/status").await;
    assert_eq!(status.get("nodes"), None);
    let story: Value = get(&service, "/v1/conversations/c-m1-of-ann").await;
    assert_eq!(story.get("node"), None);
    assert_eq!(story["messages"][0].get("node"), None);
    for (path, body) in [
        ("/v1/nodes/a/drain", Value::Null),
        ("/v1/nodes/a/activate", Value::Null),
        (MOVE, to("b")),
    ] {
        let said = refused(&service, path, body).await;
        let single = "this daemon has the database for itself; there are no other nodes";
        assert_eq!(said, (409, single.to_owned()), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn views_name_the_node() {
    let service = TestService::of_fleet();
    is_with(&service, "b").await;
    let story: ConversationStory = get(&service, "/v1/conversations/c-m1-of-ann").await;
    assert_eq!(story.conversation.node.as_deref(), Some("b"));
    let message: StoryView = get(&service, "/v1/messages/m1-of-ann").await;
    assert_eq!(message.message.node.as_deref(), Some("b"));
    let list: Value = get(&service, "/v1/conversations").await;
    assert_eq!(list["conversations"][0]["node"], "b");
    let status: StatusView = get(&service, "/v1/status").await;
    let nodes = status.nodes.unwrap();
    assert_eq!(nodes[1].conversations, 1);
}

#[tokio::test(start_paused = true)]
async fn draining_is_said_and_undone() {
    let service = TestService::of_fleet();
    is_with(&service, "b").await;
    works(&service).await;
    let done = acts(&service, "/v1/nodes/b/drain").await;
    assert_eq!(
        (done.node_id.as_str(), done.outcome.as_str()),
        ("b", "draining")
    );
    assert_eq!(
        done.detail,
        "it takes nothing new, finishes the turn that runs, hands its conversations over and leaves"
    );
    assert_eq!(nodes(&service).await[1].state, "draining");
    let again = acts(&service, "/v1/nodes/b/drain").await;
    assert_eq!(again.detail, "it was draining before");
    let last = acts(&service, "/v1/nodes/a/drain").await;
    let alone = "hands its conversations over and leaves; no other node is active, so new messages wait until one is";
    assert!(last.detail.ends_with(alone), "{}", last.detail);
    for said in ["it takes new work again", "it was active before"] {
        let done = acts(&service, "/v1/nodes/b/activate").await;
        assert_eq!(
            (done.outcome.as_str(), done.detail.as_str()),
            ("active", said)
        );
    }
    let acts = service.ledger().read(|rows| rows.audit(9)).await.unwrap();
    let acts: Vec<_> = acts
        .iter()
        .map(|act| (act.what.as_str(), act.subject.as_str()))
        .collect();
    assert_eq!(
        acts,
        [
            ("node-activate", "b"),
            ("node-drain", "a"),
            ("node-drain", "b")
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn absent_nodes_are_not_drained() {
    let service = TestService::of_fleet();
    let (status, said) = refused(&service, "/v1/nodes/x/drain", Value::Null).await;
    assert_eq!(status, 404);
    assert_eq!(
        said,
        "there is no node x; `codex-bridge node list` shows them"
    );
    service.loses_others().await;
    let (status, said) = refused(&service, "/v1/nodes/b/drain", Value::Null).await;
    assert_eq!(status, 409);
    assert!(
        said.starts_with("node b is gone: its lease has ended"),
        "{said}"
    );
    becomes_state(&service, "b", NodeState::Left).await;
    let (status, said) = refused(&service, "/v1/nodes/b/activate", Value::Null).await;
    assert_eq!(status, 409);
    assert!(said.starts_with("node b has left"), "{said}");
    let acts = service.ledger().read(|rows| rows.audit(9)).await.unwrap();
    assert!(acts.is_empty(), "{acts:?}");
}

#[tokio::test(start_paused = true)]
async fn idle_conversations_move_once() {
    let service = TestService::of_fleet();
    is_with(&service, "a").await;
    for (path, outcome, detail) in [
        (MOVE, "moved", "node b works on what comes next in it"),
        (
            "/v1/conversations/c-m1-of-ann/move",
            "there",
            "it was with node b before",
        ),
    ] {
        let (status, done): (_, MoveView) = call(&service, Method::POST, path, to("b")).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(
            (done.outcome.as_str(), done.detail.as_str()),
            (outcome, detail)
        );
        assert_eq!((done.key.as_str(), done.node.as_str()), (MESSAGE, "b"));
        assert_eq!(done.conversation_id, "c-m1-of-ann");
    }
    let acts = service.ledger().read(|rows| rows.audit(9)).await.unwrap();
    assert_eq!(acts.len(), 1);
    assert_eq!(
        (acts[0].actor.as_str(), acts[0].what.as_str()),
        ("local owner", "move")
    );
    let (status, said) = refused(&service, "/v1/conversations/nothing/move", to("a")).await;
    assert_eq!(
        (status, said.as_str()),
        (404, "there is no such conversation")
    );
}

#[tokio::test(start_paused = true)]
async fn busy_conversations_name_their_message() {
    let service = TestService::of_fleet();
    is_with(&service, "a").await;
    works(&service).await;
    let (status, problem): (_, Problem) = call(&service, Method::POST, MOVE, to("b")).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert_eq!(
        problem.detail,
        "m1-of-ann was not moved: message 1-of-ann in it is working; wait until it is answered, or `codex-bridge stop 1-of-ann`"
    );
    assert_eq!(problem.message_id.as_deref(), Some(MESSAGE));
    assert_eq!(problem.state.as_deref(), Some("running"));
}

#[tokio::test(start_paused = true)]
async fn unsent_replies_keep_a_conversation() {
    let service = TestService::of_fleet();
    is_with(&service, "a").await;
    let (message_id, now) = (MessageId::new(MESSAGE), service.now());
    let reason = "broken".to_owned();
    let reply = Change::NewReply(Reply {
        key: ReplyKey::of(&message_id, 0),
        message_id,
        ordinal: 0,
        conversation_id: ConversationId::new("c-m1-of-ann"),
        seq: Seq(1),
        kind: ReplyKind::Notice,
        body: "it failed".to_owned(),
        attachments: Vec::new(),
        state: ReplyState::Queued { not_before: None },
        tries: 0,
        first_try_at: None,
        created_at: now,
    });
    let dead = becomes(MESSAGE, MessageState::Dead { reason }, now);
    service.does(Put(vec![dead, reply])).await.unwrap();
    let (status, said) = refused(&service, MOVE, to("b")).await;
    assert_eq!(status, 409);
    assert_eq!(
        said,
        "m1-of-ann was not moved: a reply in it is being sent; ask again when that is done"
    );
}

#[tokio::test(start_paused = true)]
async fn unfit_nodes_get_no_conversation() {
    let service = TestService::of_fleet();
    is_with(&service, "a").await;
    let (status, said) = refused(&service, MOVE, to("x")).await;
    assert_eq!(status, 422);
    assert_eq!(
        said,
        "there is no node x; `codex-bridge node list` shows them"
    );
    becomes_state(&service, "b", NodeState::Draining).await;
    let (status, said) = refused(&service, MOVE, to("b")).await;
    assert_eq!(status, 409);
    assert_eq!(
        said,
        "node b is draining and takes nothing new; `codex-bridge node activate b` undoes that"
    );
    service.loses_others().await;
    let (status, said) = refused(&service, MOVE, to("b")).await;
    assert_eq!(status, 409);
    assert!(said.starts_with("node b is gone"), "{said}");
    let left = Change::Fleet(FleetChange::NodeState {
        node_id: NodeId::new("b"),
        from: NodeState::Draining,
        to: NodeState::Left,
    });
    service.does(Put(vec![left])).await.unwrap();
    let (status, said) = refused(&service, MOVE, to("b")).await;
    assert_eq!(status, 409);
    assert!(said.starts_with("node b has left"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn gone_nodes_give_conversations_up() {
    let service = TestService::of_fleet();
    is_with(&service, "b").await;
    works(&service).await;
    service.loses_others().await;
    let (status, done): (_, MoveView) = call(&service, Method::POST, MOVE, to("a")).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(done.outcome, "moved");
    let message: StoryView = get(&service, "/v1/messages/m1-of-ann").await;
    assert_eq!(message.message.state, "unclear");
    assert_eq!(message.message.node.as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn tokens_need_admin_for_nodes() {
    let service = TestService::of_fleet();
    service.knows("reader").await;
    let listener = Listener::Tcp {
        hosts: Arc::new(Hosts::new(4141, &[], None).unwrap()),
        proxied: false,
    };
    let router = Api::new(service.clone(), CancellationToken::new()).router(listener);
    for (method, path, expected) in [
        (Method::GET, "/v1/nodes", StatusCode::OK),
        (Method::POST, "/v1/nodes/b/drain", StatusCode::FORBIDDEN),
        (Method::POST, "/v1/nodes/b/activate", StatusCode::FORBIDDEN),
        (Method::POST, MOVE, StatusCode::FORBIDDEN),
    ] {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("Host", "127.0.0.1:4141")
            .header("Authorization", "Bearer reader")
            .body(Body::empty())
            .unwrap();
        let response = tower::ServiceExt::oneshot(router.clone(), request).await;
        assert_eq!(response.unwrap().status(), expected, "{path}");
    }
    assert_eq!(nodes(&service).await[1].state, "active");
}
