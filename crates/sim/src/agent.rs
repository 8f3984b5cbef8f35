//! Another agent on loopback that speaks A2A 1.0 over JSON-RPC, as far as a caller needs it: it answers, holds its
//! answer, asks back, knows a repeat by its key, and remembers what it heard.
//!
//! It is the least that works, written from the specification: what it judges must not judge itself.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Json, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::Error;
use crate::serving::Serving;

/// By what name a card says that it knows repeats.
const IDEMPOTENCY: &str =
    "https://github.com/codex-bridge/codex-bridge/blob/main/docs/guides/a2a.md#idempotency";
/// How long [`PeerAgent::wait_for`] waits.
const PATIENCE: Duration = Duration::from_secs(60);
/// Tasks that are remembered.
const TASKS_MAX: usize = 4_096;

/// An agent on 127.0.0.1.
///
/// | message | what it does |
/// | --- | --- |
/// | `hold:NAME` in it | answers when [`PeerAgent::release`] opens that gate |
/// | `which?` in it | asks back, and is done with the next message |
/// | anything else | answers `you said: TEXT` |
#[derive(Debug)]
pub struct PeerAgent {
    address: SocketAddr,
    ground: Shared,
    _serving: Serving,
}

type Shared = Arc<watch::Sender<Ground>>;

/// What the agent knows.
#[derive(Clone, Debug, Default)]
pub struct Ground {
    /// Every message that was sent, repeats too.
    pub heard: Vec<Heard>,
    /// Every task, oldest first.
    pub tasks: Vec<Task>,
    open: Vec<String>,
}

/// A message as it came.
#[derive(Clone, Debug)]
pub struct Heard {
    /// The caller's own id.
    pub message_id: String,
    /// What it says.
    pub text: String,
    /// The whole of it.
    pub message: Value,
    /// The task that it became, or was.
    pub task: usize,
}

/// One piece of work.
#[derive(Clone, Debug)]
pub struct Task {
    /// As A2A writes it, without the prefix.
    pub state: &'static str,
    text: String,
    context: String,
    key: Option<Value>,
}

impl Task {
    fn is_settled(&self) -> bool {
        matches!(self.state, "COMPLETED" | "CANCELED" | "INPUT_REQUIRED")
    }

    /// What it waits for, if it does.
    fn gate(&self) -> Option<&str> {
        let (_, rest) = self.text.split_once("hold:")?;
        rest.split_whitespace().next()
    }

    fn shown(&self, id: usize) -> Value {
        let mut shown = json!({"id": name(id), "contextId": self.context, "status": self.status()});
        if self.state == "COMPLETED"
            && let Some(fields) = shown.as_object_mut()
        {
            fields.insert("artifacts".to_owned(), json!([self.artifact()]));
        }
        shown
    }

    fn status(&self) -> Value {
        let state = format!("TASK_STATE_{}", self.state);
        match self.state {
            "INPUT_REQUIRED" => {
                let part = json!({"text": "which one do you mean?"});
                json!({"state": state, "message": {"messageId": "q", "role": "ROLE_AGENT", "parts": [part]}})
            }
            _ => json!({ "state": state }),
        }
    }

    fn artifact(&self) -> Value {
        json!({"artifactId": "answer", "parts": [{"text": format!("you said: {}", self.text)}]})
    }
}

impl Ground {
    fn say(&mut self, message: &Value) -> usize {
        let text = |key: &str| message.get(key).and_then(Value::as_str).map(str::to_owned);
        let key = message
            .pointer("/metadata")
            .and_then(|all| all.get(IDEMPOTENCY));
        let words = message.pointer("/parts/0/text").and_then(Value::as_str);
        let words = words.unwrap_or_default().to_owned();
        let known = self
            .tasks
            .iter()
            .position(|task| key.is_some() && task.key.as_ref() == key);
        let meant = text("taskId").and_then(|task| number(&task));
        let task = match (known, meant) {
            (Some(known), _) => known,
            (None, Some(meant)) => {
                if let Some(task) = self.tasks.get_mut(meant) {
                    (task.state, task.text) = ("COMPLETED", words.clone());
                }
                meant
            }
            (None, None) => {
                let context = text("contextId").unwrap_or_else(|| "its-own".to_owned());
                self.tasks.push(Task {
                    state: "WORKING",
                    text: words.clone(),
                    context,
                    key: key.cloned(),
                });
                self.tasks.len() - 1
            }
        };
        self.heard.push(Heard {
            message_id: text("messageId").unwrap_or_default(),
            text: words,
            message: message.clone(),
            task,
        });
        self.work();
        task
    }

    /// Finishes what waits for nothing.
    fn work(&mut self) {
        for task in &mut self.tasks {
            let held = task
                .gate()
                .is_some_and(|gate| !self.open.iter().any(|open| open == gate));
            if task.state == "WORKING" && !held {
                task.state = if task.text.contains("which?") {
                    "INPUT_REQUIRED"
                } else {
                    "COMPLETED"
                };
            }
        }
    }
}

fn name(task: usize) -> String {
    format!("task-{task}")
}

fn number(task: &str) -> Option<usize> {
    task.strip_prefix("task-")?.parse().ok()
}

impl PeerAgent {
    /// Binds to 127.0.0.1 and serves from then on.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let ground: Shared = Arc::default();
        let card = card(&format!("http://{address}/a2a"));
        let app = Router::new()
            .route(
                "/.well-known/agent-card.json",
                get(async move || Json(card)),
            )
            .route("/a2a", post(serve))
            .with_state(Arc::clone(&ground));
        let serving = Serving::start(async move |stop| {
            let served = axum::serve(listener, app).with_graceful_shutdown(stop.cancelled_owned());
            if let Err(error) = served.await {
                tracing::error!(%error, "the agent can't serve");
            }
        });
        Ok(Self {
            address,
            ground,
            _serving: serving,
        })
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Opens the gate of `hold:NAME`.
    pub fn release(&self, name: &str) {
        self.ground.send_modify(|ground| {
            ground.open.push(name.to_owned());
            ground.work();
        });
    }

    /// What it knows now.
    pub fn ground(&self) -> Ground {
        self.ground.borrow().clone()
    }

    /// Waits until it knows something.
    pub async fn wait_for(
        &self,
        what: &str,
        known: impl FnMut(&Ground) -> bool,
    ) -> Result<Ground, Error> {
        let mut heard = self.ground.subscribe();
        match tokio::time::timeout(PATIENCE, heard.wait_for(known)).await {
            Ok(Ok(ground)) => Ok(ground.clone()),
            Ok(Err(_)) | Err(_) => Err(Error::NeverOnPlatform {
                what: what.to_owned(),
                waited: PATIENCE,
                events: self.ground().heard.len(),
            }),
        }
    }
}

fn card(url: &str) -> Value {
    json!({
        "name": "peer", "description": "a peer", "version": "1",
        "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "capabilities": {"streaming": true, "extensions": [{"uri": IDEMPOTENCY}]},
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "skills": [],
    })
}

fn result(value: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "result": value})
}

async fn serve(State(ground): State<Shared>, Json(call): Json<Value>) -> Response {
    let null = Value::Null;
    let params = call.get("params").unwrap_or(&null);
    let mut task = params.get("id").and_then(Value::as_str).and_then(number);
    let method = call
        .get("method")
        .and_then(Value::as_str)
        .unwrap_or_default();
    ground.send_modify(|ground| match (method, params.get("message")) {
        ("SendMessage" | "SendStreamingMessage", Some(message))
            if ground.tasks.len() < TASKS_MAX =>
        {
            task = Some(ground.say(message));
        }
        ("CancelTask", _) => {
            let ended = task.and_then(|task| ground.tasks.get_mut(task));
            if let Some(task) = ended.filter(|task| !task.is_settled()) {
                task.state = "CANCELED";
            }
        }
        _ => {}
    });
    let shown = task.and_then(|id| Some((id, ground.borrow().tasks.get(id)?.shown(id))));
    let Some((id, shown)) = shown else {
        let error = json!({"code": -32001, "message": "no such task"});
        return Json(json!({"jsonrpc": "2.0", "id": 1, "error": error})).into_response();
    };
    match method {
        "SendStreamingMessage" | "SubscribeToTask" => tell(&ground, id, &shown),
        "SendMessage" => Json(result(&json!({ "task": shown }))).into_response(),
        _ => Json(result(&shown)).into_response(),
    }
}

/// The task as it is, and its end when that comes.
fn tell(ground: &Shared, id: usize, shown: &Value) -> Response {
    let first = result(&json!({ "task": shown }));
    let mut changes = ground.subscribe();
    let end = async move {
        let settled = |ground: &Ground| ground.tasks.get(id).is_some_and(Task::is_settled);
        let Ok(ground) = changes.wait_for(settled).await else {
            return Vec::new();
        };
        let Some(task) = ground.tasks.get(id) else {
            return Vec::new();
        };
        let about = |key: &str, more: (&str, Value)| {
            let mut event = json!({"taskId": name(id), "contextId": task.context});
            if let Some(fields) = event.as_object_mut() {
                fields.insert(more.0.to_owned(), more.1);
            }
            result(&json!({ key: event }))
        };
        let mut events = Vec::new();
        if task.state == "COMPLETED" {
            events.push(about("artifactUpdate", ("artifact", task.artifact())));
        }
        events.push(about("statusUpdate", ("status", task.status())));
        events
    };
    let events = stream::iter([first]).chain(stream::once(end).flat_map(stream::iter));
    let bytes = events.map(|event| Ok::<_, Infallible>(Bytes::from(format!("data: {event}\n\n"))));
    (
        [(CONTENT_TYPE, "text/event-stream")],
        Body::from_stream(bytes),
    )
        .into_response()
}
