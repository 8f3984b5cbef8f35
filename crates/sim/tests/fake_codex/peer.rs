//! The least client that can hold the compared conversation, and what it heard, as plain text.

use crate::plain::Plain;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// Longest wait for one message; only a broken test gets there.
const PATIENCE: Duration = Duration::from_secs(60);

/// A CODEX_HOME and a working directory of their own.
pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn new(config: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["codex", "work"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
        }
        std::fs::write(dir.path().join("codex/config.toml"), config).unwrap();
        Self(dir)
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.0.path().join("work")
    }

    pub(crate) fn script(&self, lines: &str) {
        std::fs::write(self.0.path().join("codex/fake.jsonl"), lines).unwrap();
    }

    fn command(&self, bin: &Path) -> Command {
        let mut command = Command::new(bin);
        command
            .arg("app-server")
            .args(["-c", "features.plugins=false"])
            .args(["-c", "features.shell_snapshot=false"])
            .args(["-c", "analytics.enabled=false"])
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("HOME", self.0.path())
            .env("CODEX_HOME", self.0.path().join("codex"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }
}

/// A start that must fail: its code and what it said.
pub(crate) async fn fails(bin: &Path, home: &Home) -> (Option<i32>, String) {
    let output = tokio::time::timeout(PATIENCE, home.command(bin).output());
    let output = output.await.unwrap().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), stderr)
}

/// One life of a Codex, real or not.
pub(crate) struct Peer {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    next_id: u64,
    heard: Plain,
}

impl Peer {
    pub(crate) async fn start(bin: &Path, home: &Home) -> Self {
        let mut child = home.command(bin).stderr(Stdio::null()).spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut peer = Self {
            child,
            stdin,
            lines,
            next_id: 1,
            heard: Plain::new(home.work().parent().unwrap()),
        };
        let client = json!({"name": "lab", "title": null, "version": "0"});
        let hello = json!({"clientInfo": client, "capabilities": {"experimentalApi": true}});
        peer.call("initialize", hello).await;
        peer.send(&json!({"method": "initialized"})).await;
        peer
    }

    async fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.stdin.write_all(line.as_bytes()).await.unwrap();
    }

    async fn next(&mut self) -> Option<String> {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line());
        line.await.unwrap().unwrap()
    }

    /// The result of a request; null when it was refused.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({"id": id, "method": method, "params": params}))
            .await;
        loop {
            let line = self
                .next()
                .await
                .unwrap_or_else(|| panic!("it ended at {method}"));
            let message: Value = serde_json::from_str(&line).unwrap();
            self.heard.take(method, &line);
            if message["id"] == id {
                return message["result"].clone();
            }
        }
    }

    /// Hears up to a notification.
    pub(crate) async fn until(&mut self, method: &str) {
        loop {
            let line = self
                .next()
                .await
                .unwrap_or_else(|| panic!("it ended before {method}"));
            let message: Value = serde_json::from_str(&line).unwrap();
            self.heard.take(method, &line);
            if message["method"] == method {
                return;
            }
        }
    }

    /// Closes its stdin, which ends it; gives what it said.
    pub(crate) async fn end(self) -> Vec<String> {
        let Self {
            mut child,
            stdin,
            heard,
            ..
        } = self;
        drop(stdin);
        let ended = tokio::time::timeout(PATIENCE, child.wait()).await.unwrap();
        assert_eq!(ended.unwrap().code(), Some(0));
        heard.said()
    }
}
