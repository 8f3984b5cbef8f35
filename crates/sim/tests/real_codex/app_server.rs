//! The real `codex app-server` against the scripted model, for what `exec` does not show:
//! the phase of a message, the class of a failure, the reset of a usage limit.
//! The client here is the least that works; the real one is the bridge's.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::home::{Home, RUN_LIMIT};
use bridge_sim::{Options, ScriptedModel};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

struct AppServer {
    _child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl AppServer {
    async fn start(home: &Home) -> Self {
        let mut child = home.codex("app-server").spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut server = Self {
            _child: child,
            stdin,
            lines,
        };
        let client = json!({"name": "sim", "title": null, "version": "0"});
        server
            .call(1, "initialize", json!({ "clientInfo": client }))
            .await;
        server.send(json!({"method": "initialized"})).await;
        server
    }

    async fn send(&mut self, message: Value) {
        self.stdin
            .write_all(format!("{message}\n").as_bytes())
            .await
            .unwrap();
    }

    async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(RUN_LIMIT, self.lines.next_line());
        serde_json::from_str(&line.await.unwrap().unwrap().unwrap()).unwrap()
    }

    async fn call(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(json!({"id": id, "method": method, "params": params}))
            .await;
        loop {
            let message = self.next().await;
            if message["id"] == id {
                return message["result"].clone();
            }
        }
    }

    /// Runs one turn on a new thread; gives its notifications.
    async fn turn(&mut self, text: &str) -> Vec<Value> {
        let started = self
            .call(2, "thread/start", json!({"sandbox": "read-only"}))
            .await;
        let input = json!([{"type": "text", "text": text}]);
        let params = json!({"threadId": started["thread"]["id"], "input": input});
        self.send(json!({"id": 3, "method": "turn/start", "params": params}))
            .await;
        let mut notifications = Vec::new();
        loop {
            let message = self.next().await;
            let ended = message["method"] == "turn/completed";
            notifications.push(message);
            if ended {
                return notifications;
            }
        }
    }
}

fn messages(notifications: &[Value]) -> Vec<(&Value, &Value)> {
    notifications
        .iter()
        .filter(|message| message["method"] == "item/completed")
        .map(|message| &message["params"]["item"])
        .filter(|item| item["type"] == "agentMessage")
        .map(|item| (&item["text"], &item["phase"]))
        .collect()
}

fn turn(notifications: &[Value]) -> &Value {
    &notifications.last().unwrap()["params"]["turn"]
}

#[tokio::test]
async fn phases_reach_the_client() {
    let model = ScriptedModel::start(Options::default()).await.unwrap();
    let home = Home::new(&model);
    let mut codex = AppServer::start(&home).await;
    let seen = codex.turn("say:looking phase:final_answer echo:done").await;
    let expected = [
        (&json!("looking"), &json!("commentary")),
        (&json!("done"), &json!("final_answer")),
    ];
    assert_eq!(messages(&seen), expected);
    assert_eq!(turn(&seen)["items"][0]["text"], "done");
    let seen = codex.turn("echo:unmarked").await;
    assert_eq!(messages(&seen), [(&json!("unmarked"), &Value::Null)]);
}

#[tokio::test]
async fn usage_limit_reports_reset_time() {
    let model = ScriptedModel::start(Options::default()).await.unwrap();
    let home = Home::new(&model);
    let mut codex = AppServer::start(&home).await;
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let seen = codex.turn("usage_limit:3600").await;
    assert_eq!(turn(&seen)["status"], "failed");
    assert_eq!(turn(&seen)["error"]["codexErrorInfo"], "usageLimitExceeded");
    let limits = seen
        .iter()
        .find(|message| message["method"] == "account/rateLimits/updated");
    let primary = &limits.unwrap()["params"]["rateLimits"]["primary"];
    assert_eq!(primary["usedPercent"], 100);
    assert!(
        primary["resetsAt"].as_u64().unwrap() >= now + 3600,
        "{primary}"
    );
    assert_eq!(model.requests().len(), 1, "a usage limit is not retried");
}

#[tokio::test]
async fn failures_have_their_class() {
    let model = ScriptedModel::start(Options::default()).await.unwrap();
    let home = Home::new(&model);
    let mut codex = AppServer::start(&home).await;
    for (text, class) in [
        ("fail:500", json!("internalServerError")),
        (
            "fail:401",
            json!({"httpConnectionFailed": {"httpStatusCode": 401}}),
        ),
        (
            "fail:429",
            json!({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}),
        ),
        (
            "sse_fail:context_length_exceeded",
            json!("contextWindowExceeded"),
        ),
        ("sse_fail:insufficient_quota", json!("usageLimitExceeded")),
    ] {
        let seen = codex.turn(text).await;
        assert_eq!(turn(&seen)["error"]["codexErrorInfo"], class, "{text}");
    }
}
