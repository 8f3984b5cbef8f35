//! A minimal client of the real Codex: `codex app-server` on a pipe, one request at a time, everything else skipped.
//! It is the floor that the bridge is held against, so it does nothing that it could leave out.

use super::{PATIENCE, Place};
use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use std::collections::BTreeMap;
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

/// The longest time of a turn, or of turns at the same time, however much they say: some are held until everything
/// else of their part is ready.
const TURN_MOST: Duration = Duration::from_secs(300);

/// How long one turn took.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) first_token: Option<Duration>,
    pub(crate) whole: Duration,
    pub(crate) text: String,
}

/// How long turns at the same time took, to the end of the last; and what each of them said, in the order of their
/// ends.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    pub(crate) whole: Duration,
    pub(crate) texts: Vec<String>,
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
        let turn = timeout(TURN_MOST, self.follow(thread, text)).await;
        turn.context("a turn does not end")?
    }

    async fn follow(&mut self, thread: &str, text: &str) -> anyhow::Result<Turn> {
        let began = Instant::now();
        self.begin(thread, text).await?;
        let mut turn = Turn {
            first_token: None,
            whole: Duration::ZERO,
            text: String::new(),
        };
        loop {
            let line = self.read().await?;
            match hear(&line)? {
                Heard::Delta { text, .. } => {
                    turn.first_token.get_or_insert_with(|| began.elapsed());
                    turn.text.push_str(text);
                }
                Heard::Ended { .. } => {
                    turn.whole = began.elapsed();
                    return Ok(turn);
                }
                Heard::Other => {}
            }
        }
    }

    /// Writes the starts of turns on all these threads, then reads until all have ended.
    pub(crate) async fn turns(&mut self, threads: &[String], text: &str) -> anyhow::Result<Turns> {
        let turns = timeout(TURN_MOST, self.follow_all(threads, text)).await;
        turns.context("turns at the same time do not end")?
    }

    async fn follow_all(&mut self, threads: &[String], text: &str) -> anyhow::Result<Turns> {
        let began = Instant::now();
        for thread in threads {
            self.begin(thread, text).await?;
        }
        let mut running: BTreeMap<&str, String> = threads
            .iter()
            .map(|thread| (thread.as_str(), String::new()))
            .collect();
        let mut texts = Vec::new();
        while !running.is_empty() {
            let line = self.read().await?;
            match hear(&line)? {
                Heard::Delta { thread, text } => {
                    if let Some(said) = running.get_mut(thread) {
                        said.push_str(text);
                    }
                }
                Heard::Ended { thread } => texts.extend(running.remove(thread)),
                Heard::Other => {}
            }
        }
        Ok(Turns {
            whole: began.elapsed(),
            texts,
        })
    }

    async fn begin(&mut self, thread: &str, text: &str) -> anyhow::Result<()> {
        let input = json!([{"type": "text", "text": text}]);
        let params = json!({"threadId": thread, "input": input});
        self.request("turn/start", params).await.map(drop)
    }

    /// A request and its answer; notifications between them are skipped.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> anyhow::Result<Value> {
        let answer = timeout(PATIENCE, self.exchange(method, params)).await;
        answer.with_context(|| format!("codex does not answer {method}"))?
    }

    async fn exchange(&mut self, method: &str, params: Value) -> anyhow::Result<Value> {
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
        let written = timeout(PATIENCE, self.input.write_all(text.as_bytes())).await;
        Ok(written.context("codex does not read")??)
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

/// What a line says of turns.
#[derive(Debug, PartialEq, Eq)]
enum Heard<'a> {
    /// A piece of an answer.
    Delta {
        thread: &'a str,
        text: &'a str,
    },
    /// A turn has come to a good end.
    Ended {
        thread: &'a str,
    },
    Other,
}

/// A turn that ended badly, or was refused, is an error.
fn hear(line: &Value) -> anyhow::Result<Heard<'_>> {
    let word = |pointer: &str| line.pointer(pointer).and_then(Value::as_str);
    let thread = word("/params/threadId").unwrap_or_default();
    match line.get("method").and_then(Value::as_str) {
        Some("item/agentMessage/delta") => Ok(Heard::Delta {
            thread,
            text: word("/params/delta").unwrap_or_default(),
        }),
        Some("turn/completed") => {
            let status = word("/params/turn/status");
            ensure!(status == Some("completed"), "a turn ended badly: {line}");
            Ok(Heard::Ended { thread })
        }
        Some(_) => Ok(Heard::Other),
        None => {
            ensure!(line.get("error").is_none(), "codex refused: {line}");
            Ok(Heard::Other)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_good_end_is_an_end() {
        let end = |status: &str| {
            json!({
                "method": "turn/completed",
                "params": {"threadId": "t", "turn": {"status": status}},
            })
        };
        assert_eq!(
            hear(&end("completed")).unwrap(),
            Heard::Ended { thread: "t" }
        );
        assert!(hear(&end("failed")).is_err());
        assert!(hear(&json!({"id": 1, "error": {}})).is_err());
        let delta = json!({
            "method": "item/agentMessage/delta",
            "params": {"threadId": "t", "delta": "so"},
        });
        let heard = Heard::Delta {
            thread: "t",
            text: "so",
        };
        assert_eq!(hear(&delta).unwrap(), heard);
        assert_eq!(hear(&json!({"id": 1, "result": {}})).unwrap(), Heard::Other);
    }
}
