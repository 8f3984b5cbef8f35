//! Messages to a workspace: `POST /a2a`, from the canvas and from peers. The answer is a receipt for something that
//! was queued, never the peer's own answer, and it comes even when nothing could be stored.

use serde_json::{Map, Value, json};

use super::dispatch::PushCalls;
use super::ground::Ground;
use super::ids::{WorkspaceId, fresh_id};
use super::office::AutoAnswer;
use super::options::Edition;
use super::outside::{mark_canvas, server_reads_id};
use super::rows::{Entry, RECEIVE, Visible};
use super::wire::{Answer, Call, has_nul};

/// Who may not talk to whom is told with these words, also about workspaces that do not exist.
pub(super) const NOT_RELATED: &str =
    "access denied: workspaces cannot communicate per hierarchy rules";
const NO_PARTS: &str =
    "params.message must contain either 'parts' (v0.3) or 'content' (v0.2 compat)";

/// A message on its way to a workspace.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    /// None for the canvas.
    pub(super) from: Option<WorkspaceId>,
    pub(super) to: WorkspaceId,
    pub(super) body: Value,
}

/// By which way a message comes in: its row says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Over HTTP: stored as soon as it is read.
    Http,
    /// From one of the platform's own programs.
    Program,
}

impl Ground {
    pub(super) fn a2a(&mut self, call: &Call) -> Result<Answer, Answer> {
        if !self.database {
            return Err(Answer::error(500, "lookup failed"));
        }
        let most = self.edition.a2a_most();
        if call.body.len() > most {
            return Err(match self.edition {
                Edition::Seed => Answer::error(400, "invalid JSON"),
                Edition::New | Edition::August => Answer::json(
                    413,
                    json!({
                        "error": format!("request body exceeds {most} byte limit: A2A body exceeds size limit"),
                        "max_bytes": most,
                        "truncated": true,
                    }),
                ),
            });
        }
        let from = self.caller(call)?;
        let to = WorkspaceId::read(&call.place.id).filter(|to| self.offices.contains_key(to));
        let to = match (from, to) {
            (None, Some(to)) => to,
            (None, None) => return Err(Answer::error(404, "workspace not found")),
            (Some(from), Some(to)) if self.may_talk(from, to) => to,
            (Some(_), _) => return Err(Answer::error(403, NOT_RELATED)),
        };
        let body = call.json().filter(Value::is_object);
        let body = body.ok_or_else(|| Answer::error(400, "invalid JSON"))?;
        let mut body = normal(self.edition, body)?;
        if from.is_none() {
            mark_canvas(self.edition, &mut body);
        }
        let method = method_of(&body);
        let row = self.deliver(Letter {
            from,
            to,
            body: body.clone(),
        });
        self.answer_at_once(from, to, &body);
        let mut answer = if self.is_pushed_to(to) {
            self.busy(to)
        } else {
            Answer::ok(receipt(&method))
        };
        let call = self.push_call(from, to, &body);
        answer.calls = call.map(|call| Box::new(PushCalls::Answer(call)));
        let late = row.filter(|row| self.edition != Edition::Seed && self.comes_by_itself(row));
        answer.after = late.map(String::into_boxed_str);
        Ok(answer)
    }

    fn comes_by_itself(&self, id: &str) -> bool {
        let row = self.row(id);
        row.is_some_and(|row| matches!(row.visible, Visible::From(_) | Visible::Waiting(_)))
    }

    /// Stores a message; none when it was not, which its sender is not told.
    pub(super) fn deliver(&mut self, letter: Letter) -> Option<String> {
        self.deliver_as(letter, Stage::Http)
    }

    pub(super) fn deliver_as(&mut self, letter: Letter, stage: Stage) -> Option<String> {
        let at = self.clock.tick();
        self.deliver_at(letter, stage, at)
    }

    pub(super) fn deliver_at(
        &mut self,
        letter: Letter,
        stage: Stage,
        at: super::time::Micros,
    ) -> Option<String> {
        let Letter { from, to, body } = letter;
        if has_nul(&body) {
            return None;
        }
        let message_id = body
            .pointer("/params/message/messageId")
            .and_then(Value::as_str);
        let message_id = message_id.map(str::to_owned);
        let method = method_of(&body);
        if self.edition != Edition::Seed && self.is_known(to, message_id.as_deref()) {
            self.next_seq();
            self.next_seq();
            return None;
        }
        let name = self.offices.get(&to).map(|office| office.name.clone());
        let keyed = method == "message/send" && server_reads_id(&body);
        let stage = match (self.edition, stage) {
            (Edition::New | Edition::August, Stage::Http) if keyed => "ingest",
            (Edition::Seed | Edition::New | Edition::August, Stage::Http | Stage::Program) => {
                "queued for poll"
            }
        };
        let entry = Entry {
            kind: RECEIVE.to_owned(),
            summary: Some(format!("{method} → {} ({stage})", name.unwrap_or_default())),
            method: Some(method),
            source: from.map(|id| id.to_string()),
            target: Some(to.to_string()),
            status: "ok".to_owned(),
            request: Some(body),
            message_id,
            ..Entry::default()
        };
        let late = self.faults.late;
        let again = self
            .is_pushed_to(to)
            .then(|| super::push::second_row(&entry));
        let row = self.log_at(to, entry, late, at);
        if let Some(again) = again {
            self.log(to, again, late);
        }
        if self.edition != Edition::Seed {
            self.next_seq();
        }
        row
    }

    fn is_known(&self, to: WorkspaceId, message_id: Option<&str>) -> bool {
        let Some(message_id) = message_id else {
            return false;
        };
        let same = |row: &super::rows::Row| {
            row.workspace == to && row.entry.message_id.as_deref() == Some(message_id)
        };
        self.rows.iter().any(same)
    }

    /// A peer that answers by itself does so to whoever wrote over HTTP, never to another actor.
    fn answer_at_once(&mut self, from: Option<WorkspaceId>, peer: WorkspaceId, body: &Value) {
        let Some(from) = from.filter(|from| *from != peer) else {
            return;
        };
        let Some(auto) = self
            .offices
            .get_mut(&peer)
            .and_then(|office| office.auto.as_mut())
        else {
            return;
        };
        let Some(left) = auto.at_most.checked_sub(1) else {
            return;
        };
        auto.at_most = left;
        let AutoAnswer {
            text,
            echo_metadata,
            at_most: _,
        } = auto.clone();
        let metadata = body
            .pointer("/params/message/metadata")
            .filter(|_| echo_metadata);
        let body = message(&json!([{"kind": "text", "text": text}]), metadata, None);
        self.deliver(Letter {
            from: Some(peer),
            to: from,
            body,
        });
    }
}

/// A message as a client of the platform writes it.
pub(super) fn message(parts: &Value, metadata: Option<&Value>, context: Option<&str>) -> Value {
    let mut message = json!({"role": "user", "messageId": fresh_id(), "parts": parts});
    if let Some(metadata) = metadata {
        super::rows::put(&mut message, "metadata", metadata.clone());
    }
    if let Some(context) = context {
        super::rows::put(&mut message, "contextId", json!(context));
    }
    json!({
        "jsonrpc": "2.0",
        "id": fresh_id(),
        "method": "message/send",
        "params": {"message": message},
    })
}

/// What a sender gets for a message to a workspace that polls.
pub(super) fn receipt(method: &str) -> Value {
    json!({"status": "queued", "delivery_mode": "poll", "method": method})
}

fn method_of(body: &Value) -> String {
    let method = body.get("method").and_then(Value::as_str);
    method.unwrap_or_default().to_owned()
}

/// Fills in what a message lacks. The older platform keeps parts as they came and adds no role.
pub(super) fn normal(edition: Edition, mut body: Value) -> Result<Value, Answer> {
    let is_message = method_of(&body).starts_with("message/");
    if let Value::Object(fields) = &mut body {
        fields.entry("jsonrpc").or_insert_with(|| json!("2.0"));
        fields.entry("id").or_insert_with(|| json!(fresh_id()));
    }
    let Some(message) = body
        .pointer_mut("/params/message")
        .and_then(Value::as_object_mut)
    else {
        return if is_message {
            Err(no_parts())
        } else {
            Ok(body)
        };
    };
    if !message.contains_key("parts") {
        match message.remove("content") {
            Some(Value::String(text)) => {
                message.insert("parts".to_owned(), json!([{"kind": "text", "text": text}]));
            }
            Some(parts) => {
                message.insert("parts".to_owned(), parts);
            }
            None => return Err(no_parts()),
        }
    }
    message
        .entry("messageId")
        .or_insert_with(|| json!(fresh_id()));
    if edition != Edition::Seed {
        message.entry("role").or_insert_with(|| json!("user"));
        let parts = message.get_mut("parts").and_then(Value::as_array_mut);
        let parts = parts.into_iter().flatten();
        parts.filter_map(Value::as_object_mut).for_each(rename_type);
    }
    Ok(body)
}

fn rename_type(part: &mut Map<String, Value>) {
    if !part.contains_key("kind")
        && let Some(kind) = part.remove("type")
    {
        part.insert("kind".to_owned(), kind);
    }
}

fn no_parts() -> Answer {
    let hint = r#"v0.3 example: {"parts":[{"kind":"text","text":"..."}]}"#;
    Answer::json(400, json!({"error": NO_PARTS, "hint": hint}))
}
