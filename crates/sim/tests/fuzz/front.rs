//! The API as a target: requests over a service in memory, with a clock that moves when nothing else does.

use crate::engine::Target;
use crate::service::TestService;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Request, Response};
use bridge_front::api::{Api, Listener};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// Requests until everything is made anew: the ledger in memory only grows.
const REQUESTS_MAX: u32 = 200;
/// How long a call and the reading of its answer may wait, by a clock that jumps.
const PATIENCE: Duration = Duration::from_secs(20);
/// How much of an answer is read.
const ANSWER_MAX_BYTES: usize = 8 << 20;

/// A daemon's API without a daemon.
pub(crate) struct Front {
    runtime: Runtime,
    router: Router,
    stop: CancellationToken,
    left: u32,
}

/// What came back; nothing when nothing came in time.
#[derive(Default)]
pub(crate) struct Answer {
    status: u16,
    media: String,
    /// The session of MCP that was opened.
    session: String,
    body: Vec<u8>,
}

impl Front {
    pub(crate) fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        Self {
            runtime,
            router: Router::new(),
            stop: CancellationToken::new(),
            left: 0,
        }
    }

    /// The router, made anew now and then. There is a message `m1` with its task `e1`.
    fn refresh(&mut self) {
        if self.left > 0 {
            self.left -= 1;
            return;
        }
        self.left = REQUESTS_MAX;
        self.stop.cancel();
        self.stop = CancellationToken::new();
        let api = Api::new(TestService::new(), self.stop.clone());
        self.router = api.router(Listener::Local);
        let params = json!({
            "message": {"messageId": "first", "role": "ROLE_USER", "parts": [{"text": "hello"}]},
            "configuration": {"returnImmediately": true},
        });
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params});
        let request = Request::post("/a2a")
            .header("A2A-Version", "1.0")
            .header("Content-Type", "application/json")
            .body(Body::from(body.to_string()))
            .unwrap();
        let made = self.send(request).unwrap();
        assert_eq!(made.status, 200);
    }

    /// Sends a request and reads what comes until nothing more does.
    pub(crate) fn call(&mut self, request: Request<Body>) -> Result<Answer, String> {
        self.refresh();
        let answer = self.send(request)?;
        match answer.status {
            500 => Err("the answer is 500".to_owned()),
            _ => Ok(answer),
        }
    }

    fn send(&self, request: Request<Body>) -> Result<Answer, String> {
        let router = self.router.clone();
        self.runtime.block_on(async move {
            let called = tokio::time::timeout(PATIENCE, router.oneshot(request));
            match called.await {
                Ok(response) => read(response.unwrap()).await,
                Err(_) => Ok(Answer::default()),
            }
        })
    }
}

async fn read(response: Response<Body>) -> Result<Answer, String> {
    let (head, body) = response.into_parts();
    let header = |name: &str| {
        let value = head.headers.get(name);
        value
            .map_or("", |value| value.to_str().unwrap_or("?"))
            .to_owned()
    };
    let mut parts = body.into_data_stream();
    let mut read = Vec::new();
    while let Ok(Some(part)) = tokio::time::timeout(PATIENCE, parts.next()).await {
        let part: Bytes = part.map_err(|error| error.to_string())?;
        read.extend_from_slice(&part);
        if read.len() > ANSWER_MAX_BYTES {
            return Err(format!("the answer has more than {ANSWER_MAX_BYTES} bytes"));
        }
        // A stream without end says that it lives; that is enough of it.
        if part.starts_with(b":") {
            break;
        }
    }
    Ok(Answer {
        status: head.status.as_u16(),
        media: header("content-type"),
        session: header("mcp-session-id"),
        body: read,
    })
}

impl Answer {
    /// The answer in words that differ where what was done differs.
    fn words(&self) -> String {
        let mut words = format!("s{} {} ", letters(self.status), self.media);
        match serde_json::from_slice::<Value>(&self.body) {
            Ok(value) => describe(&value, 0, &mut words),
            Err(_) => {
                let text = String::from_utf8_lossy(&self.body);
                let own = text.split(['`', '"', '\'', ':', '(']).next();
                words.extend(own.unwrap_or_default().chars().take(60));
            }
        }
        words
    }
}

/// Numbers do not count as words, so a status becomes one.
fn letters(number: u16) -> String {
    let letter = |digit: u8| char::from(b'a' + digit - b'0');
    number.to_string().bytes().map(letter).collect()
}

/// Names of fields, and what errors say before they quote somebody.
fn describe(value: &Value, depth: usize, words: &mut String) {
    match value {
        Value::Object(members) if depth < 6 => {
            for (key, value) in members {
                let said = [
                    "detail",
                    "message",
                    "title",
                    "description",
                    "field",
                    "reason",
                ];
                match (value, said.contains(&key.as_str())) {
                    (Value::String(text), true) => {
                        let own = text.split(['`', '"', '\'', ':', '(']).next();
                        let own: String = own.unwrap_or_default().chars().take(60).collect();
                        let _fits = write!(words, "{key} {own} ");
                    }
                    (Value::Number(number), _) if key == "code" => {
                        let code = number.as_i64().unwrap_or(0).unsigned_abs() % 10_000;
                        let code = letters(u16::try_from(code).unwrap());
                        let _fits = write!(words, "code {code} ");
                    }
                    (value, _) => {
                        if key.chars().all(|letter| letter.is_ascii_alphabetic()) {
                            words.push_str(key);
                            words.push(' ');
                        }
                        describe(value, depth + 1, words);
                    }
                }
            }
        }
        Value::Array(items) => {
            for item in items.iter().take(5) {
                describe(item, depth + 1, words);
            }
        }
        _ => {}
    }
}

/// The body of a JSON-RPC call, in both versions of A2A.
pub(crate) struct A2aRpc(pub(crate) Front);

impl Target for A2aRpc {
    const NAME: &'static str = "a2a-rpc";
    const DICTIONARY: &'static [&'static str] = crate::words::A2A;

    fn read(&mut self, input: &[u8]) -> Result<String, String> {
        let mut words = String::new();
        for version in ["1.0", "0.3"] {
            let request = Request::post("/a2a")
                .header("A2A-Version", version)
                .header("Content-Type", "application/json")
                .body(Body::from(input.to_vec()))
                .unwrap();
            let answer = self.0.call(request)?;
            check_rpc(input, &answer)?;
            self.check_kept(input, version, &answer)?;
            let _fits = write!(words, "{} ", answer.words());
        }
        Ok(words)
    }
}

impl A2aRpc {
    /// A message of texts alone is kept as it was said.
    fn check_kept(&mut self, input: &[u8], version: &str, answer: &Answer) -> Result<(), String> {
        let Ok(asked) = serde_json::from_slice::<Value>(input) else {
            return Ok(());
        };
        let said = texts(&asked["params"]["message"]["parts"]);
        let Ok(answer) = serde_json::from_slice::<Value>(&answer.body) else {
            return Ok(());
        };
        let task = match version {
            "1.0" => &answer["result"]["task"],
            _ => &answer["result"],
        };
        let (Some(said), Some(id)) = (said, task["id"].as_str()) else {
            return Ok(());
        };
        let wanted = json!({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": id}});
        let request = Request::post("/a2a")
            .header("A2A-Version", "1.0")
            .header("Content-Type", "application/json")
            .body(Body::from(wanted.to_string()))
            .unwrap();
        let kept = self.0.send(request)?;
        let kept: Value = serde_json::from_slice(&kept.body).map_err(|error| error.to_string())?;
        let history = kept["result"]["history"].as_array().cloned();
        let messages = history.unwrap_or_default();
        let is_there = messages
            .iter()
            .any(|message| texts(&message["parts"]).as_deref() == Some(&said));
        if is_there || messages.is_empty() {
            Ok(())
        } else {
            Err(format!("said {said:?}, and kept is {messages:?}"))
        }
    }
}

/// The texts of a list of parts, if nothing else is in it.
fn texts(parts: &Value) -> Option<Vec<String>> {
    let text = |part: &Value| {
        let only = part
            .as_object()?
            .keys()
            .all(|key| key == "text" || key == "kind");
        let text = part["text"].as_str()?;
        only.then(|| text.to_owned())
    };
    parts.as_array()?.iter().map(text).collect()
}

/// Whatever was said, the answer is one of JSON-RPC, and to whom it was said.
fn check_rpc(input: &[u8], answer: &Answer) -> Result<(), String> {
    if answer.status == 0 || answer.media.starts_with("text/event-stream") {
        return Ok(());
    }
    let value: Value = serde_json::from_slice(&answer.body)
        .map_err(|error| format!("the answer is no JSON: {error}"))?;
    if value["jsonrpc"] != "2.0" || value.get("result").is_some() == value.get("error").is_some() {
        return Err(format!("no answer of JSON-RPC: {value}"));
    }
    let asked: Option<Value> = serde_json::from_slice(input).ok();
    let id = asked.as_ref().and_then(|asked| asked.get("id"));
    let id = id.filter(|id| id.is_string() || id.is_number());
    if id.is_none_or(|id| *id == value["id"]) {
        Ok(())
    } else {
        Err(format!("the id is not the asked one: {value}"))
    }
}

/// A request in lines: method and path, headers, nothing, body.
fn request_of(input: &[u8]) -> Option<Request<Body>> {
    let end = input.windows(2).position(|pair| pair == b"\n\n");
    let (head, body) = match end {
        Some(end) => (&input[..end], &input[end + 2..]),
        None => (input, &b""[..]),
    };
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = lines.next()?;
    let space = first.iter().position(|byte| *byte == b' ')?;
    let (method, path) = (&first[..space], &first[space + 1..]);
    let mut request = Request::builder().method(method).uri(path);
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':')?;
        request = request.header(&line[..colon], line[colon + 1..].trim_ascii());
    }
    request.body(Body::from(body.to_vec())).ok()
}

/// Calls of the HTTP API: paths, queries, headers and bodies.
pub(crate) struct HttpApi(pub(crate) Front);

impl Target for HttpApi {
    const NAME: &'static str = "api";
    const DICTIONARY: &'static [&'static str] = crate::words::API;

    fn read(&mut self, input: &[u8]) -> Result<String, String> {
        answer_to(&mut self.0, input)
    }
}

/// Calls of A2A over HTTP+JSON.
pub(crate) struct A2aRest(pub(crate) Front);

impl Target for A2aRest {
    const NAME: &'static str = "a2a-rest";
    const DICTIONARY: &'static [&'static str] = crate::words::A2A;

    fn read(&mut self, input: &[u8]) -> Result<String, String> {
        answer_to(&mut self.0, input)
    }
}

fn answer_to(front: &mut Front, input: &[u8]) -> Result<String, String> {
    let Some(request) = request_of(input) else {
        return Ok("no request".to_owned());
    };
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let answer = front.call(request)?;
    let is_json = answer.media.contains("json");
    if is_json && serde_json::from_slice::<Value>(&answer.body).is_err() && method != "HEAD" {
        return Err(format!("{path}: the answer says it is JSON, and is none"));
    }
    // Only what was routed tells one call from another.
    let routed = !matches!(answer.status, 404 | 405);
    let names = path.split('/').filter(|name| {
        let letters = name.chars().all(|letter| letter.is_ascii_lowercase());
        routed && letters && name.len() < 20
    });
    let names: Vec<&str> = names.collect();
    Ok(format!("{} {}", names.join(" "), answer.words()))
}

/// Messages of MCP: with a session of the older revisions, and without one.
pub(crate) struct Mcp {
    front: Front,
    session: String,
}

impl Mcp {
    pub(crate) fn new() -> Self {
        Self {
            front: Front::new(),
            session: String::new(),
        }
    }

    fn call(&mut self, headers: &[(&str, String)], body: Vec<u8>) -> Result<Answer, String> {
        let mut request = Request::post("/mcp")
            .header("Host", "localhost")
            .header("Accept", "application/json, text/event-stream")
            .header("Content-Type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, value.as_bytes());
        }
        match request.body(Body::from(body)) {
            Ok(request) => self.front.call(request),
            // What is no header can't be sent.
            Err(_) => Ok(Answer::default()),
        }
    }

    /// Opens a session; those of a server that was made anew are gone.
    fn begin(&mut self) -> Result<(), String> {
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "fuzz", "version": "1"},
        }});
        let answer = self.call(&[], hello.to_string().into_bytes())?;
        self.session = answer.session;
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let headers = [("Mcp-Session-Id", self.session.clone())];
        self.call(&headers, ready.to_string().into_bytes())?;
        Ok(())
    }
}

impl Target for Mcp {
    const NAME: &'static str = "mcp";
    const DICTIONARY: &'static [&'static str] = crate::words::MCP;

    fn read(&mut self, input: &[u8]) -> Result<String, String> {
        let mut headers = vec![("Mcp-Session-Id", self.session.clone())];
        let mut answer = self.call(&headers, input.to_vec())?;
        if matches!(answer.status, 400 | 404) {
            self.begin()?;
            headers = vec![("Mcp-Session-Id", self.session.clone())];
            answer = self.call(&headers, input.to_vec())?;
        }
        let mut words = streamed(&answer);
        let (headers, body) = without_session(input);
        let answer = self.call(&headers, body)?;
        words.push_str(&streamed(&answer));
        Ok(words)
    }
}

/// The message as the newest revision wants it, as far as it can be made so.
fn without_session(input: &[u8]) -> (Vec<(&'static str, String)>, Vec<u8>) {
    const REVISION: &str = "2026-07-28";
    let mut headers = vec![("MCP-Protocol-Version", REVISION.to_owned())];
    let Ok(Value::Object(mut message)) = serde_json::from_slice(input) else {
        return (headers, input.to_vec());
    };
    let method = message.get("method").and_then(Value::as_str);
    headers.extend(method.map(|method| ("Mcp-Method", method.to_owned())));
    let params = message.entry("params").or_insert(Value::Null);
    if params.is_null() {
        *params = json!({});
    }
    let name = params.get("name").or(params.get("uri"));
    let name = name.and_then(Value::as_str).map(str::to_owned);
    headers.extend(name.map(|name| ("Mcp-Name", name)));
    if let Some(params) = params.as_object_mut() {
        params.entry("_meta").or_insert_with(|| {
            json!({
                "io.modelcontextprotocol/protocolVersion": REVISION,
                "io.modelcontextprotocol/clientInfo": {"name": "fuzz", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            })
        });
    }
    (headers, Value::Object(message).to_string().into_bytes())
}

/// The answer in words, where it may be the first event of a stream.
fn streamed(answer: &Answer) -> String {
    let text = String::from_utf8_lossy(&answer.body);
    let mut data = text.lines().filter_map(|line| line.strip_prefix("data:"));
    let first = data.find_map(|data| serde_json::from_str::<Value>(data).ok());
    let mut words = answer.words();
    describe(&first.unwrap_or(Value::Null), 0, &mut words);
    words
}
