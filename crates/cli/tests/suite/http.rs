//! The HTTP API over TCP from outside: tokens and scopes, foreign hosts, events, pages, keys, and what is left in files,
//! logs and the audit.

use crate::fake::Fake;
use crate::world::{World, within};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt;

const SETTINGS: &str = "[http]\nlisten = \"127.0.0.1:0\"\n";
const SCOPES: [&str; 6] = ["read", "send", "control", "approve", "admin", "a2a"];

/// A daemon that serves TCP, and whoever calls it.
struct Served {
    fake: Fake,
    client: Client,
    base: String,
    owner: String,
}

impl Served {
    async fn start(settings: &str, script: &str) -> Self {
        Self::over(Fake::start(&format!("{SETTINGS}{settings}"), script).await).await
    }

    async fn over(fake: Fake) -> Self {
        let (base, owner) = (base(&fake.world), fake.world.owner_token().await);
        let client = Client::builder().tls_certs_only([]).build().unwrap();
        Self {
            fake,
            client,
            base,
            owner,
        }
    }

    /// A call with this token.
    fn call(&self, method: &str, path: &str, token: Option<&str>) -> RequestBuilder {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let call = self.client.request(method, format!("{}{path}", self.base));
        match token {
            Some(token) => call.bearer_auth(token),
            None => call,
        }
    }

    fn as_owner(&self, method: &str, path: &str) -> RequestBuilder {
        self.call(method, path, Some(&self.owner))
    }

    async fn json(&self, call: RequestBuilder) -> (StatusCode, Value) {
        let response = within("an answer", call.send()).await.unwrap();
        let status = response.status();
        (status, response.json().await.unwrap_or(Value::Null))
    }

    async fn token(&self, name: &str, scopes: &[&str]) -> String {
        let body = json!({"name": name, "scopes": scopes});
        let (status, made) = self
            .json(self.as_owner("POST", "/v1/tokens").json(&body))
            .await;
        assert_eq!(status, StatusCode::CREATED, "{made}");
        made["token"].as_str().unwrap().to_owned()
    }

    async fn send(&self, key: &str, text: &str) -> (StatusCode, Value) {
        let call = self.as_owner("POST", "/v1/messages");
        let call = call
            .header("Idempotency-Key", key)
            .json(&json!({"text": text}));
        self.json(call).await
    }

    /// Waits until a message is finished.
    async fn finished(&self, id: &str) {
        let path = format!("/v1/messages/{id}/events");
        let response = self.as_owner("GET", &path).send().await.unwrap();
        let text = within("the end of a stream", response.text())
            .await
            .unwrap();
        assert!(text.contains("event: end"), "{text}");
    }
}

/// Where the API is.
fn base(world: &World) -> String {
    let path = world.state_dir().join("listen");
    assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    let address = std::fs::read_to_string(path).unwrap();
    format!("http://{}", address.trim())
}

/// Every operation of the document that the daemon gives: method, path, scope.
async fn operations(served: &Served) -> Vec<(String, String, Option<String>)> {
    let call = served.as_owner("GET", "/v1/openapi.json");
    let (status, document) = served.json(call).await;
    assert_eq!(status, StatusCode::OK);
    let paths = document["paths"].as_object().unwrap();
    let mut found = Vec::new();
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().unwrap() {
            let scope = operation["x-scope"].as_str().map(ToOwned::to_owned);
            let path = path.replace("{id}", "0198aaaa").replace("{name}", "nobody");
            let guarded = operation["security"] != json!([]);
            // A platform's secret is no token: no scope opens that route.
            let scope = scope.or(guarded.then(|| PLATFORM.to_owned()));
            found.push((method.to_uppercase(), path, scope));
        }
    }
    found
}

/// Stands for the scope of a route that only a platform may call.
const PLATFORM: &str = "a platform's secret";

#[tokio::test(flavor = "multi_thread")]
async fn threat_1_routes_require_scoped_tokens() {
    let served = Served::start("", "").await;
    let mut tokens = Vec::new();
    for scope in SCOPES {
        tokens.push((scope, served.token(scope, &[scope]).await));
    }
    let mut public = Vec::new();
    for (method, path, scope) in operations(&served).await {
        let Some(scope) = scope else {
            public.push(path);
            continue;
        };
        for (other, token) in &tokens {
            let call = served.call(&method, &path, Some(token));
            let status = within("an answer", call.send()).await.unwrap().status();
            let refused = [StatusCode::FORBIDDEN, StatusCode::UNAUTHORIZED].contains(&status);
            let good = scope == "any" || scope.split(' ').any(|scope| scope == *other);
            assert_eq!(refused, !good, "{method} {path} {other}: {status}");
        }
        // A few of each, because refused tokens become slow.
        for token in [None, Some("cbt_wrong")] {
            let response = served.call(&method, &path, token).send().await.unwrap();
            let refusals = [StatusCode::UNAUTHORIZED, StatusCode::TOO_MANY_REQUESTS];
            assert!(refusals.contains(&response.status()), "{method} {path}");
        }
    }
    let card = "/.well-known/agent-card.json";
    let console = [
        "/",
        "/console",
        "/console/",
        "/console/{file}",
        "/v1/session",
    ];
    let mut known = [&[card, "/healthz", "/readyz"][..], &console].concat();
    known.sort_unstable();
    public.sort_unstable();
    assert_eq!(public, known);
    let revoke = served.as_owner("DELETE", "/v1/tokens/read");
    assert_eq!(served.json(revoke).await.0, StatusCode::OK);
    let call = served.call("GET", "/v1/status", Some(&tokens[0].1));
    let status = call.send().await.unwrap().status();
    assert_ne!(status, StatusCode::OK, "a revoked token is none");
    let (_, listed) = served.json(served.as_owner("GET", "/v1/tokens")).await;
    let text = listed.to_string();
    for (_, token) in &tokens {
        assert!(!text.contains(token));
    }
    let listen = served.fake.world.state_dir().join("listen");
    let log = served.fake.daemon.log.text();
    for (_, token) in tokens.iter().chain([&("owner", served.owner.clone())]) {
        assert!(!log.contains(token), "a token is in the log");
    }
    served.fake.daemon.stop().await;
    assert!(!listen.exists(), "it is not served any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn threat_3_foreign_host_or_origin_refused() {
    let served = Served::start("trusted_hosts = [\"bridge.lan\"]\n", "").await;
    for (method, path, _) in operations(&served).await {
        for (name, value) in [
            ("Host", "evil.test"),
            ("Origin", "https://evil.test"),
            ("Origin", "null"),
        ] {
            let call = served.as_owner(&method, &path).header(name, value);
            let status = within("an answer", call.send()).await.unwrap().status();
            assert_eq!(
                status,
                StatusCode::FORBIDDEN,
                "{method} {path} {name}: {value}"
            );
        }
    }
    let trusted = served
        .as_owner("GET", "/v1/status")
        .header("Host", "bridge.lan")
        .header("Origin", "https://bridge.lan");
    assert_eq!(trusted.send().await.unwrap().status(), StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn idempotency_key_names_one_message() {
    let served = Served::start("", "").await;
    let (status, first) = served.send("k1", "echo:one").await;
    assert_eq!(status, StatusCode::CREATED, "{first}");
    let (status, again) = served.send("k1", "echo:one").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(again["message_id"], first["message_id"]);
    let (status, other) = served.send("k1", "echo:two").await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{other}");
    let elsewhere = served
        .as_owner("POST", "/v1/messages")
        .header("Idempotency-Key", "k1")
        .json(&json!({"text": "echo:one", "conversation": "else"}));
    let (status, _) = served.json(elsewhere).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    let ci = served.token("ci", &["send"]).await;
    let foreign = served
        .call("POST", "/v1/messages", Some(&ci))
        .header("Idempotency-Key", "k1")
        .json(&json!({"text": "echo:one"}));
    let (status, theirs) = served.json(foreign).await;
    assert_eq!(status, StatusCode::CREATED, "keys are the caller's own");
    let path = format!("/v1/messages/{}", theirs["message_id"].as_str().unwrap());
    let (_, shown) = served.json(served.as_owner("GET", &path)).await;
    assert_eq!(
        (&shown["sender"], &shown["conversation"]),
        (&json!("ci"), &json!("@ci/main"))
    );

    let (_, page) = served
        .json(served.as_owner("GET", "/v1/messages?limit=1"))
        .await;
    assert_eq!(page["messages"][0]["message_id"], theirs["message_id"]);
    let next = page["next"].as_str().unwrap();
    let path = format!("/v1/messages?limit=1&before={next}");
    let (_, page) = served.json(served.as_owner("GET", &path)).await;
    assert_eq!(page["messages"][0]["message_id"], first["message_id"]);
    let (_, list) = served
        .json(served.as_owner("GET", "/v1/conversations"))
        .await;
    let ids: Vec<_> = list["conversations"].as_array().unwrap().iter().collect();
    assert_eq!(ids.len(), 2);
    // The list is by activity: the answer to the first message may come after the second message.
    let of_ci = ids.iter().find(|one| one["key"] == "@ci/main").unwrap();
    let id = of_ci["conversation_id"].as_str().unwrap();
    let path = format!("/v1/conversations/{id}");
    let (status, story) = served.json(served.as_owner("GET", &path)).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(story["messages"][0]["message_id"], theirs["message_id"]);
}

/// Reads a stream until `wanted` was seen; gives the text and the newest id in it.
async fn read_until(mut response: Response, wanted: &str) -> (String, Option<String>) {
    assert_eq!(response.status(), StatusCode::OK);
    let mut text = String::new();
    while !text.contains(wanted) || !text.ends_with("\n\n") {
        let chunk = within("news", response.chunk()).await.unwrap().unwrap();
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    let mut ids = text.lines().filter_map(|line| line.strip_prefix("id: "));
    let newest = ids.next_back().map(ToOwned::to_owned);
    (text, newest)
}

#[tokio::test(flavor = "multi_thread")]
async fn event_stream_resumes_after_restart() {
    let served = Served::start("", "").await;
    let open = served.as_owner("GET", "/v1/events").send().await.unwrap();
    let (_, first) = served.send("k1", "echo:one").await;
    let first = first["message_id"].as_str().unwrap().to_owned();
    let done = format!(
        "\"message_id\":\"{first}\",\"conversation\":\"main\",\"channel\":\"local\",\"state\":\"done\""
    );
    let (text, id) = read_until(open, &done).await;
    assert!(text.starts_with("event: ready"), "{text}");
    let id = id.unwrap();
    let (_, second) = served.send("k2", "echo:two").await;
    let second = second["message_id"].as_str().unwrap().to_owned();
    served.finished(&second).await;
    let Fake { world, daemon } = served.fake;
    daemon.stop().await;
    let daemon = Fake::daemon_of(&world).await;
    let served = Served::over(Fake { world, daemon }).await;
    let resumed = served
        .as_owner("GET", "/v1/events")
        .header("Last-Event-ID", &id);
    let told = format!("\"message_id\":\"{second}\"");
    let (text, _) = read_until(resumed.send().await.unwrap(), &told).await;
    assert!(!text.contains("event: reset"), "{text}");
    let old = served
        .as_owner("GET", "/v1/events")
        .header("Last-Event-ID", "1");
    read_until(old.send().await.unwrap(), "event: reset").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn threat_28_audit_names_tcp_callers() {
    let served = Served::start("", "").await;
    served.token("ci", &["control", "admin"]).await;
    let (_, list) = served
        .json(served.as_owner("DELETE", "/v1/tokens/ci"))
        .await;
    assert_eq!(list["name"], "ci");
    let (status, reloaded) = served.json(served.as_owner("POST", "/v1/reload")).await;
    assert_eq!(status, StatusCode::OK, "{reloaded}");
    let acts = acts(&served.fake.world);
    assert_eq!(
        acts,
        [
            "local owner token-add token my-laptop",
            "my-laptop token-add token ci",
            "my-laptop token-revoke token ci",
            "my-laptop reload configuration"
        ]
    );
}

/// Who did what to what, oldest first; without the program, which depends on how the tests are run.
fn acts(world: &World) -> Vec<String> {
    let ledger = rusqlite::Connection::open(world.state_dir().join("ledger.db")).unwrap();
    let mut acts = ledger
        .prepare("SELECT actor, what, subject FROM audit ORDER BY row")
        .unwrap();
    let line = |row: &rusqlite::Row<'_>| {
        let text = |at: usize| row.get::<_, String>(at);
        let actor = text(0)?;
        let name = actor.split(" (").next().unwrap_or_default();
        Ok(format!("{name} {} {}", text(1)?, text(2)?))
    };
    acts.query_map([], line)
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

/// Texts that would be something else if they were pasted into SQL, a header, a log or a path.
const NASTY: [&str; 6] = [
    "'; DROP TABLE message; --",
    "\" OR 1=1 --",
    "%' UNION SELECT hash FROM token --",
    "a\r\nSet-Cookie: x=1",
    "../../etc/passwd",
    "\u{1b}]0;x\u{7}\u{202e}",
];

#[tokio::test(flavor = "multi_thread")]
async fn threat_29_sql_input_stays_plain_text() {
    let served = Served::start("", "").await;
    let (_, sent) = served.send("k0", "echo:fine").await;
    let id = sent["message_id"].as_str().unwrap().to_owned();
    served.finished(&id).await;
    for (at, text) in NASTY.iter().enumerate() {
        let plain = encode(text);
        // Each with a caller of its own: one would be told to wait.
        let holder = served.token(&format!("holder-{at}"), &SCOPES).await;
        for (method, path, _) in operations(&served).await {
            if path.ends_with("/events") && !path.contains("0198aaaa") {
                continue;
            }
            let path = path.replace("0198aaaa", &plain).replace("nobody", &plain);
            let path = format!("{path}?limit=3&before={plain}");
            let body = json!({"name": text, "scopes": [text], "text": text, "conversation": text});
            let call = served.call(&method, &path, Some(&holder));
            let call = call.header("Last-Event-ID", "x").json(&body);
            let response = within("an answer", call.send()).await.unwrap();
            let status = response.status();
            assert!(!status.is_server_error(), "{method} {path}: {status}");
            assert_ne!(status, StatusCode::TOO_MANY_REQUESTS, "{method} {path}");
            assert!(!response.headers().contains_key("set-cookie"));
        }
        let (status, taken) = served
            .send(&format!("n{at}"), &format!("echo:{text}"))
            .await;
        assert_eq!(status, StatusCode::CREATED, "{taken}");
    }
    let path = format!("/v1/messages/{id}");
    let (status, shown) = served.json(served.as_owner("GET", &path)).await;
    assert_eq!(
        (status, &shown["text"]),
        (StatusCode::OK, &json!("echo:fine"))
    );
    let log = served.fake.daemon.log.text();
    assert!(!log.contains('\u{202e}') && !log.contains("\u{1b}]0;"));
}

/// As a path or a query has it.
fn encode(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn threat_1_tcp_disabled_or_loopback_only() {
    let fake = Fake::start("", "").await;
    assert!(!fake.world.state_dir().join("listen").exists());
    fake.daemon.stop().await;
    let refused = fake
        .world
        .run(&[
            "run",
            "--listen",
            "0.0.0.0:0",
            "--codex-bin",
            &crate::fake::binary(),
        ])
        .await;
    assert_ne!(refused.code, Some(0));
    assert!(
        refused.stderr.contains("trusted_proxy"),
        "{}",
        refused.stderr
    );
}

/// Tokens are nowhere: in no file, not below the daemon, not in a log, not in the ledger, and not in what a caller is
/// told.
#[tokio::test(flavor = "multi_thread")]
async fn threat_5_api_tokens_leak_nowhere() {
    let served = Served::start("", "").await;
    let ci = served.token("ci", &["read", "send"]).await;
    let (_, sent) = served.send("k1", "echo:one").await;
    served.finished(sent["message_id"].as_str().unwrap()).await;
    let used = served
        .call("GET", "/v1/status", Some(&ci))
        .send()
        .await
        .unwrap();
    assert_eq!(used.status(), StatusCode::OK);
    let processes = served.fake.world.processes();
    assert!(
        processes.len() >= 3,
        "daemon, keeper and Codex: {processes:?}"
    );
    let mut seen = String::new();
    for (pid, line) in processes {
        seen.push_str(&line);
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        seen.push_str(&String::from_utf8_lossy(&environment));
    }
    seen.push_str(&served.fake.daemon.log.text());
    for file in ["ledger.db", "ledger.db-wal"] {
        let bytes = std::fs::read(served.fake.world.state_dir().join(file)).unwrap_or_default();
        seen.push_str(&String::from_utf8_lossy(&bytes));
    }
    for token in [&served.owner, &ci] {
        assert!(!seen.contains(token.as_str()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn threat_6_refusal_never_quotes_the_token() {
    let served = Served::start("", "").await;
    let canary = "cbt_canary-that-must-not-come-back";
    let refused = served
        .call("GET", "/v1/status", Some(canary))
        .send()
        .await
        .unwrap();
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    let headers = format!("{:?}", refused.headers());
    let body = refused.text().await.unwrap();
    let log = served.fake.daemon.log.text();
    for text in [headers, body, log] {
        assert!(!text.contains("canary"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn threat_18_line_breaks_cannot_inject_headers() {
    let served = Served::start("", "").await;
    let nasty = "x\r\nX-Injected: 1\r\n\r\n<html>";
    for path in ["/v1/messages/", "/v1/tokens/", "/v1/conversations/", "/"] {
        for method in ["GET", "DELETE"] {
            let path = format!("{path}{}", encode(nasty));
            let answer = served.as_owner(method, &path).send().await.unwrap();
            assert!(answer.status().is_client_error(), "{method} {path}");
            assert!(!answer.headers().contains_key("x-injected"));
            let kind = answer.headers()["content-type"].to_str().unwrap();
            assert_eq!(kind, "application/problem+json");
        }
    }
    let named = json!({"name": nasty, "scopes": ["read"]});
    let (status, _) = served
        .json(served.as_owner("POST", "/v1/tokens").json(&named))
        .await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    let keyed = json!({"text": "echo:x", "conversation": nasty});
    let call = served
        .as_owner("POST", "/v1/messages")
        .header("Idempotency-Key", "k");
    let (status, _) = served.json(call.json(&keyed)).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    let log = served.fake.daemon.log.text();
    let broken = |line: &str| line.starts_with("X-Injected") || line.starts_with("<html>");
    assert!(!log.lines().any(broken), "{log}");
}
