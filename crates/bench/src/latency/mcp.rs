//! `codex-bridge mcp` as an agent has it: started once, spoken to over its pipes for as long as the agent lives.

use crate::stage::daemon::Daemon;
use crate::stage::{PATIENCE, Place};
use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::time::timeout;

/// The revision of the protocol that is spoken.
const REVISION: &str = "2025-11-25";
/// How long a task may take until its call comes back without its answer, in seconds.
const WAIT_SECS: u64 = 30;

#[derive(Debug)]
pub(crate) struct Mcp {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    id: u64,
}

impl Mcp {
    pub(crate) async fn start(daemon: &Daemon, place: &Place) -> anyhow::Result<Self> {
        let mut child = daemon
            .command(place)
            .arg("mcp")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("start codex-bridge mcp")?;
        let input = child.stdin.take().context("no stdin")?;
        let output = child.stdout.take().context("no stdout")?;
        let mut mcp = Self {
            child,
            input,
            output: BufReader::new(output).lines(),
            id: 0,
        };
        let hello = json!({
            "protocolVersion": REVISION,
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "0"},
        });
        mcp.call("initialize", hello).await?;
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let told = timeout(PATIENCE, mcp.write(&ready)).await;
        told.context("mcp does not read")??;
        Ok(mcp)
    }

    /// One task, from the call to its answer.
    pub(crate) async fn task(&mut self, text: &str, answer: &str) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let arguments = json!({"prompt": text, "wait_seconds": WAIT_SECS});
        let params = json!({"name": "codex_start", "arguments": arguments});
        let said = self.call("tools/call", params).await?;
        let took = began.elapsed();
        let told = said.pointer("/structuredContent/answer");
        ensure!(
            told.and_then(Value::as_str) == Some(answer),
            "codex_start said {said}"
        );
        Ok(took)
    }

    async fn call(&mut self, method: &str, params: Value) -> anyhow::Result<Value> {
        self.id += 1;
        let line = json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params});
        let answer = async {
            self.write(&line).await?;
            self.answer().await
        };
        let answer = timeout(PATIENCE, answer).await;
        let mut answer = answer.with_context(|| format!("mcp does not answer {method}"))??;
        if let Some(error) = answer.get("error") {
            bail!("mcp refused {method}: {error}");
        }
        Ok(answer["result"].take())
    }

    /// Skips what else it says.
    async fn answer(&mut self) -> anyhow::Result<Value> {
        loop {
            let line = self.output.next_line().await?;
            let line: Value = serde_json::from_str(&line.context("mcp has ended")?)?;
            if line.get("id").and_then(Value::as_u64) == Some(self.id) {
                return Ok(line);
            }
        }
    }

    async fn write(&mut self, line: &Value) -> anyhow::Result<()> {
        let text = format!("{line}\n");
        self.input.write_all(text.as_bytes()).await?;
        self.input.flush().await?;
        Ok(())
    }

    /// Ends as its client does: by closing its input.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        drop(self.input);
        let ended = timeout(PATIENCE, self.child.wait()).await;
        ended.context("mcp does not end")??;
        Ok(())
    }
}
