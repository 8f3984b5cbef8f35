//! The router from outside, over a service without rows: who is refused, and what one caller's trouble costs others.

mod bodies;
mod floods;
mod sessions;

use super::guard::ConnectionPeer;
use super::route::{Access, Route, Trace, Verb};
use super::{Api, Hosts, Listener, route, table};
use crate::control::Scope;
use crate::{
    A2aProfile, BridgeService, Caller, HealthView, Hub, NewAnswer, NewTask, NewTaskInput, Notified,
    PolicyInForce, PushPut, ReloadView, StartError, StopRequest, Stopped, SubmitError,
    SubmitRequest, Submitted, TaskBegun, TierTerms, TokenHash,
};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Method, Request, Response, StatusCode, header};
use bridge_core::port::{Committed, Ledger, LedgerError, Read, RowsError, Steering};
use bridge_core::rules::Policy;
use bridge_core::step::{Claim, Decide, DecideOutcome, InputAccepted, TaskAnswered, Transition};
use bridge_core::value::{
    Actor, ApprovalPolicy, Attachment, ChannelId, Epoch, MessageId, Sandbox, Subscription, Task,
    TaskId, TaskInput, Tier, Timestamp, Token, TokenKind,
};
use std::convert::Infallible;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

const OWNER: &str = "the-owner's-token";
const HOST: &str = "127.0.0.1:4141";

/// A ledger that is away.
#[derive(Clone, Default)]
struct NoLedger;

fn away() -> LedgerError {
    LedgerError::Unavailable {
        what: "there is none".to_owned(),
    }
}

impl Ledger for NoLedger {
    async fn transact<T: Transition>(
        &self,
        _transition: T,
        _now: Timestamp,
    ) -> Result<Committed<T::Outcome>, LedgerError> {
        Err(away())
    }

    async fn read<V, F>(&self, _query: F) -> Result<V, LedgerError>
    where
        V: Send + 'static,
        F: FnOnce(&dyn Read) -> Result<V, RowsError> + Send + 'static,
    {
        Err(away())
    }

    fn epoch(&self) -> Epoch {
        Epoch(1)
    }
}

#[derive(Clone, Default)]
struct EmptyService {
    ledger: NoLedger,
    hub: Hub,
}

impl BridgeService for EmptyService {
    type Ledger = NoLedger;

    fn ledger(&self) -> &NoLedger {
        &self.ledger
    }

    fn hub(&self) -> &Hub {
        &self.hub
    }

    async fn commit<T: Transition>(&self, _: T) -> Result<T::Outcome, LedgerError> {
        Err(away())
    }

    async fn submit(
        &self,
        _message: SubmitRequest,
        _key: &str,
        _from: Caller,
    ) -> Result<Submitted, SubmitError> {
        Err(SubmitError::Stopping)
    }

    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn claim(&self) -> Claim {
        Claim {
            turns_max: 1,
            turns_reserved: 0,
            turns_per_channel: 1,
            per_sender: std::sync::Arc::new(bridge_core::step::TurnsPerSender::UNLIMITED),
            one_writer: Vec::new(),
            readers: Vec::new(),
            budgets: std::sync::Arc::default(),
            leave_written: false,
            now: Timestamp(0),
        }
    }

    fn ledger_bytes(&self) -> Option<u64> {
        None
    }

    async fn stop_sender(&self, _: StopRequest, _: Actor) -> Result<Stopped, LedgerError> {
        Ok(Stopped::default())
    }

    fn random_token(&self) -> Option<String> {
        None
    }

    fn redact(&self, _: &str) {}

    fn steps(&self) -> Vec<(&'static str, u64)> {
        vec![("answer", 3), ("incarnate", 2)]
    }

    async fn decide(&self, _: Decide) -> Result<DecideOutcome, LedgerError> {
        Err(away())
    }

    fn policy(&self) -> PolicyInForce {
        let terms = TierTerms {
            sandbox: Sandbox::ReadOnly,
            approval_policy: ApprovalPolicy::OnRequest,
        };
        PolicyInForce {
            policy: Policy::default(),
            owner: terms,
            peer: terms,
            tool: terms,
            deadline_secs: 600,
        }
    }

    fn tier_of(&self, _: &str, _: Option<&str>) -> Result<Tier, String> {
        Ok(Tier::Tool)
    }

    async fn reload(&self, _: &str) -> ReloadView {
        ReloadView::failed(Timestamp(0), "there is no file".to_owned())
    }

    async fn start_task(&self, _: NewTask) -> Result<TaskBegun, StartError> {
        Err(SubmitError::Stopping.into())
    }

    async fn steer_task(&self, _: &Task, _: String, _: &Caller) -> Result<Steering, SubmitError> {
        Err(SubmitError::Stopping)
    }

    async fn tell(&self, _: MessageId, _: String, _: &str) -> Result<Steering, LedgerError> {
        Err(away())
    }

    async fn notify_task(&self, _: &TaskId, _: &str) -> Result<Notified, LedgerError> {
        Err(away())
    }

    fn a2a(&self) -> A2aProfile {
        A2aProfile::default()
    }

    async fn accept_input(&self, _task: NewTaskInput) -> Result<InputAccepted, SubmitError> {
        Err(SubmitError::Stopping)
    }

    async fn answer_task(&self, _answer: NewAnswer) -> Result<TaskAnswered, LedgerError> {
        Err(unbuilt())
    }

    async fn repeated_input(
        &self,
        _: &Caller,
        _: &TaskId,
        _key: &str,
    ) -> Result<Option<TaskInput>, LedgerError> {
        Err(unbuilt())
    }

    fn talk(&self, from: &Caller, context: &str) -> (ChannelId, String) {
        (ChannelId::new("a2a"), format!("{}/{context}", from.name))
    }

    async fn put_push(&self, _push: Subscription, _by: &str) -> Result<PushPut, LedgerError> {
        Err(unbuilt())
    }

    async fn drop_push(&self, _: &TaskId, _: &str, _by: &str) -> Result<bool, LedgerError> {
        Err(unbuilt())
    }

    fn file_path(&self, file: &Attachment) -> String {
        file.digest.to_string()
    }

    async fn read_file(&self, _file: &Attachment) -> Result<Vec<u8>, String> {
        Err("not built".to_owned())
    }

    async fn health(&self) -> HealthView {
        HealthView {
            ready: true,
            reload: None,
            detail: "ready".to_owned(),
            pid: 1,
            version: "0".to_owned(),
            codex: "none".to_owned(),
            codex_memory: None,
            ledger: None,
            channels: Vec::new(),
        }
    }
}

fn api() -> Api<EmptyService> {
    let api = Api::new(EmptyService::default(), CancellationToken::new());
    let rows = vec![row("owner", OWNER, TokenKind::Bearer)];
    api.context.shared.known.hold(rows);
    api
}

/// A row that may do everything.
fn row(name: &str, presented: &str, kind: TokenKind) -> Token {
    Token {
        name: name.to_owned(),
        hash: TokenHash::of(presented).hex(),
        scopes: Scope::ALL.map(|scope| scope.as_str().to_owned()).to_vec(),
        kind,
        created_at: Timestamp(0),
        last_used_at: None,
        revoked_at: None,
    }
}

fn tcp() -> Listener {
    Listener::Tcp {
        hosts: Arc::new(Hosts::new(4141, &[], None).unwrap()),
        proxied: false,
    }
}

/// Another address for every call, so that only the test of rates meets a rate.
fn request(method: &Method, path: &str, address: u32) -> axum::http::request::Builder {
    let peer = ConnectionPeer {
        address: Some(std::net::Ipv4Addr::from_bits(0x0a00_0000 + address).into()),
        process: None,
        ..ConnectionPeer::default()
    };
    Request::builder()
        .method(method.clone())
        .uri(filled(path))
        .header(header::HOST, HOST)
        .extension(peer)
}

fn filled(path: &str) -> String {
    let path = path.replace("{id}", "0198aaaa").replace("{name}", "ci");
    path.replace("{*file}", "app.js")
}

/// What anybody is answered at a public route.
fn public_answer(method: &Method, path: &str) -> StatusCode {
    match path {
        "/" | "/console" => StatusCode::TEMPORARY_REDIRECT,
        _ if method == Method::POST => StatusCode::FORBIDDEN,
        _ => StatusCode::OK,
    }
}

async fn call(router: &Router, request: axum::http::request::Builder) -> Response<Body> {
    let request = request.body(Body::empty()).unwrap();
    router.clone().oneshot(request).await.unwrap()
}

fn methods(verb: Verb) -> Vec<Method> {
    match verb {
        Verb::Get => vec![Method::GET, Method::HEAD],
        Verb::Post => vec![Method::POST],
        Verb::Delete => vec![Method::DELETE],
        Verb::Any => vec![Method::GET, Method::POST, Method::DELETE, Method::PUT],
    }
}

/// Every route with every method that it takes.
fn every_call() -> Vec<(Method, &'static str, Access)> {
    let routes = Api::<EmptyService>::routes();
    assert!(routes.len() > 10);
    let calls = routes.into_iter().flat_map(|route| {
        let methods = methods(route.verb).into_iter();
        methods.map(move |method| (method, route.path, route.access))
    });
    calls.collect()
}

#[tokio::test]
async fn threat_1_private_routes_require_token() {
    let router = api().router(tcp());
    let mut public: Vec<_> = every_call()
        .into_iter()
        .filter(|(_, _, access)| *access == Access::Public)
        .map(|(_, path, _)| path)
        .collect();
    public.sort_unstable();
    public.dedup();
    let known = [
        "/",
        "/.well-known/agent-card.json",
        "/console",
        "/console/",
        "/console/{*file}",
        "/healthz",
        "/readyz",
        "/v1/session",
    ];
    assert_eq!(public, known);
    let wrong = [
        None,
        Some("Bearer wrong"),
        Some("Bearer "),
        Some("Basic dGhlLW93bmVyJ3MtdG9rZW4="),
        Some("the-owner's-token"),
        Some("Bearer the-owner's-token2"),
        Some("Bearer the-owner's-toke"),
    ];
    let mut address = 0;
    for (method, path, access) in every_call() {
        for token in wrong {
            address += 1;
            let mut request = request(&method, path, address);
            if let Some(token) = token {
                request = request.header(header::AUTHORIZATION, token);
            }
            let response = call(&router, request).await;
            let what = format!("{method} {path} {token:?}");
            match access {
                Access::Public => {
                    let expected = public_answer(&method, path);
                    assert_eq!(response.status(), expected, "{what}");
                }
                _ => {
                    assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{what}");
                    assert!(response.headers().contains_key(header::WWW_AUTHENTICATE));
                    let kind = &response.headers()[header::CONTENT_TYPE];
                    assert_eq!(kind, "application/problem+json", "{what}");
                }
            }
        }
    }
    for (method, path) in [(Method::GET, "/nothing"), (Method::PUT, "/v1/status")] {
        address += 1;
        let response = call(&router, request(&method, path, address)).await;
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{path}");
    }
}

/// A good token can't be distinguished from a wrong one then: its holder must not throw it away.
#[tokio::test]
async fn ledger_outage_returns_503_for_tokens() {
    let api = api();
    api.context.shared.known.forget();
    let router = api.router(tcp());
    for (method, path, access) in every_call() {
        let named = request(&method, path, 1).header(header::AUTHORIZATION, "Bearer named");
        let response = call(&router, named).await;
        match access {
            Access::Public => {
                let expected = public_answer(&method, path);
                assert_eq!(response.status(), expected, "{path}");
            }
            Access::Platform => assert_eq!(response.status(), StatusCode::UNAUTHORIZED),
            _ => {
                assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE, "{path}");
                assert!(response.headers().contains_key(header::RETRY_AFTER));
            }
        }
        let none = call(&router, request(&method, path, 2)).await;
        assert_ne!(none.status(), StatusCode::SERVICE_UNAVAILABLE, "{path}");
    }
}

#[tokio::test]
async fn threat_3_routes_check_host_and_origin() {
    let router = api().router(tcp());
    let mut calls = every_call();
    calls.push((Method::GET, "/nothing", Access::Public));
    calls.push((Method::OPTIONS, "/v1/status", Access::Public));
    for (method, path, _) in calls {
        let owner = format!("Bearer {OWNER}");
        for (name, value) in [
            (header::HOST, "evil.test"),
            (header::ORIGIN, "https://evil.test"),
            (header::ORIGIN, "null"),
        ] {
            let mut request = request(&method, path, 1).header(header::AUTHORIZATION, &owner);
            request
                .headers_mut()
                .unwrap()
                .insert(name, value.parse().unwrap());
            let response = call(&router, request).await;
            assert_eq!(
                response.status(),
                StatusCode::FORBIDDEN,
                "{method} {path} {value}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn threat_32_throttles_wrong_tokens_only() {
    let router = api().router(tcp());
    let with = |token: &str| {
        request(&Method::GET, "/v1/openapi.json", 7)
            .header(header::AUTHORIZATION, format!("Bearer {token}"))
    };
    let mut last = StatusCode::OK;
    for _ in 0..=super::limits::FAILURES_BURST {
        let response = call(&router, with("wrong")).await;
        last = response.status();
        if last == StatusCode::TOO_MANY_REQUESTS {
            assert!(response.headers().contains_key(header::RETRY_AFTER));
        }
    }
    assert_eq!(last, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(call(&router, with(OWNER)).await.status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn threat_22_throttles_frequent_callers() {
    let router = api().router(tcp());
    let owner = format!("Bearer {OWNER}");
    let mut refused = None;
    for n in 0..=super::limits::CALLS_BURST * 2 {
        let request = request(&Method::GET, "/v1/dead", n);
        let response = call(&router, request.header(header::AUTHORIZATION, &owner)).await;
        if response.status() != StatusCode::SERVICE_UNAVAILABLE {
            refused = Some(response);
            break;
        }
    }
    let refused = refused.unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(refused.headers().contains_key(header::RETRY_AFTER));
    let local = api().router(Listener::Local);
    for _ in 0..super::limits::CALLS_BURST * 2 {
        let response = call(&local, request(&Method::GET, "/healthz", 1)).await;
        assert_eq!(response.status(), StatusCode::OK);
    }
}

/// Each may become a stream, and none may hold its body back.
#[tokio::test(start_paused = true)]
async fn threat_22_mcp_calls_count_as_streams() {
    let api = api();
    let router = api.router(tcp());
    let never = || {
        let nothing = futures_util::stream::pending::<Result<Bytes, Infallible>>();
        request(&Method::POST, "/mcp", 1)
            .header(header::AUTHORIZATION, format!("Bearer {OWNER}"))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from_stream(nothing))
            .unwrap()
    };
    let places = super::limits::STREAMS_PER_CALLER;
    let calls: Vec<_> = (0..places)
        .map(|_| tokio::spawn(router.clone().oneshot(never())))
        .collect();
    while api.context.shared.streams.taken() < places {
        tokio::task::yield_now().await;
    }
    let late = router.clone().oneshot(never()).await.unwrap();
    assert_eq!(late.status(), StatusCode::SERVICE_UNAVAILABLE);
    for call in calls {
        let response = call.await.unwrap().unwrap();
        assert_eq!(response.status(), StatusCode::REQUEST_TIMEOUT);
    }
    assert_eq!(api.context.shared.streams.taken(), 0);
}

async fn trouble() -> &'static str {
    panic!("a bug in a handler")
}

#[tokio::test]
async fn k16_handler_panic_fails_one_request() {
    let api = api();
    let mut routes = table::routes();
    let path = "/trouble";
    let access = Access::Scope(Scope::Read);
    routes.push(Route::get(path, access, "Panics", trouble));
    let router = route::router(api.context.clone(), Listener::Local, routes);
    let good = request(&Method::GET, "/readyz", 1);
    let (bad, good) = tokio::join!(
        call(&router, request(&Method::GET, path, 1)),
        call(&router, good)
    );
    assert_eq!(bad.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(
        bad.headers()[header::CONTENT_TYPE],
        "application/problem+json"
    );
    assert_eq!(good.status(), StatusCode::OK);
    assert_eq!(api.context.shared.counters.panics(), 1);
    let again = call(&router, request(&Method::GET, "/readyz", 1)).await;
    assert_eq!(again.status(), StatusCode::OK);
}

#[test]
fn threat_28_route_audit_declarations_are_consistent() {
    for route in Api::<EmptyService>::routes() {
        match (route.verb, route.trace) {
            (Verb::Get, trace) => assert_eq!(trace, Trace::Nothing, "{}", route.path),
            (
                Verb::Post | Verb::Delete | Verb::Any,
                Trace::Audit(words) | Trace::RowOrAudit(words),
            ) => {
                assert!(!words.is_empty(), "{}", route.path);
            }
            (Verb::Post | Verb::Delete | Verb::Any, Trace::Row | Trace::Nothing) => {}
        }
    }
}

#[tokio::test]
async fn metrics_have_valid_format_and_labels() {
    let router = api().router(Listener::Local);
    let response = call(&router, request(&Method::GET, "/metrics", 1)).await;
    assert_eq!(
        response.headers()[header::CONTENT_TYPE],
        super::metrics::MEDIA
    );
    let body = axum::body::to_bytes(response.into_body(), 1 << 20)
        .await
        .unwrap();
    let text = String::from_utf8(body.to_vec()).unwrap();
    let mut typed = std::collections::BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["gauge", "counter", "histogram"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            assert!(typed.insert(name.to_owned()), "typed twice: {line}");
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            let base = ["_bucket", "_sum", "_count"].into_iter();
            let mut base = base.filter_map(|end| name.strip_suffix(end));
            assert!(
                typed.contains(name) || base.any(|name| typed.contains(name)),
                "{line}"
            );
            assert!(value.parse::<f64>().unwrap().is_finite(), "{line}");
            if let Some(labels) = series
                .strip_prefix(name)
                .filter(|labels| !labels.is_empty())
            {
                let label = labels
                    .strip_prefix('{')
                    .unwrap()
                    .strip_suffix("\"}")
                    .unwrap();
                let (key, word) = label.split_once("=\"").unwrap();
                let known = [
                    "version",
                    "state",
                    "transition",
                    "code",
                    "le",
                    "type",
                    "decision",
                ];
                assert!(known.contains(&key) && !word.contains('"'), "{line}");
            }
        }
    }
    assert!(text.contains("codex_bridge_transitions_total{transition=\"answer\"} 3\n"));
    assert!(text.contains("codex_bridge_ledger_readable 0\n"));
    assert!(text.contains("codex_bridge_codex_starts_total 2\n"));
    assert!(text.contains("codex_bridge_codex_ends_total 0\n"));
}

#[test]
fn openapi_covers_routes_and_resolves_references() {
    let document = Api::<EmptyService>::openapi();
    for route in Api::<EmptyService>::routes() {
        let path = &document["paths"][super::openapi::path(route.path)];
        let method = match route.verb {
            Verb::Get => "get",
            Verb::Post | Verb::Any => "post",
            Verb::Delete => "delete",
        };
        let scope = &path[method]["x-scope"];
        match route.access {
            Access::Public | Access::Platform => assert!(scope.is_null()),
            Access::Known => assert_eq!(scope, "any"),
            Access::Local => assert_eq!(scope, "local"),
            Access::Decide => assert_eq!(scope, "control approve"),
            Access::Scope(known) => assert_eq!(scope, known.as_str(), "{}", route.path),
        }
    }
    let mut names = std::collections::BTreeSet::new();
    walk(&document, &mut |key, value| {
        if key == "operationId" {
            assert!(names.insert(value.to_string()), "{value} twice");
        }
        if key == "$ref" {
            let pointer = value.as_str().unwrap().trim_start_matches('#');
            assert!(document.pointer(pointer).is_some(), "{pointer}");
        }
    });
}

/// A header is documented as required where a call without it is refused for that, and nowhere else.
#[tokio::test]
async fn headers_are_required_as_documented() {
    let (router, document) = (api().router(tcp()), Api::<EmptyService>::openapi());
    for (path, body) in [
        ("/v1/messages", r#"{"text":"x"}"#),
        ("/v1/tasks", r#"{"prompt":"x"}"#),
    ] {
        let parameters = document["paths"][path]["post"]["parameters"].as_array();
        let mut headers = parameters
            .unwrap()
            .iter()
            .filter(|one| one["in"] == "header");
        let header = headers.next().unwrap();
        assert_eq!(header["name"], "Idempotency-Key", "{path}");
        assert!(headers.next().is_none(), "{path}");
        let without = request(&Method::POST, path, 1)
            .header(header::AUTHORIZATION, format!("Bearer {OWNER}"))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body))
            .unwrap();
        let response = router.clone().oneshot(without).await.unwrap();
        let said = axum::body::to_bytes(response.into_body(), 10_000)
            .await
            .unwrap();
        let said = String::from_utf8_lossy(&said);
        let is_refused = said.contains("Idempotency-Key is missing");
        assert_eq!(header["required"], is_refused, "{path}: {said}");
    }
}

fn walk(value: &serde_json::Value, see: &mut impl FnMut(&str, &serde_json::Value)) {
    match value {
        serde_json::Value::Object(object) => {
            for (key, value) in object {
                see(key, value);
                walk(value, see);
            }
        }
        serde_json::Value::Array(list) => list.iter().for_each(|value| walk(value, see)),
        _ => {}
    }
}

fn unbuilt() -> LedgerError {
    LedgerError::Unavailable {
        what: "not built".to_owned(),
    }
}
