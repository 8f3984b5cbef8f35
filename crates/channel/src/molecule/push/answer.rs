//! Replies in the response to a call. The platform writes the response into the message's row, which is how we know
//! that it took the reply; a reply that it did not take goes by the lane.

use crate::http::Operation;
use crate::inbox::PastReply;
use crate::molecule::Molecule;
use crate::molecule::failure::fault;
use crate::molecule::files::with_note;
use crate::molecule::reply::spoken;
use crate::molecule::reply::upload::{for_peers, upload_all};
use crate::molecule::wire::{NewAttachment, Row, field};
use bridge_core::port::{MayAct, SinkFault};
use bridge_core::value::{Message, Reply, SenderKind};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;
use uuid::Uuid;

/// How long the platform may take to show a response: it writes it before it tells its own caller.
const SHOWN_LOOKS: u32 = 12;
const SHOWN_EVERY: Duration = Duration::from_millis(400);
/// Begins the receipt of a reply that was the response to a call.
const BY_CALL: &str = "call:";
/// What a call hears of a message that ended without a reply.
const UNANSWERED: &str = "(stopped; there is no answer)";

impl Molecule {
    /// Gives a reply to the calls that wait for it. The receipt, once the platform shows it; none where it must go
    /// another way.
    pub(crate) async fn answer_call(
        &self,
        message: &Message,
        reply: &Reply,
        may_act: MayAct<'_>,
    ) -> Result<Option<String>, SinkFault> {
        if self.push_url().is_none() {
            return Ok(None);
        }
        let text = text_of(message, reply);
        if reply.tries > 1 && self.is_shown(message, reply).await? {
            return Ok(Some(receipt_of(reply)));
        }
        if !self.0.pushes.is_waited_for(&message.external_id) {
            return Ok(None);
        }
        let (files, refused) = match message.kind {
            SenderKind::Person => upload_all(&self.0.client, self.0.file_store.get(), reply)
                .await
                .map_err(|error| fault(Operation::Upload, &error))?,
            SenderKind::Agent => (Vec::new(), String::new()),
        };
        let context = self.0.contexts.of(message);
        let mut answer = result(&text, context.as_deref(), &files);
        add_note(&mut answer, &refused);
        may_act()?;
        if !self.0.pushes.hand(&message.external_id, &answer) {
            return Ok(None);
        }
        for _ in 0..SHOWN_LOOKS {
            sleep(SHOWN_EVERY).await;
            // A look that fails is no news; the last one below is.
            if let Ok(true) = self.is_shown(message, reply).await {
                return Ok(Some(receipt_of(reply)));
            }
        }
        let shown = self.is_shown(message, reply).await?;
        if !shown {
            tracing::info!(channel = %self.channel(), message = %message.message_id, "the platform does not show the answer to its call; it is sent again");
        }
        Ok(shown.then(|| receipt_of(reply)))
    }

    /// Whether the row of a message shows this reply as the response to a call.
    pub(crate) async fn is_shown(
        &self,
        message: &Message,
        reply: &Reply,
    ) -> Result<bool, SinkFault> {
        if self.push_url().is_none() {
            return Ok(false);
        }
        let text = text_of(message, reply);
        let is_it = |row: &Row| self.name_of(row).as_ref() == Some(&message.external_id);
        let shows = |row: &Row| is_it(row) && responds(row, &text);
        let found = self.find_row(shows).await;
        let found = found.map_err(|error| fault(Operation::Probe, &error))?;
        Ok(matches!(found, super::RowFound::Row(_)))
    }
}

/// Whether a message was answered in the response to a call, by whoever was the agent then.
pub(crate) fn is_answered(row: &Row) -> bool {
    let response: Option<Value> = field(row.response_body.as_deref()).ok().flatten();
    let result = response
        .as_ref()
        .and_then(|response| response.get("result"));
    result.is_some_and(Value::is_object)
}

fn responds(row: &Row, text: &str) -> bool {
    let response: Option<Value> = field(row.response_body.as_deref()).ok().flatten();
    let parts = response
        .as_ref()
        .and_then(|response| response.pointer("/result/parts"));
    let mut parts = parts.and_then(Value::as_array).into_iter().flatten();
    parts.any(|part| part.get("text").and_then(Value::as_str) == Some(text))
}

fn text_of(message: &Message, reply: &Reply) -> String {
    match message.kind {
        SenderKind::Person => spoken(&reply.body).into_owned(),
        SenderKind::Agent => {
            spoken(&with_note(&reply.body, &for_peers(&reply.attachments))).into_owned()
        }
    }
}

pub(crate) fn receipt_of(reply: &Reply) -> String {
    format!("{BY_CALL}{}", reply.key)
}

/// What a repeated call is told of a message that is over. None where its sender has all of it: a bubble or a message of
/// ours showed it, and would show it twice.
pub(super) fn text_again(replies: &[PastReply]) -> Option<String> {
    if replies.is_empty() {
        return Some(UNANSWERED.to_owned());
    }
    let elsewhere = |reply: &PastReply| {
        let receipt = reply.receipt.as_deref();
        receipt.is_some_and(|receipt| !receipt.starts_with(BY_CALL))
    };
    if replies.iter().all(elsewhere) {
        return None;
    }
    let texts: Vec<&str> = replies.iter().map(|reply| reply.text.as_str()).collect();
    Some(spoken(&texts.join("\n\n")).into_owned())
}

/// An A2A message of ours.
pub(super) fn result(text: &str, context: Option<&str>, files: &[NewAttachment]) -> Value {
    let mut parts = vec![json!({"kind": "text", "text": text})];
    parts.extend(
        files
            .iter()
            .map(|file| json!({"kind": "file", "file": file})),
    );
    let mut message = json!({
        "kind": "message",
        "role": "agent",
        "messageId": Uuid::new_v4().hyphenated().to_string(),
        "parts": parts,
    });
    if let (Some(context), Some(fields)) = (context, message.as_object_mut()) {
        fields.insert("contextId".to_owned(), context.into());
    }
    message
}

/// Words about files that do not go with an answer, in a part of their own: the answer is found again by its text.
fn add_note(answer: &mut Value, note: &str) {
    let parts = answer.get_mut("parts").and_then(Value::as_array_mut);
    if let (false, Some(parts)) = (note.is_empty(), parts) {
        parts.push(json!({"kind": "text", "text": note}));
    }
}

pub(super) fn rpc_result(id: Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

pub(super) fn rpc_error(id: Value, code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}
