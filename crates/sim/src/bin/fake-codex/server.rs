//! The fake at its connections: requests in, answers and notifications out, and at each point whatever the script
//! says instead. What an honest Codex answers is `protocol`.

use super::peers::{Event, Peers};
use super::protocol::Then;
use super::script::{Act, Script};
use super::shape;
use super::threads::Threads;
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What a flood or a long line is written in.
const CHUNK_BYTES: u64 = 64 * 1024;

/// The end, with this exit code.
pub(super) struct End(pub(super) u8);

/// What an answer becomes.
enum Answer {
    AsIs,
    None,
    Error { code: i64, message: String },
    Result(Value),
    Without(String),
    Misaddressed,
}

pub(super) struct Server {
    pub(super) home: PathBuf,
    script: Script,
    pub(super) threads: Threads,
    peers: Option<Peers>,
}

impl Server {
    pub(super) fn new(home: PathBuf, script: Script) -> Self {
        Self {
            threads: Threads::new(home.clone()),
            home,
            script,
            peers: None,
        }
    }

    /// Serves until stdin ends, or until the script ends it. Gives the exit code.
    pub(super) async fn run(mut self, socket: Option<PathBuf>) -> Result<u8, String> {
        let (before, _) = self.script.reach("start", &Value::Null);
        if let Err(End(code)) = self.act(before).await {
            return Ok(code);
        }
        self.peers = Some(Peers::listen(socket.as_deref())?);
        Ok(self.serve().await.err().map_or(0, |End(code)| code))
    }

    async fn serve(&mut self) -> Result<(), End> {
        while let Some(peers) = &mut self.peers {
            match peers.events.recv().await {
                Some(Event::Joined(peer, writer)) => peers.join(peer, writer),
                Some(Event::Left(peer)) => peers.leave(peer),
                Some(Event::Text(peer, text)) => self.text(peer, &text).await?,
                Some(Event::Over) | None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Does what the script says here, up to what concerns the answer; gives that.
    async fn act(&mut self, acts: Vec<Act>) -> Result<Answer, End> {
        let mut answer = Answer::AsIs;
        for act in acts {
            match act {
                Act::Hang => std::future::pending().await,
                Act::Exit { code } => {
                    if let Some(peers) = &self.peers {
                        peers.flush().await;
                    }
                    return Err(End(code));
                }
                Act::Drop => answer = Answer::None,
                Act::Mute => answer = Answer::None,
                Act::Error { code, message } => answer = Answer::Error { code, message },
                Act::Result { value } => answer = Answer::Result(value),
                Act::Omit { member } => answer = Answer::Without(member),
                Act::Forget => self.threads.fill_up(),
                Act::Misaddress => answer = Answer::Misaddressed,
                Act::Raw { latin1 } => {
                    let bytes = latin1.chars().map(|c| u8::try_from(c).unwrap_or(b'?'));
                    self.tell_raw(&bytes.collect::<Vec<_>>()).await;
                }
                Act::Long { bytes } => self.long_line(bytes).await,
                Act::Flood {
                    method,
                    lines,
                    bytes,
                } => self.flood(&method, lines, bytes).await,
                Act::Stderr { bytes } => flood_stderr(bytes),
                Act::Notify { method, params } => {
                    let text = shape::notification(&method, &params);
                    self.tell_raw(format!("{text}\n").as_bytes()).await;
                }
                Act::Child { argv } => leave_child(&argv),
            }
        }
        Ok(answer)
    }

    async fn tell_raw(&self, bytes: &[u8]) {
        if let Some(peers) = &self.peers {
            peers.tell(bytes).await;
        }
    }

    async fn long_line(&self, bytes: u64) {
        let mut left = bytes;
        while left > 0 {
            let size = left.min(CHUNK_BYTES);
            left -= size;
            self.tell_raw(&vec![b'x'; usize::try_from(size).unwrap_or(0)])
                .await;
        }
        self.tell_raw(b"\n").await;
    }

    async fn flood(&self, method: &str, lines: u64, bytes: u64) {
        let padding = "x".repeat(usize::try_from(bytes).unwrap_or(0));
        let text = shape::notification(method, &json!({ "padding": padding }));
        let line = format!("{text}\n");
        for _ in 0..lines {
            self.tell_raw(line.as_bytes()).await;
        }
    }

    /// A notification, unless the script drops it.
    pub(super) async fn tell(&mut self, method: &str, params: Value) -> Result<(), End> {
        let (before, after) = self.script.reach(method, &Value::Null);
        let params = match self.act(before).await? {
            Answer::None => return Ok(()),
            Answer::Result(value) => value,
            Answer::Without(member) => without(params, &member),
            Answer::AsIs | Answer::Error { .. } | Answer::Misaddressed => params,
        };
        let text = shape::notification(method, &params);
        self.tell_raw(format!("{text}\n").as_bytes()).await;
        self.act(after).await.map(drop)
    }

    async fn text(&mut self, peer: u64, text: &str) -> Result<(), End> {
        // The real one says nothing about a text it can't read, either.
        let Ok(message) = serde_json::from_str::<Value>(text) else {
            return Ok(());
        };
        let Some(method) = message.get("method").and_then(Value::as_str) else {
            return Ok(());
        };
        let params = message.get("params").unwrap_or(&Value::Null);
        let (before, after) = self.script.reach(method, params);
        let dropped = before.iter().any(|act| matches!(act, Act::Drop));
        let answer = self.act(before).await?;
        let Some(id) = message.get("id").filter(|_| !dropped) else {
            return self.act(after).await.map(drop);
        };
        if let Answer::Error { code, message } = answer {
            let error = json!({"code": code, "message": message});
            self.put(peer, &json!({"id": id, "error": error})).await;
            return self.act(after).await.map(drop);
        }
        let served = self.request(method, params).await?;
        let (result, then) = match served {
            Ok((result, then)) => (Ok(result), then),
            Err(refusal) => (Err(refusal), Then::Nothing),
        };
        self.answer(peer, id, result, answer).await;
        self.act(after).await?;
        self.follow_up(then).await
    }

    async fn answer(
        &self,
        peer: u64,
        id: &Value,
        result: Result<Value, (i64, String)>,
        answer: Answer,
    ) {
        let right = match (result, answer) {
            (_, Answer::None) => return,
            (_, Answer::Result(value)) => json!({"id": id, "result": value}),
            (Ok(result), Answer::Without(member)) => {
                json!({"id": id, "result": without(result, &member)})
            }
            (Ok(result), Answer::Misaddressed) => {
                for wrong in [json!(987_654_321), json!(id.to_string()), json!(1.5)] {
                    self.put(peer, &json!({"id": wrong, "result": {"wrong": true}}))
                        .await;
                }
                let right = json!({"id": id, "result": result});
                self.put(peer, &right).await;
                json!({"id": id, "result": {"second": true}})
            }
            (Ok(result), Answer::AsIs | Answer::Error { .. }) => {
                json!({"id": id, "result": result})
            }
            (Err((code, message)), _) => {
                json!({"error": {"code": code, "message": message}, "id": id})
            }
        };
        self.put(peer, &right).await;
    }

    async fn put(&self, peer: u64, message: &Value) {
        if let Some(peers) = &self.peers {
            peers.send(peer, format!("{message}\n").into_bytes()).await;
        }
    }
}

/// What is left without the member that a JSON pointer names.
fn without(mut value: Value, member: &str) -> Value {
    if let Some((parent, name)) = member.rsplit_once('/')
        && let Some(parent) = value.pointer_mut(parent).and_then(Value::as_object_mut)
    {
        parent.remove(name);
    }
    value
}

fn flood_stderr(bytes: u64) {
    let line = [b'e'; 1023];
    let mut stderr = std::io::stderr().lock();
    for _ in 0..bytes / 1024 {
        // Who does not read it is what the test is about.
        let _lost = stderr
            .write_all(&line)
            .and_then(|()| stderr.write_all(b"\n"));
    }
}

/// `setsid` is the first word of such a command: the child is out of reach of a kill of our group.
fn leave_child(argv: &[String]) {
    let Some((program, args)) = argv.split_first() else {
        return;
    };
    let mut command = Command::new(program);
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if let Err(error) = command.spawn() {
        eprintln!("{program}: {error}");
    }
}
