//! Another agent on the wire: plain HTTP against the built daemon, and what its streams of events amount to.

use crate::world::{World, within};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use std::path::Path;

/// What a daemon needs to be called over TCP.
pub(crate) const SETTINGS: &str = "[http]\nlisten = \"127.0.0.1:0\"\n";

/// Asks for what came behind the last event instead of the whole task.
const RESUME: &str =
    "https://github.com/codex-bridge/codex-bridge/blob/main/docs/guides/a2a.md#resume";

/// Whoever calls.
pub(crate) struct Wire {
    client: Client,
    pub(crate) base: String,
    pub(crate) token: String,
}

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) seq: u64,
    pub(crate) event: Value,
}

/// An open stream, and what was assembled from it.
pub(crate) struct Events {
    response: Response,
    unread: String,
    pub(crate) told: Vec<Told>,
}

/// A message of a user.
pub(crate) fn said(id: &str, text: &str) -> Value {
    json!({"messageId": id, "role": "ROLE_USER", "parts": [{"text": text}]})
}

impl Wire {
    /// Calls the daemon that serves this world now, as its owner.
    pub(crate) async fn of(world: &World) -> Self {
        Self::at(&world.state_dir(), world.owner_token().await)
    }

    /// Calls the daemon with this state directory.
    pub(crate) fn at(state_dir: &Path, token: String) -> Self {
        let listen = std::fs::read_to_string(state_dir.join("listen")).unwrap();
        Self {
            client: Client::builder().tls_certs_only([]).build().unwrap(),
            base: format!("http://{}", listen.trim()),
            token,
        }
    }

    pub(crate) fn call(&self, method: Method, path: &str) -> RequestBuilder {
        self.client
            .request(method, format!("{}{path}", self.base))
            .bearer_auth(&self.token)
            .header("A2A-Version", "1.0")
    }

    /// A call over JSON-RPC.
    pub(crate) fn rpc(&self, method: &str, params: &Value) -> RequestBuilder {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.call(Method::POST, "/a2a").json(&body)
    }

    /// Its whole answer.
    pub(crate) async fn answer(&self, method: &str, params: &Value) -> Value {
        let call = self.rpc(method, params).send();
        let response = within("an answer", call).await.unwrap();
        within("its body", response.json()).await.unwrap()
    }

    /// How a task is.
    pub(crate) async fn task(&self, id: &str) -> Value {
        self.answer("GetTask", &json!({"id": id})).await["result"].clone()
    }

    /// Sends a message and follows it.
    pub(crate) async fn stream(&self, message: Value) -> Events {
        let params = json!({"message": message});
        Events::of(self.rpc("SendStreamingMessage", &params)).await
    }

    /// Follows a task over HTTP+JSON, behind an event or from now on.
    pub(crate) async fn subscribe(&self, id: &str, after: Option<u64>) -> Events {
        let mut call = self.call(Method::POST, &format!("/a2a/tasks/{id}:subscribe"));
        if let Some(after) = after {
            call = call
                .header("Last-Event-ID", after.to_string())
                .header("A2A-Extensions", RESUME);
        }
        Events::of(call).await
    }
}

impl Events {
    async fn of(call: RequestBuilder) -> Self {
        let response = within("a stream", call.send()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let kind = response.headers()["content-type"].to_str().unwrap();
        assert!(kind.starts_with("text/event-stream"), "{kind}");
        Self {
            response,
            unread: String::new(),
            told: Vec::new(),
        }
    }

    /// The next event; none at the end.
    pub(crate) async fn next(&mut self) -> Option<Told> {
        loop {
            if let Some((event, rest)) = self.unread.split_once("\n\n") {
                let event = read(event);
                self.unread = rest.to_owned();
                if let Some(told) = event {
                    self.told.push(told.clone());
                    return Some(told);
                }
                continue;
            }
            let more = within("an event", self.response.chunk()).await.unwrap()?;
            self.unread.push_str(std::str::from_utf8(&more).unwrap());
        }
    }

    /// Reads until an event is the one that is wanted.
    pub(crate) async fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Told {
        loop {
            match self.next().await {
                Some(told) if wanted(&told.event) => return told,
                Some(_) => {}
                None => panic!("the stream ended before: {:#?}", self.told),
            }
        }
    }

    /// Reads to the end.
    pub(crate) async fn rest(mut self) -> Vec<Told> {
        while self.next().await.is_some() {}
        self.told
    }

    /// The task that it is about.
    pub(crate) fn task_id(&self) -> String {
        let first = &self.told[0].event["task"];
        first["id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn last_seq(&self) -> u64 {
        self.told.last().unwrap().seq
    }
}

fn read(event: &str) -> Option<Told> {
    let line = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
    let data: Value = serde_json::from_str(line("data:")?.trim()).unwrap();
    let event = match data.get("jsonrpc") {
        Some(_) => data["result"].clone(),
        None => data,
    };
    let seq: u64 = line("id:").unwrap().trim().parse().unwrap();
    let (_, body) = event.as_object().unwrap().iter().next().unwrap();
    assert_eq!(body["metadata"]["codex-bridge/sequence"], seq, "{event}");
    Some(Told { seq, event })
}

/// The text of the answer, as a client assembles it; numbers must have no gap.
pub(crate) fn assembled(told: &[Told]) -> String {
    let mut text = String::new();
    for (n, one) in told.iter().enumerate() {
        if n > 0 {
            assert_eq!(one.seq, told[n - 1].seq + 1, "{told:#?}");
        }
        let update = &one.event["artifactUpdate"];
        if one.event.get("task").is_some() {
            text = text_of(&one.event["task"]["artifacts"]);
        } else if !update.is_null() {
            if update["append"] != true {
                text.clear();
            }
            text.push_str(&text_of(&json!([update["artifact"]])));
        }
    }
    text
}

/// The text of these artifacts.
pub(crate) fn text_of(artifacts: &Value) -> String {
    let artifacts = artifacts.as_array().into_iter().flatten();
    let parts = artifacts.flat_map(|one| one["parts"].as_array().unwrap());
    parts.filter_map(|part| part["text"].as_str()).collect()
}

/// The state that an event tells of.
pub(crate) fn state(event: &Value) -> Option<&str> {
    let status = [
        &event["statusUpdate"]["status"]["state"],
        &event["task"]["status"]["state"],
    ];
    status.into_iter().find_map(Value::as_str)
}
