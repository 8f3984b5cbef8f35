//! A daemon's API that says what a test wants: answers by route, and streams of news that the test writes and cuts.
//! What the commands make of it is judged here; that the real daemon says the same is judged with the real one.

use crate::world::within;
use serde_json::Value;
use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::process::Command;
use tokio::sync::watch;

/// One call that came in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    /// Method and path with its query.
    pub(crate) line: String,
    pub(crate) after: Option<String>,
    pub(crate) body: Value,
}

/// The API.
pub(crate) struct ScriptedApi {
    directory: TempDir,
    /// A daemon holds it, and so must we.
    _lock: File,
    script: Arc<Script>,
}

struct Script {
    answers: Mutex<HashMap<String, (u16, Value)>>,
    calls: watch::Sender<Vec<Call>>,
    news: watch::Sender<News>,
}

#[derive(Clone, Default)]
struct News {
    events: Vec<String>,
    /// Streams that were opened before the newest cut end.
    cuts: u32,
}

impl ScriptedApi {
    pub(crate) fn start() -> Self {
        let directory = tempfile::Builder::new().prefix("cb-").tempdir().unwrap();
        let lock = File::create(directory.path().join("lock")).unwrap();
        std::fs::write(
            directory.path().join("lock"),
            std::process::id().to_string(),
        )
        .unwrap();
        lock.lock().unwrap();
        let listener = UnixListener::bind(directory.path().join("api.sock")).unwrap();
        let script = Arc::new(Script {
            answers: Mutex::default(),
            calls: watch::Sender::default(),
            news: watch::Sender::default(),
        });
        let serving = script.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let script = serving.clone();
                tokio::spawn(async move { script.serve(stream).await });
            }
        });
        Self {
            directory,
            _lock: lock,
            script,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The built binary against this API.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_codex-bridge"));
        command
            .arg("--state-dir")
            .arg(self.path())
            .args(args)
            .current_dir(self.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// What a call gets: `GET /v1/tasks/x`, without the query.
    pub(crate) fn answers(&self, route: &str, status: u16, body: Value) {
        let mut answers = self.script.answers.lock().unwrap();
        answers.insert(route.to_owned(), (status, body));
    }

    /// Says something on every stream of news; its number is its id.
    pub(crate) fn says(&self, name: &str, data: &Value) {
        self.script.news.send_modify(|news| {
            let id = news.events.len() + 1;
            news.events
                .push(format!("event: {name}\nid: {id}\ndata: {data}\n\n"));
        });
    }

    /// Ends every stream of news.
    pub(crate) fn cuts(&self) {
        self.script.news.send_modify(|news| news.cuts += 1);
    }

    /// Waits for the newest of `times` calls that begin so.
    pub(crate) async fn called(&self, line: &str, times: usize) -> Call {
        let mut calls = self.script.calls.subscribe();
        let those = |calls: &Vec<Call>| {
            calls
                .iter()
                .filter(|call| call.line.starts_with(line))
                .count()
        };
        let seen = within(line, calls.wait_for(|calls| those(calls) >= times))
            .await
            .unwrap();
        let newest = seen.iter().rfind(|call| call.line.starts_with(line));
        newest.unwrap().clone()
    }

    /// How many calls begin so.
    pub(crate) fn times(&self, line: &str) -> usize {
        let calls = self.script.calls.borrow();
        calls
            .iter()
            .filter(|call| call.line.starts_with(line))
            .count()
    }
}

impl Script {
    async fn serve(&self, mut stream: UnixStream) {
        let Some(call) = read(&mut stream).await else {
            return;
        };
        self.calls.send_modify(|calls| calls.push(call.clone()));
        let route = call.line.split('?').next().unwrap_or_default();
        if route.ends_with("/events") {
            return self.stream(stream, &call).await;
        }
        let missing = serde_json::json!({"title": "Not Found", "status": 404, "detail": format!("no answer to {route}")});
        let (status, body) = self
            .answers
            .lock()
            .unwrap()
            .get(route)
            .cloned()
            .unwrap_or((404, missing));
        let body = body.to_string();
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        let _gone = stream.write_all(format!("{head}{body}").as_bytes()).await;
    }

    async fn stream(&self, mut stream: UnixStream, call: &Call) {
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        if stream.write_all(head.as_bytes()).await.is_err() {
            return;
        }
        let mut news = self.news.subscribe();
        let cuts = news.borrow().cuts;
        let mut told: usize = call
            .after
            .as_deref()
            .and_then(|id| id.parse().ok())
            .unwrap_or(0);
        loop {
            let now = news.borrow_and_update().clone();
            for event in now.events.iter().skip(told) {
                if stream.write_all(event.as_bytes()).await.is_err() {
                    return;
                }
            }
            told = told.max(now.events.len());
            if now.cuts != cuts || news.changed().await.is_err() {
                return;
            }
        }
    }
}

async fn read(stream: &mut UnixStream) -> Option<Call> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        let mut more = [0; 4096];
        match stream.read(&mut more).await.ok()? {
            0 => return None,
            count => bytes.extend_from_slice(&more[..count]),
        }
    };
    let mut body = bytes.split_off(head + 4);
    let text = String::from_utf8(bytes).ok()?;
    let header = |name: &str| {
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        fields
            .filter(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim().to_owned())
            .next()
    };
    let length: usize = header("content-length")
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    let have = body.len();
    body.resize(length, 0);
    if length > have {
        stream.read_exact(&mut body[have..]).await.ok()?;
    }
    let line = text
        .lines()
        .next()?
        .trim_end_matches(" HTTP/1.1")
        .to_owned();
    Some(Call {
        line,
        after: header("last-event-id"),
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    })
}
