//! A2A over a ledger in memory: two peers with tokens, and a Codex whose answers tests write down.

mod card;
mod errors;
mod files;
mod lists;
mod pushes;
mod questions;
mod sending;
mod streams;

use crate::audit::becomes;
use crate::service::{Put, TestService};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use bridge_core::port::{Change, Ledger};
use bridge_core::value::{
    Answer, AnswerSource, Attachment, MessageId, MessageState, Reply, ReplyKey, ReplyKind,
    ReplyState, Seq,
};
use bridge_front::api::{Api, Hosts, Listener};
use bridge_front::{BridgeService, LiveUpdate};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

const HOST: &str = "127.0.0.1:4141";
const BODY_MAX: usize = 16 * 1024 * 1024;

#[derive(Clone)]
pub(super) struct World {
    pub(super) service: TestService,
    pub(super) router: Router,
    /// The owner's own way in.
    pub(super) local: Router,
}

/// What came back.
pub(super) struct Answered {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
}

impl Answered {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }
}

impl World {
    pub(super) async fn new() -> Self {
        let service = TestService::new();
        for peer in ["ann", "bob"] {
            service.knows_peer(peer).await;
        }
        service.knows("reader").await;
        let api = Api::new(service.clone(), CancellationToken::new());
        let router = api.router(Listener::Tcp {
            hosts: Arc::new(Hosts::new(4141, &[], None).unwrap()),
            proxied: false,
        });
        let local = api.router(Listener::Local);
        Self {
            service,
            router,
            local,
        }
    }

    pub(super) async fn call(
        &self,
        request: axum::http::request::Builder,
        body: String,
    ) -> Answered {
        let request = request.body(Body::from(body)).unwrap();
        let response = tower::ServiceExt::oneshot(self.router.clone(), request).await;
        let (head, body) = response.unwrap().into_parts();
        let bytes = to_bytes(body, BODY_MAX).await.unwrap();
        Answered {
            status: head.status,
            headers: head.headers,
            text: String::from_utf8(bytes.into()).unwrap(),
        }
    }

    /// JSON-RPC: the whole answer.
    pub(super) async fn rpc(&self, who: &str, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let answered = self.call(post(who, "/a2a/"), body.to_string()).await;
        assert_eq!(answered.status, StatusCode::OK);
        assert_eq!(answered.header("content-type"), "application/json");
        let answer = answered.json();
        assert_eq!(answer["id"], 7);
        answer
    }

    /// HTTP+JSON.
    pub(super) async fn rest(&self, who: &str, verb: &str, path: &str, body: &Value) -> Answered {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        self.call(by(who, verb, path), body).await
    }

    /// Sends without waiting for the end; the task.
    pub(super) async fn gives(&self, who: &str, message: Value) -> Value {
        let params = json!({
            "message": message, "configuration": {"returnImmediately": true},
        });
        let answer = self.rpc(who, "SendMessage", params).await;
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"]["task"].clone()
    }

    pub(super) async fn task(&self, who: &str, id: &str) -> Value {
        let answer = self.rpc(who, "GetTask", json!({"id": id})).await;
        answer["result"].clone()
    }

    /// Codex answers a message.
    pub(super) async fn answers(&self, id: &str, text: &str) {
        self.answers_with(id, text, Vec::new()).await;
    }

    pub(super) async fn answers_with(&self, id: &str, text: &str, files: Vec<Attachment>) {
        self.service.pass_ms(10);
        let (message_id, now) = (MessageId::new(id), self.service.now());
        let wanted = message_id.clone();
        let message = self
            .service
            .ledger()
            .read(move |rows| rows.message(&wanted));
        let message = message.await.unwrap().unwrap();
        let answer = Answer {
            message_id: message_id.clone(),
            attempt: 1,
            source: AnswerSource::Live,
            text: text.to_owned(),
            created_at: now,
        };
        let reply = Reply {
            message_id: message_id.clone(),
            ordinal: 0,
            conversation_id: message.conversation_id,
            seq: Seq(message.seq.0),
            key: ReplyKey::new(format!("{id}-0")),
            kind: ReplyKind::Answer,
            body: text.to_owned(),
            attachments: files,
            state: ReplyState::Queued { not_before: None },
            tries: 0,
            first_try_at: None,
            created_at: now,
        };
        let rows = vec![
            becomes(id, MessageState::Answered, now),
            Change::NewAnswer(answer),
            Change::NewReply(reply),
        ];
        self.service.does(Put(rows)).await.unwrap();
        self.service.hub().publish(&message_id, LiveUpdate::Changed);
    }
}

pub(super) fn by(who: &str, verb: &str, path: &str) -> axum::http::request::Builder {
    Request::builder()
        .method(verb)
        .uri(path)
        .header("Host", HOST)
        .header("Authorization", format!("Bearer {who}"))
        .header("A2A-Version", "1.0")
        .header("Content-Type", "application/json")
}

fn post(who: &str, path: &str) -> axum::http::request::Builder {
    by(who, "POST", path)
}

/// A message as a client says it.
pub(super) fn says(text: &str) -> Value {
    json!({"messageId": "mine", "role": "ROLE_USER", "parts": [{"text": text}]})
}

/// The next message of a task.
pub(super) fn says_in(task: &str, text: &str) -> Value {
    let mut message = says(text);
    message["taskId"] = task.into();
    message
}

pub(super) fn state(task: &Value) -> &str {
    let state = task["status"]["state"].as_str().unwrap();
    state.strip_prefix("TASK_STATE_").unwrap()
}
