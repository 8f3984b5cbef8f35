//! The whole way, against scripted agents on loopback: they answer their calls one after the other and remember them.

use super::*;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State as Shared;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use futures_util::{StreamExt, stream};
use reqwest::{StatusCode, Url};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What the agent does with one call.
enum Answer {
    Json(Value),
    /// A stream that ends.
    Sse(Vec<Value>),
    /// A stream that breaks.
    Cut(Vec<Value>),
    Status(u16),
    Redirect(String),
}

#[derive(Clone, Debug)]
struct Seen {
    what: String,
    headers: HeaderMap,
    body: Value,
}

#[derive(Default)]
struct Book {
    card: Value,
    /// So many times there is no card yet.
    away: u32,
    answers: VecDeque<Answer>,
    seen: Vec<Seen>,
}

#[derive(Clone)]
struct Agent {
    book: Arc<Mutex<Book>>,
    url: String,
}

async fn serve(
    Shared(book): Shared<Arc<Mutex<Book>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut book = book.lock().unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    if uri.path().contains("well-known") && book.away > 0 {
        book.away -= 1;
        let soon = [("retry-after", "0")];
        return (StatusCode::SERVICE_UNAVAILABLE, soon).into_response();
    }
    if uri.path().contains("well-known") {
        return if uri.path().starts_with("/.well-known/") {
            axum::Json(book.card.clone()).into_response()
        } else {
            StatusCode::NOT_FOUND.into_response()
        };
    }
    let named = body["method"].as_str().map(str::to_owned);
    let what = named.unwrap_or_else(|| format!("{method} {}", uri.path()));
    book.seen.push(Seen {
        what,
        headers,
        body,
    });
    match book.answers.pop_front() {
        Some(Answer::Json(value)) => axum::Json(value).into_response(),
        Some(Answer::Sse(events)) => sse(events, false),
        Some(Answer::Cut(events)) => sse(events, true),
        Some(Answer::Status(code)) => StatusCode::from_u16(code).unwrap().into_response(),
        Some(Answer::Redirect(to)) => Redirect::temporary(&to).into_response(),
        None => StatusCode::IM_A_TEAPOT.into_response(),
    }
}

fn sse(events: Vec<Value>, cut: bool) -> Response {
    let event = |event: Value| Ok(Bytes::from(format!(": alive\n\ndata: {event}\n\n")));
    let mut pieces: Vec<io::Result<Bytes>> = events.into_iter().map(event).collect();
    if cut {
        pieces.push(Err(io::Error::other("cut")));
    }
    // What was said before the break is on its way by then.
    let one_by_one = stream::iter(pieces).then(async |piece| {
        tokio::task::yield_now().await;
        piece
    });
    let body = Body::from_stream(one_by_one);
    ([("content-type", "text/event-stream")], body).into_response()
}

impl Agent {
    async fn start(card: impl FnOnce(&str) -> Value, answers: Vec<Answer>) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let book = Arc::new(Mutex::new(Book {
            card: card(&url),
            away: 0,
            answers: answers.into(),
            seen: Vec::new(),
        }));
        let app = Router::new().fallback(serve).with_state(Arc::clone(&book));
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { book, url }
    }

    fn client(&self) -> AgentClient {
        let trust = Trust {
            own: true,
            listed: Vec::new(),
        };
        AgentClient::new(&format!("{}/agent", self.url), &trust, None).unwrap()
    }

    async fn peer(&self) -> Result<RemoteAgent, AgentCallError> {
        self.client().look_up().await
    }

    async fn ask(&self) -> Result<AgentAnswer, AgentCallError> {
        let mut ask = RemoteCall::new(self.peer().await?, question());
        ask.run(AnswerWait::For(Duration::from_secs(60)), &mut |_| {})
            .await
    }

    fn seen(&self) -> Vec<Seen> {
        self.book.lock().unwrap().seen.clone()
    }

    fn calls(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.what).collect()
    }
}

fn question() -> AgentQuestion {
    AgentQuestion {
        hops: 2,
        context: Some("c".to_owned()),
        ..AgentQuestion::new("hi", "m-1")
    }
}

fn rpc1(streaming: bool) -> impl FnOnce(&str) -> Value {
    move |url| {
        json!({"name": "b", "version": "1", "capabilities": {"streaming": streaming, "extensions": [{"uri": IDEMPOTENCY}]},
            "supportedInterfaces": [{"url": format!("{url}/a2a"), "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]})
    }
}

fn result(value: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "result": value})
}

fn task(state: &str, text: &str) -> Value {
    json!({"id": "t", "contextId": "c", "status": {"state": state},
        "artifacts": [{"artifactId": "a", "parts": [{"text": text}]}]})
}

fn shown(state: &str, text: &str) -> Value {
    result(json!({ "task": task(state, text) }))
}

fn piece(text: &str) -> Value {
    result(
        json!({"artifactUpdate": {"taskId": "t", "contextId": "c", "append": true,
        "artifact": {"artifactId": "a", "parts": [{"text": text}]}}}),
    )
}

fn stands(state: &str) -> Value {
    result(json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": state}}}))
}

#[tokio::test]
async fn streamed_chunks_form_one_answer() {
    let events = vec![
        shown("TASK_STATE_WORKING", ""),
        piece("one "),
        piece("two"),
        stands("TASK_STATE_COMPLETED"),
    ];
    let agent = Agent::start(rpc1(true), vec![Answer::Sse(events)]).await;
    let outcome = agent.ask().await.unwrap();
    assert_eq!(
        (outcome.state, outcome.text.as_str()),
        (AgentTaskState::Completed, "one two")
    );
    assert_eq!(outcome.task.as_deref(), Some("t"));
    assert_eq!(agent.calls(), ["SendStreamingMessage"]);
    let seen = &agent.seen()[0];
    let message = &seen.body["params"]["message"];
    assert_eq!(message["messageId"], "m-1");
    assert_eq!(message["metadata"][HOPS_KEY], 2);
    assert_eq!(message["metadata"][IDEMPOTENCY], "m-1");
    assert_eq!(seen.headers["a2a-version"], "1.0");
}

#[tokio::test]
async fn lost_stream_is_resumed_without_duplicates() {
    let agent = Agent::start(
        rpc1(true),
        vec![
            Answer::Cut(vec![shown("TASK_STATE_WORKING", ""), piece("one ")]),
            Answer::Sse(vec![
                shown("TASK_STATE_WORKING", "one two "),
                piece("three"),
                stands("TASK_STATE_COMPLETED"),
            ]),
            Answer::Json(result(task("TASK_STATE_COMPLETED", "one two three"))),
        ],
    )
    .await;
    assert_eq!(agent.ask().await.unwrap().text, "one two three");
    assert_eq!(
        agent.calls(),
        ["SendStreamingMessage", "SubscribeToTask", "GetTask"]
    );
}

#[tokio::test]
async fn retries_cut_request_only_if_idempotent() {
    let answers = || {
        vec![
            Answer::Cut(Vec::new()),
            Answer::Sse(vec![shown("TASK_STATE_COMPLETED", "done")]),
        ]
    };
    let agent = Agent::start(rpc1(true), answers()).await;
    assert_eq!(agent.ask().await.unwrap().text, "done");
    let ids: Vec<Value> = agent
        .seen()
        .iter()
        .map(|seen| seen.body["params"]["message"]["messageId"].clone())
        .collect();
    assert_eq!(ids, ["m-1", "m-1"]);
    // Without the promise of the card it is not.
    let plain = |url: &str| {
        let mut card = rpc1(true)(url);
        card["capabilities"]["extensions"] = json!([]);
        card
    };
    let agent = Agent::start(plain, answers()).await;
    assert!(matches!(agent.ask().await, Err(AgentCallError::Broken(_))));
    assert_eq!(agent.calls(), ["SendStreamingMessage"]);
}

#[tokio::test]
async fn non_streaming_agent_is_polled() {
    let rest = |url: &str| {
        json!({"name": "b", "supportedInterfaces":
            [{"url": format!("{url}/rest"), "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}]})
    };
    let agent = Agent::start(
        rest,
        vec![
            Answer::Json(json!({"task": task("TASK_STATE_SUBMITTED", "")})),
            Answer::Status(503),
            Answer::Json(task("TASK_STATE_COMPLETED", "found")),
        ],
    )
    .await;
    assert_eq!(agent.ask().await.unwrap().text, "found");
    assert_eq!(
        agent.calls(),
        [
            "POST /rest/message:send",
            "GET /rest/tasks/t",
            "GET /rest/tasks/t"
        ]
    );
    let first = &agent.seen()[0];
    assert_eq!(first.body["configuration"]["returnImmediately"], true);
    assert_eq!(first.headers["content-type"], "application/a2a+json");
}

#[tokio::test]
async fn supports_legacy_protocol_version() {
    let old = |url: &str| json!({"name": "b", "url": format!("{url}/old"), "protocolVersion": "0.3.0", "capabilities": {}});
    let reply = json!({"kind": "message", "messageId": "x", "role": "agent", "contextId": "c9",
        "parts": [{"kind": "text", "text": "old words"}, {"kind": "file", "file": {"uri": "https://f.example/1", "name": "f"}}]});
    let agent = Agent::start(old, vec![Answer::Json(result(reply))]).await;
    let outcome = agent.ask().await.unwrap();
    assert_eq!(outcome.text, "old words");
    assert_eq!(outcome.context.as_deref(), Some("c9"));
    assert_eq!(
        outcome.files[0].place,
        FileLocation::Url("https://f.example/1".to_owned())
    );
    assert_eq!(agent.calls(), ["message/send"]);
    assert_eq!(agent.seen()[0].headers["a2a-version"], "0.3");
}

#[tokio::test]
async fn input_required_is_reported() {
    let asks = json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_INPUT_REQUIRED",
        "message": {"messageId": "q", "role": "ROLE_AGENT", "parts": [{"text": "which one?"}]}}}});
    let answer = Answer::Sse(vec![shown("TASK_STATE_WORKING", ""), result(asks)]);
    let agent = Agent::start(rpc1(true), vec![answer]).await;
    let outcome = agent.ask().await.unwrap();
    assert_eq!(outcome.state, AgentTaskState::InputRequired);
    assert_eq!(outcome.remark.as_deref(), Some("which one?"));
}

#[tokio::test]
async fn auth_required_is_awaited_on_request() {
    let answers = || {
        let waits = vec![
            shown("TASK_STATE_WORKING", ""),
            stands("TASK_STATE_AUTH_REQUIRED"),
        ];
        vec![
            Answer::Sse(waits.clone()),
            Answer::Sse(waits),
            Answer::Json(result(task("TASK_STATE_COMPLETED", "allowed"))),
        ]
    };
    let agent = Agent::start(rpc1(true), answers()).await;
    assert_eq!(
        agent.ask().await.unwrap().state,
        AgentTaskState::AuthRequired
    );
    assert_eq!(agent.calls(), ["SendStreamingMessage"]);
    let agent = Agent::start(rpc1(true), answers()).await;
    let mut ask = RemoteCall::new(agent.peer().await.unwrap(), question());
    let patience = AnswerWait::Through(Duration::from_secs(60));
    let outcome = ask.run(patience, &mut |_| {}).await.unwrap();
    assert_eq!(
        (outcome.state, outcome.text.as_str()),
        (AgentTaskState::Completed, "allowed")
    );
    assert_eq!(
        agent.calls(),
        ["SendStreamingMessage", "SubscribeToTask", "GetTask"]
    );
}

#[tokio::test]
async fn discovery_retries_unavailable_agent() {
    let agent = Agent::start(rpc1(true), Vec::new()).await;
    let away = |times| agent.book.lock().unwrap().away = times;
    away(1);
    let refused = agent.peer().await;
    assert!(
        matches!(refused, Err(AgentCallError::Refused { .. })),
        "{refused:?}"
    );
    away(4);
    assert_eq!(agent.client().insist().await.unwrap().name(), "b");
    away(9);
    assert!(agent.client().insist().await.is_err());
    assert_eq!(agent.book.lock().unwrap().away, 4);
}

/// An agent that takes every call and answers with this, and hangs up.
async fn hangs_up(answer: &'static str) -> AgentClient {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut call, _)) = listener.accept().await {
            let _head = call.read(&mut [0; 4096]).await;
            let _gone = call.write_all(answer.as_bytes()).await;
        }
    });
    let own = Trust {
        own: true,
        listed: Vec::new(),
    };
    AgentClient::new(&url, &own, None).unwrap()
}

#[tokio::test]
async fn f10_lost_card_call_sent_no_message() {
    let cut = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{";
    for answer in ["", cut] {
        let error = hangs_up(answer).await.look_up().await.unwrap_err();
        assert!(matches!(error, AgentCallError::Unreached(_)), "{error:?}");
        let said = error.to_string();
        assert!(said.contains("it has not received the message"), "{said}");
    }
}

#[tokio::test]
async fn cancel_ends_the_remote_task() {
    let agent = Agent::start(
        rpc1(true),
        vec![
            Answer::Json(shown("TASK_STATE_WORKING", "")),
            Answer::Json(result(task("TASK_STATE_CANCELED", ""))),
        ],
    )
    .await;
    let mut ask = RemoteCall::new(agent.peer().await.unwrap(), question());
    ask.cancel().await.unwrap();
    assert_eq!(agent.calls(), ["SendMessage", "CancelTask"]);
    assert_eq!(agent.seen()[1].body["params"]["id"], "t");
}

#[tokio::test]
async fn threat_17_rejects_redirects_and_private_addresses() {
    let target = Agent::start(rpc1(true), Vec::new()).await;
    let to = format!("{}/a2a", target.url);
    let agent = Agent::start(rpc1(false), vec![Answer::Redirect(to)]).await;
    assert!(matches!(
        agent.ask().await,
        Err(AgentCallError::Refused { .. })
    ));
    assert_eq!(target.calls(), Vec::<String>::new());
    let strangers = AgentClient::new(&agent.url, &Trust::default(), None);
    assert!(
        matches!(strangers, Err(AgentCallError::Address(_))),
        "{strangers:?}"
    );
    let https = agent.url.replace("http:", "https:");
    let literal = AgentClient::new(&https, &Trust::default(), None);
    assert!(
        matches!(literal, Err(AgentCallError::Address(_))),
        "{literal:?}"
    );
}

fn token_file(dir: &tempfile::TempDir, token: &str) -> PathBuf {
    let file = dir.path().join("token");
    std::fs::write(&file, format!("{token}\n")).unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    file
}

/// Whom else the operator lists is no friend of this agent for that.
#[tokio::test]
async fn token_is_limited_to_configured_origin() {
    let dir = tempfile::tempdir().unwrap();
    let file = token_file(&dir, "s3cret-s3cret");
    let other = Agent::start(rpc1(true), Vec::new()).await;
    let agent = Agent::start(|_| rpc1(true)(&other.url), Vec::new()).await;
    let trust = Trust {
        own: true,
        listed: vec![Url::parse(&other.url).unwrap()],
    };
    let client = AgentClient::new(&agent.url, &trust, Some(file)).unwrap();
    let refused = client.look_up().await.unwrap_err();
    assert!(matches!(refused, AgentCallError::Token(_)), "{refused}");
    assert!(refused.to_string().contains(&other.url), "{refused}");
    // Without a token there is nothing to lose.
    let client = AgentClient::new(&agent.url, &trust, None).unwrap();
    assert!(client.look_up().await.is_ok());
    assert!(other.seen().is_empty());
}

#[tokio::test]
async fn quoted_token_is_redacted_from_errors() {
    let dir = tempfile::tempdir().unwrap();
    let file = token_file(&dir, "s3cret-s3cret");
    let quotes = |streams: bool| {
        let said = format!("{}Bearer s3cret-s3cret is no good", "x".repeat(485));
        let error = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": said}});
        if streams {
            Answer::Sse(vec![error])
        } else {
            Answer::Json(error)
        }
    };
    let trust = Trust {
        own: true,
        listed: Vec::new(),
    };
    for streams in [true, false] {
        let agent = Agent::start(rpc1(streams), vec![quotes(streams)]).await;
        let client = AgentClient::new(&agent.url, &trust, Some(file.clone())).unwrap();
        let mut ask = RemoteCall::new(client.look_up().await.unwrap(), question());
        let patience = AnswerWait::For(Duration::from_secs(60));
        let refused = ask.run(patience, &mut |_| {}).await.unwrap_err();
        assert!(
            matches!(refused, AgentCallError::Refused { .. }),
            "{refused}"
        );
        assert!(!refused.to_string().contains("s3c"), "{refused}");
    }
}

#[tokio::test]
async fn token_is_sent_but_never_exposed() {
    let dir = tempfile::tempdir().unwrap();
    let file = token_file(&dir, "s3cret");
    let mode = |mode| {
        std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
    };
    let own = Trust {
        own: true,
        listed: Vec::new(),
    };
    let done = Answer::Sse(vec![shown("TASK_STATE_COMPLETED", "ok")]);
    let agent = Agent::start(rpc1(true), vec![done]).await;
    let client = AgentClient::new(&agent.url, &own, Some(file.clone())).unwrap();
    mode(0o644);
    let open = client.look_up().await.unwrap_err();
    assert!(open.to_string().contains("chmod 600"), "{open}");
    mode(0o600);
    let peer = client.look_up().await.unwrap();
    assert!(!format!("{client:?} {peer:?}").contains("s3cret"));
    let mut ask = RemoteCall::new(peer, question());
    let patience = AnswerWait::For(Duration::from_secs(60));
    ask.run(patience, &mut |_| {}).await.unwrap();
    assert_eq!(agent.seen()[0].headers["authorization"], "Bearer s3cret");
    let clear = AgentClient::new("http://agents.example/", &own, Some(file.clone())).unwrap();
    let refused = clear.look_up().await.unwrap_err();
    assert!(refused.to_string().contains("in the clear"), "{refused}");
    let listed = Trust {
        own: true,
        listed: vec![Url::parse("http://127.0.0.1:9").unwrap()],
    };
    assert!(AgentClient::new("http://127.0.0.1:9/", &listed, Some(file)).is_ok());
}
