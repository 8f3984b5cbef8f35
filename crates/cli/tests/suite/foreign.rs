//! Another program at the same Codex: a second app-server on the same CODEX_HOME, as a terminal is one, or a second
//! client on the socket of ours.

use crate::world::{World, within};
use bridge_sim::codex_for_tests;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

/// Texts that may wait; the conversations here are short.
const TEXTS_MAX: usize = 256;

pub(crate) struct Foreign {
    child: Option<Child>,
    outgoing: mpsc::Sender<String>,
    incoming: mpsc::Receiver<String>,
    next_id: u64,
}

impl Foreign {
    /// A second app-server on this world's CODEX_HOME.
    pub(crate) async fn server(world: &World) -> Self {
        let mut child = Command::new(codex_for_tests().unwrap())
            .arg("app-server")
            .args(["-c", "features.plugins=false"])
            .args(["-c", "features.shell_snapshot=false"])
            .args(["-c", "analytics.enabled=false"])
            .env("CODEX_HOME", world.codex_home())
            .current_dir(world.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (outgoing, mut out) = mpsc::channel::<String>(TEXTS_MAX);
        let (heard, incoming) = mpsc::channel(TEXTS_MAX);
        tokio::spawn(async move {
            while let Some(text) = out.recv().await {
                let line = format!("{text}\n");
                if stdin.write_all(line.as_bytes()).await.is_err() {
                    return;
                }
            }
        });
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                if heard.send(line).await.is_err() {
                    return;
                }
            }
        });
        Self::greeted(Some(child), outgoing, incoming).await
    }

    /// A second client on the socket of the one Codex that runs in this world.
    pub(crate) async fn client(world: &World) -> Self {
        Self::client_in(&world.state_dir().join("run")).await
    }

    /// The same where the Codex that runs has its directory in this one.
    pub(crate) async fn client_in(run: &Path) -> Self {
        let run = std::fs::read_dir(run).unwrap();
        let sockets: Vec<_> = run
            .map(|entry| entry.unwrap().path().join("c.sock"))
            .collect();
        assert_eq!(sockets.len(), 1);
        let stream = UnixStream::connect(&sockets[0]).await.unwrap();
        let joined = tokio_tungstenite::client_async("ws://localhost/", stream);
        let (mut sink, mut texts) = joined.await.unwrap().0.split();
        let (outgoing, mut out) = mpsc::channel::<String>(TEXTS_MAX);
        let (heard, incoming) = mpsc::channel(TEXTS_MAX);
        tokio::spawn(async move {
            while let Some(text) = out.recv().await {
                if sink.send(Message::text(text)).await.is_err() {
                    return;
                }
            }
        });
        tokio::spawn(async move {
            while let Some(Ok(frame)) = texts.next().await {
                if let Message::Text(text) = frame
                    && heard.send(text.as_str().to_owned()).await.is_err()
                {
                    return;
                }
            }
        });
        Self::greeted(None, outgoing, incoming).await
    }

    async fn greeted(
        child: Option<Child>,
        outgoing: mpsc::Sender<String>,
        incoming: mpsc::Receiver<String>,
    ) -> Self {
        let mut foreign = Self {
            child,
            outgoing,
            incoming,
            next_id: 1,
        };
        let client = json!({"name": "somebody", "title": null, "version": "0"});
        let hello = json!({"clientInfo": client, "capabilities": {"experimentalApi": true}});
        foreign.call("initialize", hello).await;
        foreign.send(json!({"method": "initialized"})).await;
        foreign
    }

    async fn send(&self, message: Value) {
        self.outgoing.send(message.to_string()).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        let text = within("a text of codex", self.incoming.recv()).await;
        serde_json::from_str(&text.unwrap()).unwrap()
    }

    /// The result of a request that must be granted.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        self.send(json!({"id": id, "method": method, "params": params}))
            .await;
        loop {
            let message = self.next().await;
            if message["id"] == id && message.get("method").is_none() {
                assert_eq!(message.get("error"), None, "{method}");
                return message["result"].clone();
            }
        }
    }

    /// Answers the next thing that Codex asks.
    pub(crate) async fn answer_next(&mut self, result: Value) {
        loop {
            let message = self.next().await;
            if message.get("method").is_some()
                && let Some(id) = message.get("id")
            {
                return self.send(json!({"id": id, "result": result})).await;
            }
        }
    }

    /// Hears up to this notification.
    pub(crate) async fn until(&mut self, method: &str) {
        while self.next().await["method"] != method {}
    }

    /// Begins a turn.
    pub(crate) async fn turn(&mut self, thread: &str, client_id: &str, text: &str) -> Value {
        let input = json!([{"type": "text", "text": text}]);
        let params = json!({"threadId": thread, "input": input, "clientUserMessageId": client_id});
        self.call("turn/start", params).await
    }

    /// Whether the second app-server still runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.as_mut().unwrap().try_wait().unwrap().is_none()
    }

    /// Closes the second app-server as a person closes a terminal.
    pub(crate) async fn quit(self) {
        let Self {
            child, outgoing, ..
        } = self;
        drop(outgoing);
        within("the end of the second codex", child.unwrap().wait())
            .await
            .unwrap();
    }
}
