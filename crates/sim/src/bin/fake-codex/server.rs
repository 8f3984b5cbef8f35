//! The fake itself: requests in, answers and notifications out, in the order in which the real one writes them;
//! and at each point whatever the script says instead.

use super::peers::{Event, Peers};
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
struct End(u8);

/// What an answer becomes.
enum Answer {
    AsIs,
    None,
    Error { code: i64, message: String },
    Result(Value),
    Without(String),
    Misaddressed,
}

/// What follows an answer.
enum Then {
    Nothing,
    Started(String),
    Usage(String),
    Turn(String),
    Ended(String),
}

type Served = Result<(Value, Then), (i64, String)>;

pub(super) struct Server {
    home: PathBuf,
    script: Script,
    threads: Threads,
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
    async fn tell(&mut self, method: &str, params: Value) -> Result<(), End> {
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

    async fn request(&mut self, method: &str, params: &Value) -> Result<Served, End> {
        let thread_id = params.get("threadId").and_then(Value::as_str);
        let thread_id = thread_id.unwrap_or_default().to_owned();
        Ok(match method {
            "initialize" => {
                let client = params.pointer("/clientInfo/name").unwrap_or(&Value::Null);
                Ok((shape::initialized(client, &self.home), Then::Nothing))
            }
            "account/read" => {
                let account = json!({"account": null, "requiresOpenaiAuth": false});
                Ok((account, Then::Nothing))
            }
            "thread/start" => {
                let thread = self.threads.open(params.clone());
                let opened = shape::opened(&thread, &self.home);
                Ok((opened, Then::Started(thread.id)))
            }
            "thread/resume" => self.resume(&thread_id, params).await?,
            "thread/turns/list" => self.turns(&thread_id, params),
            "turn/start" => self.start_turn(&thread_id, params),
            "turn/interrupt" => match self.threads.get(&thread_id).and_then(|t| t.active_mut()) {
                Some(turn) => {
                    finish(turn, "interrupted");
                    self.threads.save(&thread_id);
                    Ok((json!({}), Then::Ended(thread_id)))
                }
                None => Err(refused("no active turn to interrupt".to_owned())),
            },
            "thread/backgroundTerminals/clean" => Ok((json!({}), Then::Nothing)),
            other => Err(refused(format!(
                "Invalid request: unknown variant `{other}`"
            ))),
        })
    }

    async fn resume(&mut self, id: &str, params: &Value) -> Result<Served, End> {
        let Some(thread) = self.threads.resume(id, params.clone()) else {
            return Ok(Err(refused(format!("no rollout found for thread id {id}"))));
        };
        let mut opened = shape::opened(thread, &self.home);
        if let Some(page) = params.get("initialTurnsPage") {
            set(
                &mut opened,
                "initialTurnsPage",
                page_of(&thread.turns, page),
            );
        }
        let status = opened.pointer("/thread/status").cloned();
        self.tell(
            "thread/status/changed",
            json!({"threadId": id, "status": status}),
        )
        .await?;
        Ok(Ok((opened, Then::Usage(id.to_owned()))))
    }

    fn turns(&mut self, id: &str, params: &Value) -> Served {
        match self.threads.get(id) {
            Some(thread) => Ok((page_of(&thread.turns, params), Then::Nothing)),
            None => Err(refused(format!("thread not found: {id}"))),
        }
    }

    fn start_turn(&mut self, id: &str, params: &Value) -> Served {
        let Some(thread) = self.threads.get(id) else {
            return Err(refused(format!("thread not found: {id}")));
        };
        // A second one joins the turn that runs, as with the real one since 0.150.
        if let Some(turn) = thread.active() {
            return Ok((json!({ "turn": turn }), Then::Nothing));
        }
        let turn = shape::new_turn();
        let mut begun = turn.clone();
        set(
            &mut begun,
            "input",
            params.get("input").cloned().unwrap_or_default(),
        );
        let client_id = params.get("clientUserMessageId").cloned();
        set(&mut begun, "clientId", client_id.unwrap_or_default());
        thread.turns.push(begun);
        Ok((json!({ "turn": turn }), Then::Turn(id.to_owned())))
    }

    async fn follow_up(&mut self, then: Then) -> Result<(), End> {
        match then {
            Then::Nothing => Ok(()),
            Then::Started(id) => match self.threads.get(&id).map(|thread| thread.clone()) {
                Some(thread) => {
                    let thread = shape::thread(&thread, &self.home);
                    self.tell("thread/started", json!({ "thread": thread }))
                        .await
                }
                None => Ok(()),
            },
            Then::Usage(id) => {
                let thread = self.threads.get(&id);
                let turns = thread
                    .map(|thread| thread.turns.clone())
                    .unwrap_or_default();
                let answered = turns.iter().filter(|turn| is(turn, "completed"));
                match answered.clone().next_back().and_then(|turn| turn.get("id")) {
                    Some(turn_id) => {
                        let count = u64::try_from(answered.count()).unwrap_or(0);
                        self.tell_usage(&id, turn_id, count).await
                    }
                    None => Ok(()),
                }
            }
            Then::Turn(id) => self.play(&id).await,
            Then::Ended(id) => self.end_turn(&id, Vec::new()).await,
        }
    }

    async fn tell_usage(&mut self, id: &str, turn_id: &Value, answers: u64) -> Result<(), End> {
        let usage = shape::usage(answers);
        let params = json!({"threadId": id, "turnId": turn_id, "tokenUsage": usage});
        self.tell("thread/tokenUsage/updated", params).await
    }

    async fn tell_item(
        &mut self,
        stage: &str,
        id: &str,
        turn: &Value,
        item: &Value,
    ) -> Result<(), End> {
        let at = format!("item/{stage}");
        let mut item = item.clone();
        if stage == "completed" {
            set(&mut item, "completedAtMs", json!(shape::now_ms()));
        }
        let params = json!({"threadId": id, "turnId": turn.get("id"), "item": item});
        self.tell(&at, params).await
    }

    /// One turn: the message is on disk before the model is asked, and the answer before the end is told.
    async fn play(&mut self, id: &str) -> Result<(), End> {
        let Some(begun) = self
            .threads
            .get(id)
            .and_then(|thread| thread.turns.last().cloned())
        else {
            return Ok(());
        };
        let mut turn = begun.clone();
        let input = take(&mut turn, "input");
        let user = shape::user_message(&input, &take(&mut turn, "clientId"));
        set(&mut turn, "startedAt", json!(shape::now_ms() / 1000));
        let active = json!({"type": "active", "activeFlags": []});
        self.tell(
            "thread/status/changed",
            json!({"threadId": id, "status": active}),
        )
        .await?;
        self.tell("turn/started", json!({"threadId": id, "turn": turn}))
            .await?;
        set(&mut turn, "items", json!([user]));
        self.keep(id, &turn);
        self.tell_item("started", id, &turn, &user).await?;
        self.tell_item("completed", id, &turn, &user).await?;
        let answer = shape::answer_to(&input);
        if answer.contains("hold") {
            return Ok(());
        }
        let item_id = format!("msg_{}", uuid::Uuid::new_v4().simple());
        let said = shape::agent_message(&item_id, &answer);
        self.tell_item("started", id, &turn, &shape::agent_message(&item_id, ""))
            .await?;
        let delta =
            json!({"threadId": id, "turnId": turn.get("id"), "itemId": item_id, "delta": answer});
        self.tell("item/agentMessage/delta", delta).await?;
        set(&mut turn, "items", json!([user, said]));
        finish(&mut turn, "completed");
        self.keep(id, &turn);
        self.tell_item("completed", id, &turn, &said).await?;
        let thread = self.threads.get(id);
        let answered = thread.map_or(0, |thread| {
            thread.turns.iter().filter(|t| is(t, "completed")).count()
        });
        let turn_id = turn.get("id").cloned().unwrap_or_default();
        self.tell_usage(id, &turn_id, u64::try_from(answered).unwrap_or(0))
            .await?;
        self.tell("account/rateLimits/updated", shape::rate_limits())
            .await?;
        self.end_turn(id, vec![said]).await
    }

    fn keep(&mut self, id: &str, turn: &Value) {
        if let Some(last) = self
            .threads
            .get(id)
            .and_then(|thread| thread.turns.last_mut())
        {
            *last = turn.clone();
            set(last, "itemsView", json!("full"));
        }
        self.threads.save(id);
    }

    async fn end_turn(&mut self, id: &str, items: Vec<Value>) -> Result<(), End> {
        let Some(mut turn) = self
            .threads
            .get(id)
            .and_then(|thread| thread.turns.last().cloned())
        else {
            return Ok(());
        };
        let view = if items.is_empty() {
            "notLoaded"
        } else {
            "summary"
        };
        set(&mut turn, "items", Value::from(items));
        set(&mut turn, "itemsView", json!(view));
        let idle = json!({"type": "idle"});
        self.tell(
            "thread/status/changed",
            json!({"threadId": id, "status": idle}),
        )
        .await?;
        self.tell("turn/completed", json!({"threadId": id, "turn": turn}))
            .await
    }
}

fn refused(message: String) -> (i64, String) {
    (-32600, message)
}

fn set(object: &mut Value, name: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(name.to_owned(), value);
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

fn finish(turn: &mut Value, status: &str) {
    set(turn, "status", json!(status));
    set(turn, "completedAt", json!(shape::now_ms() / 1000));
}

fn take(object: &mut Value, name: &str) -> Value {
    let object = object.as_object_mut();
    object
        .and_then(|object| object.remove(name))
        .unwrap_or_default()
}

fn is(turn: &Value, status: &str) -> bool {
    turn.get("status").and_then(Value::as_str) == Some(status)
}

/// The newest turns, newest first; the cursor is how many were given before.
fn page_of(turns: &[Value], asked: &Value) -> Value {
    let limit = asked.get("limit").and_then(Value::as_u64).unwrap_or(25);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let skip = asked.get("cursor").and_then(Value::as_str);
    let skip = skip
        .and_then(|cursor| cursor.parse::<usize>().ok())
        .unwrap_or(0);
    let data: Vec<_> = turns.iter().rev().skip(skip).take(limit).collect();
    let given = skip + data.len();
    let next = (given < turns.len()).then(|| given.to_string());
    json!({"data": data, "nextCursor": next, "backwardsCursor": null})
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
