//! A minimal client of the real Codex: `codex app-server` on a pipe, one request at a time, everything else skipped.
//! It is the floor that the bridge is held against, so it does nothing that it could leave out.

use super::{PATIENCE, Place};
use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// What the daemon starts Codex with, so that both pay for the same.
pub(crate) const SETTINGS: [&str; 5] = [
    "features.plugins=false",
    "features.unbounded_connection_retries=false",
    "features.shell_snapshot=false",
    "analytics.enabled=false",
    "check_for_update_on_startup=false",
];

/// How long one turn took.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) first_token: Option<Duration>,
    pub(crate) whole: Duration,
    pub(crate) text: String,
}

#[derive(Debug)]
pub(crate) struct AppServer {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    id: u64,
}

impl AppServer {
    /// Starts it and shakes hands.
    pub(crate) async fn start(codex: &Path, place: &Place) -> anyhow::Result<Self> {
        let mut command = Command::new(codex);
        command.arg("app-server");
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        let mut child = command
            .envs(place.env())
            .current_dir(place.path().join("work"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("start codex app-server")?;
        let input = child.stdin.take().context("no stdin")?;
        let output = child.stdout.take().context("no stdout")?;
        let mut server = Self {
            child,
            input,
            output: BufReader::new(output).lines(),
            id: 0,
        };
        let hello = json!({
            "clientInfo": {"name": "bench", "version": "0"},
            "capabilities": {"experimentalApi": true},
        });
        server.call("initialize", hello).await?;
        server.write(&json!({"method": "initialized"})).await?;
        Ok(server)
    }

    pub(crate) fn pid(&self) -> anyhow::Result<i32> {
        let pid = self.child.id().context("codex has ended")?;
        Ok(i32::try_from(pid)?)
    }

    /// A new thread; `extra` goes into `thread/start` (`historyMode`, `ephemeral`).
    pub(crate) async fn thread(&mut self, extra: Value) -> anyhow::Result<String> {
        let mut params = json!({
            "approvalPolicy": "never",
            "sandbox": "read-only",
        });
        if let (Some(params), Value::Object(extra)) = (params.as_object_mut(), extra) {
            params.extend(extra);
        }
        let started = self.call("thread/start", params).await?;
        let id = started.pointer("/thread/id").and_then(Value::as_str);
        Ok(id.context("a thread without an id")?.to_owned())
    }

    /// One turn, from the first byte written to `turn/completed` read.
    pub(crate) async fn turn(&mut self, thread: &str, text: &str) -> anyhow::Result<Turn> {
        let began = Instant::now();
        let params = json!({
            "threadId": thread,
            "input": [{"type": "text", "text": text}],
        });
        self.request("turn/start", params).await?;
        let mut turn = Turn {
            first_token: None,
            whole: Duration::ZERO,
            text: String::new(),
        };
        loop {
            let line = self.read().await?;
            match line.get("method").and_then(Value::as_str) {
                Some("item/agentMessage/delta") => {
                    turn.first_token.get_or_insert_with(|| began.elapsed());
                    let delta = line.pointer("/params/delta").and_then(Value::as_str);
                    turn.text.push_str(delta.unwrap_or_default());
                }
                Some("turn/completed") => {
                    turn.whole = began.elapsed();
                    let status = line.pointer("/params/turn/status").and_then(Value::as_str);
                    ensure!(status == Some("completed"), "a turn ended badly: {line}");
                    return Ok(turn);
                }
                Some(_) => {}
                None => ensure!(line.get("error").is_none(), "codex refused: {line}"),
            }
        }
    }

    /// Writes the starts of turns on all these threads, then reads until all have ended.
    pub(crate) async fn turns(
        &mut self,
        threads: &[String],
        text: &str,
    ) -> anyhow::Result<Duration> {
        let began = Instant::now();
        for thread in threads {
            let params = json!({"threadId": thread, "input": [{"type": "text", "text": text}]});
            self.request("turn/start", params).await?;
        }
        let mut left = threads.len();
        while left > 0 {
            let line = self.read().await?;
            match line.get("method").and_then(Value::as_str) {
                Some("turn/completed") => {
                    let status = line.pointer("/params/turn/status").and_then(Value::as_str);
                    ensure!(status == Some("completed"), "a turn ended badly: {line}");
                    left -= 1;
                }
                Some(_) => {}
                None => ensure!(line.get("error").is_none(), "codex refused: {line}"),
            }
        }
        Ok(began.elapsed())
    }

    /// A request and its answer; notifications between them are skipped.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> anyhow::Result<Value> {
        let id = self.request(method, params).await?;
        loop {
            let mut line = self.read().await?;
            if line.get("id").and_then(Value::as_u64) != Some(id) {
                continue;
            }
            if let Some(error) = line.get("error") {
                bail!("codex refused {method}: {error}");
            }
            return Ok(line["result"].take());
        }
    }

    async fn request(&mut self, method: &str, params: Value) -> anyhow::Result<u64> {
        self.id += 1;
        let id = self.id;
        let line = json!({"id": id, "method": method, "params": params});
        self.write(&line).await?;
        Ok(id)
    }

    async fn write(&mut self, line: &Value) -> anyhow::Result<()> {
        let text = format!("{line}\n");
        self.input.write_all(text.as_bytes()).await?;
        Ok(())
    }

    async fn read(&mut self) -> anyhow::Result<Value> {
        let line = timeout(PATIENCE, self.output.next_line()).await;
        let line = line.context("codex says nothing")??;
        Ok(serde_json::from_str(&line.context("codex has ended")?)?)
    }

    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("kill codex app-server")
    }
}
