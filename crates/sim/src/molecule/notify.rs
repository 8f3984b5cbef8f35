//! Bubbles for the canvas, `POST /notify`, and the chat as the canvas shows it again later.
//! There is no key: what comes twice is shown twice.

use serde_json::{Value, json};

use super::ground::Ground;
use super::ids::fresh_id;
use super::options::Edition;
use super::rows::{Entry, RECEIVE, Row, put};
use super::wire::{Answer, Call, has_nul};

/// Characters of a bubble that its row's summary repeats.
const SUMMARY_CHARS: usize = 80;
/// Messages of a chat history when nothing is asked for, and at most.
const HISTORY_DEFAULT: usize = 100;
const HISTORY_MOST: usize = 1_000;

impl Ground {
    pub(super) fn notify(&mut self, call: &Call) -> Result<Answer, Answer> {
        let id = self.admit(call)?;
        let body = call.json().unwrap_or(Value::Null);
        let text = body
            .get("message")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if text.is_empty() {
            return Err(Answer::error(400, "message is required"));
        }
        let attachments = body.get("attachments").and_then(Value::as_array);
        let attachments = attachments.cloned().unwrap_or_default();
        for (at, attachment) in attachments.iter().enumerate() {
            let says = |key: &str| {
                !attachment
                    .get(key)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .is_empty()
            };
            if !(says("uri") && says("name")) {
                let why = format!("attachment[{at}]: uri and name are required");
                return Err(Answer::error(400, &why));
            }
        }
        let Some(office) = self.offices.get(&id) else {
            return Err(Answer::error(404, "workspace not found"));
        };
        if self.edition != Edition::Seed && !office.talk_to_user {
            let hint = "This workspace may not talk to the user; an admin can allow it.";
            return Err(Answer::json(
                403,
                json!({"error": "talk_to_user_disabled", "hint": hint}),
            ));
        }
        let name = office.name.clone();
        self.emit(
            id,
            "AGENT_MESSAGE",
            &json!({"message": text, "name": name, "workspace_id": id.to_string()}),
        );
        if !has_nul(&body) {
            let late = self.faults.late_echo;
            self.log(id, echo(text, &attachments), late);
        }
        Ok(Answer::ok(json!({ "status": "sent" })))
    }

    pub(super) fn chat_history(&mut self, call: &Call) -> Result<Answer, Answer> {
        let id = self.admit(call)?;
        let limit = call.asked("limit").and_then(|limit| limit.parse().ok());
        let limit = limit
            .filter(|limit| *limit > 0)
            .unwrap_or(HISTORY_DEFAULT)
            .min(HISTORY_MOST);
        let before = call.asked("before_ts").and_then(super::time::Micros::read);
        let mut rows: Vec<&Row> = self
            .rows
            .iter()
            .filter(|row| row.workspace == id && row.is_visible() && row.entry.source.is_none())
            .filter(|row| row.is_bubble() || row.is_message())
            .filter(|row| before.is_none_or(|before| row.at < before))
            .collect();
        rows.sort_by_key(|row| (row.at, row.seq));
        let skipped = rows.len().saturating_sub(limit);
        let messages: Vec<Value> = rows.into_iter().skip(skipped).map(chat_message).collect();
        Ok(Answer::ok(
            json!({"messages": messages, "reached_end": skipped == 0}),
        ))
    }
}

/// The row that a bubble leaves in the feed of its own workspace.
pub(super) fn echo(text: &str, attachments: &[Value]) -> Entry {
    let mut response = json!({ "result": text });
    if !attachments.is_empty() {
        let parts: Vec<Value> = attachments
            .iter()
            .map(|file| json!({"kind": "file", "file": file}))
            .collect();
        put(&mut response, "parts", json!(parts));
    }
    let mut summary: String = text.chars().take(SUMMARY_CHARS).collect();
    if text.chars().nth(SUMMARY_CHARS).is_some() {
        summary.push('…');
    }
    Entry {
        kind: RECEIVE.to_owned(),
        method: Some("notify".to_owned()),
        summary: Some(format!("Agent message: {summary}")),
        status: "ok".to_owned(),
        response: Some(response),
        ..Entry::default()
    }
}

fn chat_message(row: &Row) -> Value {
    let role = if row.is_bubble() { "agent" } else { "user" };
    let mut shown = json!({
        "id": fresh_id(),
        "role": role,
        "content": row.text(),
        "timestamp": row.at.text(),
    });
    let files = row.files();
    if !files.is_empty() {
        put(&mut shown, "attachments", json!(files));
    }
    shown
}
