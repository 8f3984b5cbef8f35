//! Sessions of the console: from the code to signing out, on one node and on two.

use crate::audit::asks;
use crate::service::{Put, Reader, TestService};
use axum::Router;
use axum::body::Body;
use axum::http::request::Builder;
use axum::http::{HeaderMap, Request, StatusCode, header};
use bridge_core::limits::{LOGIN_MS, SESSION_IDLE_MS};
use bridge_core::port::Ledger;
use bridge_core::step::RevokeToken;
use bridge_front::BridgeService;
use bridge_front::api::{Api, Hosts, Listener, SESSION_HEADER};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// One node, with both of its listeners.
struct Node {
    local: Router,
    tcp: Router,
}

impl Node {
    fn of(service: &TestService) -> Self {
        let api = Api::new(service.clone(), CancellationToken::new());
        let hosts = Hosts::new(4141, &[], Some("https://bridge.example")).unwrap();
        let listener = Listener::Tcp {
            hosts: Arc::new(hosts),
            proxied: false,
        };
        Self {
            local: api.router(Listener::Local),
            tcp: api.router(listener),
        }
    }

    async fn login(&self, scopes: &[&str]) -> Value {
        let body = json!({"scopes": scopes, "label": "browser"});
        let request = Request::post("/v1/logins");
        let (status, _, made) = call(&self.local, request, Some(body)).await;
        assert_eq!(status, StatusCode::CREATED, "{made}");
        made
    }

    async fn open(&self, code: &Value) -> (StatusCode, HeaderMap, Value) {
        let request = of_page(Request::post("/v1/session"));
        call(&self.tcp, request, Some(json!({"code": code}))).await
    }

    async fn session(&self, scopes: &[&str]) -> Session {
        let made = self.login(scopes).await;
        let (status, headers, opened) = self.open(&made["code"]).await;
        assert_eq!(status, StatusCode::OK, "{opened}");
        let cookie = headers[header::SET_COOKIE].to_str().unwrap();
        Session {
            half: opened["half"].as_str().unwrap().to_owned(),
            cookie: cookie.split(';').next().unwrap().to_owned(),
        }
    }

    async fn get(&self, session: &Session, path: &str) -> (StatusCode, Value) {
        let (status, _, said) = call(&self.tcp, session.of(Request::get(path)), None).await;
        (status, said)
    }
}

struct Session {
    half: String,
    cookie: String,
}

impl Session {
    fn of(&self, request: Builder) -> Builder {
        of_page(request)
            .header(SESSION_HEADER, &self.half)
            .header(header::COOKIE, &self.cookie)
    }
}

fn of_page(request: Builder) -> Builder {
    request
        .header(header::HOST, "127.0.0.1:4141")
        .header("sec-fetch-site", "same-origin")
}

async fn call(
    router: &Router,
    request: Builder,
    body: Option<Value>,
) -> (StatusCode, HeaderMap, Value) {
    let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
    let request = request.header(header::CONTENT_TYPE, "application/json");
    let request = request.body(body).unwrap();
    let response = tower::ServiceExt::oneshot(router.clone(), request).await;
    let (head, body) = response.unwrap().into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let said = serde_json::from_slice(&body).unwrap_or_default();
    (head.status, head.headers, said)
}

#[tokio::test(start_paused = true)]
async fn a_code_opens_one_session() {
    let node = Node::of(&TestService::new());
    let made = node.login(&["read", "admin"]).await;
    assert_eq!(made["url"], "http://127.0.0.1:4141/console/");
    let (status, headers, opened) = node.open(&made["code"]).await;
    assert_eq!(status, StatusCode::OK, "{opened}");
    assert_eq!(opened["name"], made["name"]);
    assert_eq!(opened["scopes"], json!(["read", "admin"]));
    assert_eq!(headers[header::CACHE_CONTROL], "no-store");
    let cookie = headers[header::SET_COOKIE].to_str().unwrap();
    let (pair, attributes) = cookie.split_once("; ").unwrap();
    assert_eq!(attributes, "Max-Age=2592000; HttpOnly; SameSite=Strict");
    let session = Session {
        half: opened["half"].as_str().unwrap().to_owned(),
        cookie: pair.to_owned(),
    };
    let (status, said) = node.get(&session, "/v1/session").await;
    assert_eq!(status, StatusCode::OK, "{said}");
    assert_eq!(
        (&said["name"], &said["via"]),
        (&made["name"], &json!("console"))
    );
    assert_eq!(said["expires_at"], opened["expires_at"]);
    let (status, _, replayed) = node.open(&made["code"]).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    let detail = replayed["detail"].as_str().unwrap();
    assert!(
        detail.contains("run `codex-bridge console` again"),
        "{detail}"
    );
    assert_eq!(node.get(&session, "/v1/dead").await.0, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn cookies_are_secure_behind_https() {
    let node = Node::of(&TestService::new());
    let made = node.login(&["read"]).await;
    let request = Request::post("/v1/session")
        .header(header::HOST, "bridge.example")
        .header(header::ORIGIN, "https://bridge.example")
        .header("sec-fetch-site", "same-origin");
    let body = json!({"code": made["code"]});
    let (status, headers, _) = call(&node.tcp, request, Some(body)).await;
    assert_eq!(status, StatusCode::OK);
    let cookie = headers[header::SET_COOKIE].to_str().unwrap();
    assert!(cookie.ends_with("SameSite=Strict; Secure"), "{cookie}");
}

#[tokio::test(start_paused = true)]
async fn threat_2_codes_expire_and_stay_here() {
    let service = TestService::new();
    let node = Node::of(&service);
    let made = node.login(&["read"]).await;
    let body = json!({"code": made["code"]});
    for site in ["cross-site", "same-site", "none"] {
        let request = Request::post("/v1/session")
            .header(header::HOST, "127.0.0.1:4141")
            .header("sec-fetch-site", site);
        let (status, _, _) = call(&node.tcp, request, Some(body.clone())).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{site}");
    }
    let long = "x".repeat(10_000);
    for bad in [
        json!({}),
        json!({"code": 1}),
        json!({"code": long}),
        json!(null),
    ] {
        let request = of_page(Request::post("/v1/session"));
        let (status, _, _) = call(&node.tcp, request, Some(bad)).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
    }
    service.pass_ms(LOGIN_MS);
    assert_eq!(node.open(&made["code"]).await.0, StatusCode::UNAUTHORIZED);
    let add = of_page(Request::post("/v1/logins"));
    let (status, _, _) = call(&node.tcp, add, Some(json!({}))).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
}

/// Anybody may guess, so a guess costs nobody else anything.
#[tokio::test(start_paused = true)]
async fn threat_32_wrong_codes_change_nothing() {
    let service = TestService::new();
    let node = Node::of(&service);
    let session = node.session(&["read"]).await;
    assert_eq!(node.get(&session, "/v1/dead").await.0, StatusCode::OK);
    let (_, who) = node.get(&session, "/v1/session").await;
    let (redacted, randoms) = (service.redacted(), service.randoms());
    assert_eq!(redacted.len(), 3, "the code and both halves");
    // Behind the back of the cache, which shows by this that it is kept.
    let name = who["name"].as_str().unwrap().to_owned();
    let by = "another node".to_owned();
    service.does(RevokeToken { name, by }).await.unwrap();
    let mut answers = Vec::new();
    for n in 0..40 {
        answers.push(node.open(&json!(format!("guess-{n}"))).await.0);
    }
    assert_eq!(answers[0], StatusCode::UNAUTHORIZED);
    assert_eq!(answers[39], StatusCode::TOO_MANY_REQUESTS);
    assert_eq!((service.redacted(), service.randoms()), (redacted, randoms));
    assert_eq!(node.get(&session, "/v1/dead").await.0, StatusCode::OK);
}

/// Nobody is known yet, so nobody waits long for the body.
#[tokio::test(start_paused = true)]
async fn threat_22_login_body_has_a_deadline() {
    let node = Node::of(&TestService::new());
    let request = of_page(Request::post("/v1/session"));
    let silent = futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>();
    let request = request.body(Body::from_stream(silent)).unwrap();
    let began = tokio::time::Instant::now();
    let response = tower::ServiceExt::oneshot(node.tcp.clone(), request).await;
    assert_eq!(response.unwrap().status(), StatusCode::BAD_REQUEST);
    assert!(began.elapsed() <= Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn limited_sessions_decide_under_their_name() {
    let service = TestService::new();
    let node = Node::of(&service);
    service.receives("m1-of-ann").await;
    let asked = asks("m1-of-ann", service.now());
    service.does(Put(asked)).await.unwrap();
    let phone = node.session(&["read", "approve"]).await;
    let path = "/v1/requests/0123456789abcdefghjkmnpqrs/decision";
    let accept = Some(json!({"decision": "accept"}));
    let (status, _, said) = call(&node.tcp, phone.of(Request::post(path)), accept).await;
    assert_eq!(status, StatusCode::OK, "{said}");
    assert_eq!(said["via"], "console");
    let (_, who) = node.get(&phone, "/v1/session").await;
    assert_eq!(said["by"], who["name"]);
    for (path, needs) in [
        ("/v1/messages/x/cancel", "control"),
        ("/v1/reload", "admin"),
    ] {
        let post = phone.of(Request::post(path));
        let (status, _, said) = call(&node.tcp, post, Some(json!({}))).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{path}");
        let again = format!("codex-bridge console --scopes {needs}");
        assert!(said["detail"].as_str().unwrap().contains(&again), "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn signing_out_ends_the_session() {
    let service = TestService::new();
    let node = Node::of(&service);
    let session = node.session(&["read", "admin"]).await;
    let other = node.session(&["read"]).await;
    let mut stream = Reader::of(&node.tcp, session.of(Request::get("/v1/events"))).await;
    stream.next().await;
    let (_, who) = node.get(&session, "/v1/session").await;
    let listed = node.get(&session, "/v1/tokens").await.1;
    assert_eq!(listed["tokens"][0]["kind"], "session", "{listed}");
    let delete = session.of(Request::delete("/v1/session"));
    let (status, headers, _) = call(&node.tcp, delete, None).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    let cookie = headers[header::SET_COOKIE].to_str().unwrap();
    assert!(cookie.contains("=; Max-Age=0;"), "{cookie}");
    stream.ended().await;
    let (status, _) = node.get(&session, "/v1/dead").await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert_eq!(node.get(&other, "/v1/dead").await.0, StatusCode::OK);
    let acts = service.ledger().read(|rows| rows.audit(1)).await.unwrap();
    let actor = format!("local owner ({})", who["name"].as_str().unwrap());
    assert_eq!(
        (acts[0].actor.as_str(), acts[0].what.as_str()),
        (actor.as_str(), "token-revoke")
    );
}

#[tokio::test(start_paused = true)]
async fn unused_sessions_expire() {
    let service = TestService::new();
    let node = Node::of(&service);
    let session = node.session(&["read"]).await;
    service.pass_ms(SESSION_IDLE_MS - 1);
    assert_eq!(node.get(&session, "/v1/dead").await.0, StatusCode::OK);
    service.pass_ms(2 * SESSION_IDLE_MS);
    let (status, said) = node.get(&session, "/v1/dead").await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    let detail = said["detail"].as_str().unwrap();
    assert!(
        detail.contains("run `codex-bridge console` again"),
        "{detail}"
    );
}

/// The other node reads what this one wrote, and forgets what it revoked within seconds.
#[tokio::test(start_paused = true)]
async fn sessions_are_good_on_every_node() {
    let service = TestService::new();
    let (one, two) = (Node::of(&service), Node::of(&service));
    let first = two.session(&["read"]).await;
    assert_eq!(two.get(&first, "/v1/dead").await.0, StatusCode::OK);
    tokio::time::advance(Duration::from_millis(100)).await;
    let made = one.login(&["read", "admin"]).await;
    let (status, headers, opened) = two.open(&made["code"]).await;
    assert_eq!(status, StatusCode::OK, "{opened}");
    let cookie = headers[header::SET_COOKIE].to_str().unwrap();
    let session = Session {
        half: opened["half"].as_str().unwrap().to_owned(),
        cookie: cookie.split(';').next().unwrap().to_owned(),
    };
    for node in [&one, &two] {
        assert_eq!(node.get(&session, "/v1/dead").await.0, StatusCode::OK);
    }
    let delete = session.of(Request::delete("/v1/session"));
    assert_eq!(call(&one.tcp, delete, None).await.0, StatusCode::NO_CONTENT);
    tokio::time::advance(Duration::from_secs(5)).await;
    let (status, _) = two.get(&session, "/v1/dead").await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
}

#[tokio::test(start_paused = true)]
async fn browsers_belong_to_their_session() {
    let service = TestService::new();
    let node = Node::of(&service);
    let phone = node.session(&["read", "approve"]).await;
    let owner = node.session(&["read", "admin"]).await;
    let body = |endpoint: &str| {
        json!({
            "endpoint": endpoint,
            "p256dh": "canary-key",
            "auth": "canary-auth",
            "about": ["task", "question", "question"],
        })
    };
    let add = |session: &Session, endpoint: &str| {
        let request = session.of(Request::post("/v1/push"));
        let (router, body) = (node.tcp.clone(), body(endpoint));
        async move { call(&router, request, Some(body)).await }
    };
    let (status, _, added) = add(&phone, "https://push.example/canary-1").await;
    assert_eq!(status, StatusCode::CREATED, "{added}");
    let (status, _, again) = add(&phone, "https://push.example/canary-1").await;
    assert_eq!((status, &again), (StatusCode::CREATED, &added));
    let (status, _, refused) = add(&phone, "http://127.0.0.1/").await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{refused}");
    let (_, listed) = node.get(&phone, "/v1/push").await;
    let own = &listed["subscriptions"];
    assert_eq!(
        (&listed["key"], own.as_array().unwrap().len()),
        (&json!("the-key"), 1)
    );
    assert_eq!(own[0]["about"], json!(["question", "task"]));
    assert_eq!(
        (&own[0]["detail"], &own[0]["id"]),
        (&json!("hint"), &added["id"])
    );
    assert!(!listed.to_string().contains("canary"), "{listed}");
    for number in 2..=4 {
        let endpoint = format!("https://push.example/{number}");
        assert_eq!(add(&phone, &endpoint).await.0, StatusCode::CREATED);
    }
    let (status, _, full) = add(&phone, "https://push.example/5").await;
    assert_eq!(status, StatusCode::CONFLICT, "{full}");
    let theirs = add(&owner, "https://push.example/6").await.2;
    assert_eq!(
        node.get(&phone, "/v1/push").await.1["subscriptions"]
            .as_array()
            .unwrap()
            .len(),
        4
    );
    assert_eq!(
        node.get(&owner, "/v1/push").await.1["subscriptions"]
            .as_array()
            .unwrap()
            .len(),
        5
    );
    let remove = |session: &Session, id: &Value| {
        let path = format!("/v1/push/{}", id.as_str().unwrap());
        let request = session.of(Request::delete(path));
        let router = node.tcp.clone();
        async move { call(&router, request, None).await.0 }
    };
    assert_eq!(remove(&phone, &theirs["id"]).await, StatusCode::NOT_FOUND);
    assert_eq!(remove(&owner, &added["id"]).await, StatusCode::NO_CONTENT);
    let acts = service.ledger().read(|rows| rows.audit(20)).await.unwrap();
    for what in ["push-add", "push-remove"] {
        assert!(acts.iter().any(|act| act.what == what), "{what}");
    }
    let out = phone.of(Request::delete("/v1/session"));
    assert_eq!(call(&node.tcp, out, None).await.0, StatusCode::NO_CONTENT);
    let left = node.get(&owner, "/v1/push").await.1;
    assert_eq!(left["subscriptions"].as_array().unwrap().len(), 1, "{left}");
    let local = call(
        &node.local,
        Request::post("/v1/push"),
        Some(body("https://x.example/")),
    )
    .await;
    assert_eq!(local.0, StatusCode::FORBIDDEN, "{}", local.2);
}
