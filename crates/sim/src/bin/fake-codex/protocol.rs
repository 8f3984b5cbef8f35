//! What an honest Codex answers and tells, in the order in which the real one writes it. Misbehaving is `server`'s.

use super::server::{End, Server};
use super::shape;
use serde_json::{Value, json};

/// What follows an answer.
pub(super) enum Then {
    Nothing,
    Started(String),
    Usage(String),
    Turn(String),
    Ended(String),
    /// These settings are in force.
    Settings(Value),
}

/// An answer and what follows it, or the code and words of a refusal.
pub(super) type Served = Result<(Value, Then), (i64, String)>;

impl Server {
    pub(super) async fn request(&mut self, method: &str, params: &Value) -> Result<Served, End> {
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
            "config/read" => Ok((json!({"config": {}}), Then::Nothing)),
            "thread/settings/update" => Ok(match self.threads.get(&thread_id) {
                Some(thread) => {
                    let settings = shape::updated(thread, params, &self.home);
                    (json!({}), Then::Settings(settings))
                }
                None => (json!({}), Then::Nothing),
            }),
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

    pub(super) async fn follow_up(&mut self, then: Then) -> Result<(), End> {
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
            Then::Settings(params) => self.tell("thread/settings/updated", params).await,
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
