//! Another agent that calls the built daemon over A2A with a token of its own: the rig of the tests about peers.

use crate::world::{World, in_the_end, within};
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use std::path::Path;

/// A daemon that other agents can call.
pub(crate) const SERVED: &str = "[http]\nlisten = \"127.0.0.1:0\"\n";

/// One agent.
pub(crate) struct Agent {
    client: Client,
    pub(crate) base: String,
    pub(crate) token: String,
}

/// A message of a user, in a context or a task if it names one.
pub(crate) fn said(id: &str, text: &str, place: &Value) -> Value {
    let mut message = json!({"messageId": id, "role": "ROLE_USER", "parts": [{"text": text}]});
    for (key, value) in place.as_object().into_iter().flatten() {
        message[key] = value.clone();
    }
    message
}

/// The state of a task, without what all of them begin with.
pub(crate) fn state(task: &Value) -> &str {
    let state = task["status"]["state"].as_str().unwrap_or("none");
    state.trim_start_matches("TASK_STATE_")
}

/// What a task says about how it stands.
pub(crate) fn why(task: &Value) -> String {
    let parts = task["status"]["message"]["parts"].as_array();
    let texts = parts.into_iter().flatten();
    let texts: Vec<_> = texts.filter_map(|part| part["text"].as_str()).collect();
    texts.join("\n")
}

/// The texts of its artifacts.
pub(crate) fn answers(task: &Value) -> Vec<String> {
    let artifacts = task["artifacts"].as_array().into_iter().flatten();
    let text = |artifact: &Value| {
        let parts = artifact["parts"].as_array().unwrap().iter();
        parts.filter_map(|part| part["text"].as_str()).collect()
    };
    artifacts.map(text).collect()
}

impl Agent {
    /// A peer that is made for it.
    pub(crate) async fn new(world: &World, name: &str) -> Self {
        let made = world.run(&["peers", "add", name]).await;
        assert_eq!(made.code, Some(0), "{made:?}");
        assert!(made.stderr.contains("/a2a"), "{made:?}");
        Self::with_token(world, made.stdout.trim())
    }

    pub(crate) fn with_token(world: &World, token: &str) -> Self {
        Self::at(&world.state_dir(), token)
    }

    /// Of the daemon with this state directory.
    pub(crate) fn at(state: &Path, token: &str) -> Self {
        let listen = std::fs::read_to_string(state.join("listen")).unwrap();
        Self {
            client: Client::builder().tls_certs_only([]).build().unwrap(),
            base: format!("http://{}", listen.trim()),
            token: token.to_owned(),
        }
    }

    pub(crate) fn call(&self, method: &str, path: &str) -> RequestBuilder {
        self.unnamed(method, path).bearer_auth(&self.token)
    }

    /// A call that names no token.
    pub(crate) fn unnamed(&self, method: &str, path: &str) -> RequestBuilder {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        self.client
            .request(method, format!("{}{path}", self.base))
            .header("A2A-Version", "1.0")
    }

    /// The whole answer of a call.
    pub(crate) async fn answer(&self, call: RequestBuilder) -> (StatusCode, String) {
        let response = in_the_end("an answer", call.send()).await.unwrap();
        let status = response.status();
        (status, within("its body", response.text()).await.unwrap())
    }

    /// A call over JSON-RPC.
    pub(crate) async fn rpc(&self, method: &str, params: &Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let (_, text) = self.answer(self.call("POST", "/a2a").json(&body)).await;
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{method}: {text}"))
    }

    /// Sends a message and waits until its task rests.
    pub(crate) async fn send(&self, message: Value) -> Value {
        let told = self
            .rpc("SendMessage", &json!({ "message": message }))
            .await;
        let task = told["result"]["task"].clone();
        assert!(task.is_object(), "{told:#}");
        task
    }

    /// Sends a message and does not wait.
    pub(crate) async fn post(&self, message: Value) -> Value {
        let params = json!({"message": message, "configuration": {"returnImmediately": true}});
        let told = self.rpc("SendMessage", &params).await;
        let task = told["result"]["task"].clone();
        assert!(task.is_object(), "{told:#}");
        task
    }

    pub(crate) async fn task(&self, id: &Value) -> Value {
        self.rpc("GetTask", &json!({ "id": id })).await["result"].clone()
    }

    /// Waits until a task is over.
    pub(crate) async fn over(&self, id: &Value) -> Value {
        let path = format!("/a2a/tasks/{}:subscribe", id.as_str().unwrap());
        // Refused where it is over already.
        let _ended = self.answer(self.call("POST", &path)).await;
        self.task(id).await
    }
}
