//! Those who write to a workspace and are none: people on other services, webhooks, the platform's own probes, and
//! whoever holds the inbound secret. The bodies are those of the recorded rows of August 2026. What the workspace sends
//! to other services is kept per chat.

use serde_json::{Value, json};

use super::a2a::{Letter, Stage};
use super::ground::Ground;
use super::ids::{WorkspaceId, fresh_id};
use super::options::Edition;
use super::wire::{Answer, Call};
use super::{MoleculePlatform, Workspace};
use crate::error::Error;

/// A connection of a workspace to another service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocialChannel {
    /// Its id.
    pub id: String,
    /// Such as `telegram`.
    pub kind: String,
    /// The chats that hear what is sent to it, separated by commas.
    pub chats: String,
    /// What was sent to it.
    pub sent: Vec<String>,
}

impl MoleculePlatform {
    /// The owner connects the workspace to a service; gives the channel's id.
    pub fn connect(&self, workspace: &Workspace, kind: &str, chats: &str) -> String {
        let channel = SocialChannel {
            id: fresh_id(),
            kind: kind.to_owned(),
            chats: chats.to_owned(),
            sent: Vec::new(),
        };
        let id = channel.id.clone();
        let connect = |ground: &mut Ground| {
            let office = ground.office_mut(&workspace.id);
            office.map(|office| office.channels.push(channel))
        };
        self.change(connect);
        id
    }

    /// What was sent to a channel.
    pub fn sent_to(&self, workspace: &Workspace, channel: &str) -> Vec<String> {
        let ground = self.ground.borrow();
        let office = WorkspaceId::read(&workspace.id).and_then(|id| ground.offices.get(&id));
        let channels = office.iter().flat_map(|office| &office.channels);
        let mut found = channels.filter(|known| known.id == channel);
        found
            .next()
            .map(|found| found.sent.clone())
            .unwrap_or_default()
    }

    /// Somebody on Telegram writes; gives the row's id.
    pub fn telegram_says(
        &self,
        to: &Workspace,
        chat: &str,
        user: &str,
        text: &str,
    ) -> Result<String, Error> {
        let number = self.change(|ground| ground.next_seq());
        let body = json!({
            "method": "message/send",
            "params": {
                "message": {
                    "role": "user",
                    "messageId": format!("channel-telegram-{number}"),
                    "parts": [{"kind": "text", "text": text}],
                },
                "metadata": {
                    "source": "telegram", "channel_id": fresh_id(), "chat_id": chat, "user_id": user,
                    "username": "mallory", "message_id": number.to_string(), "history": [], "extra": {},
                },
            },
        });
        self.outside_says(to, body, Stage::Program)
    }

    /// GitHub calls the webhook; gives the row's id.
    pub fn github_says(&self, to: &Workspace, sender: &str, text: &str) -> Result<String, Error> {
        let body = json!({
            "method": "message/send",
            "params": {
                "message": {"role": "user", "parts": [{"text": text}]},
                "metadata": {
                    "source": "github", "event": "issue_comment", "action": "created",
                    "sender": sender, "repository": "o/r",
                },
            },
        });
        self.outside_says(to, body, Stage::Program)
    }

    /// The platform asks whether the workspace still works; gives the row's id.
    pub fn probe_stall(&self, to: &Workspace) -> Result<String, Error> {
        let body = json!({
            "method": "message/send",
            "params": {
                "message": {
                    "role": "user",
                    "messageId": format!("stall-probe-{}", fresh_id()),
                    "contextId": format!("canvas-{}", to.id),
                    "parts": [{"kind": "text", "text": "Liveness check: reply or take an action now."}],
                    "metadata": {"kind": "stall_probe", "source": "platform", "source_type": "self-stall"},
                },
                "metadata": {"wake_idempotency_key": format!("stall:{}:1", to.id)},
            },
        });
        self.outside_says(to, body, Stage::Http)
    }

    /// Whoever holds the inbound secret writes any body; gives the row's id.
    pub fn inbound_says(&self, to: &Workspace, body: Value) -> Result<String, Error> {
        self.outside_says(to, body, Stage::Http)
    }

    fn outside_says(&self, to: &Workspace, body: Value, stage: Stage) -> Result<String, Error> {
        let to = WorkspaceId::read(&to.id).ok_or(Error::NotStored)?;
        let row = self.change(|ground| {
            let body = super::a2a::normal(ground.edition, body).ok()?;
            let from = None;
            ground.deliver_as(Letter { from, to, body }, stage)
        });
        row.ok_or(Error::NotStored)
    }
}

impl Ground {
    pub(super) fn channels(&mut self, call: &Call) -> Result<Answer, Answer> {
        let id = self.admit(call)?;
        let office = self.offices.get(&id);
        let channels = office.iter().flat_map(|office| &office.channels);
        let shown = channels.map(|channel| {
            let key = match channel.kind.as_str() {
                "slack" => "channel_id",
                _ => "chat_id",
            };
            json!({
                "id": channel.id, "workspace_id": id.to_string(), "channel_type": channel.kind,
                "config": {key: channel.chats, "bot_token": "1234...abcd"}, "enabled": true,
                "allowed_users": [], "message_count": channel.sent.len(),
            })
        });
        Ok(Answer::ok(Value::Array(shown.collect())))
    }

    pub(super) fn send_to_channel(&mut self, call: &Call) -> Result<Answer, Answer> {
        let id = self.admit(call)?;
        let body = call.json().unwrap_or(Value::Null);
        let text = body.get("text").and_then(Value::as_str);
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            return Err(Answer::error(400, "text is required"));
        };
        let office = self.offices.get_mut(&id);
        let mut channels = office.into_iter().flat_map(|office| &mut office.channels);
        match channels.find(|channel| channel.id == call.place.part) {
            Some(channel) => {
                channel.sent.push(text.to_owned());
                Ok(Answer::ok(json!({ "status": "sent" })))
            }
            None => Err(Answer::error(500, "send failed")),
        }
    }

    /// `POST /a2a/inbound`: the body is stored as it came.
    pub(super) fn inbound(&mut self, call: &Call) -> Result<Answer, Answer> {
        let to = WorkspaceId::read(&call.place.id).filter(|to| self.offices.contains_key(to));
        let Some(to) = to else {
            return Err(Answer::error(404, "workspace not found"));
        };
        let secret = self.offices.get(&to).map(|office| office.secret.clone());
        let shown = super::auth::token_of(call).map(ToOwned::to_owned);
        match (shown, secret) {
            (None, _) => return Err(Answer::error(401, "missing Authorization header")),
            (shown, secret) if shown != secret => {
                return Err(Answer::error(403, "invalid inbound secret"));
            }
            _ => {}
        }
        let body = call.json().filter(Value::is_object);
        let body = body.ok_or_else(|| Answer::error(400, "invalid JSON"))?;
        let body = super::a2a::normal(self.edition, body)?;
        let receipt = super::a2a::receipt("message/send");
        self.deliver_as(
            Letter {
                from: None,
                to,
                body,
            },
            Stage::Http,
        );
        Ok(Answer::ok(receipt))
    }
}

/// What the newer platform writes over a message of the canvas, whatever was sent.
pub(super) fn mark_canvas(edition: Edition, body: &mut Value) {
    if !edition.marks_canvas() {
        return;
    }
    if let Some(Value::Object(params)) = body.get_mut("params") {
        let metadata = params.entry("metadata").or_insert_with(|| json!({}));
        super::rows::put(metadata, "source", json!("canvas_user"));
        super::rows::put(metadata, "user_identity_status", json!("UNAUTHENTICATED"));
    }
}

/// Whether the platform's server finds a `messageId`. It reads keys without regard to their case, the last one counts,
/// and one of another type makes the whole body unreadable for it.
pub(super) fn server_reads_id(body: &Value) -> bool {
    let found = last(body, "params")
        .and_then(|params| last(params, "message"))
        .and_then(|message| last(message, "messageid"));
    let id = found.and_then(Value::as_str);
    id.is_some_and(|id| !id.is_empty())
}

fn last<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    let folds = |key: &str| key.replace('\u{17f}', "s").eq_ignore_ascii_case(name);
    let mut fields = object.as_object()?.iter();
    let found = fields.rfind(|(key, _)| folds(key));
    found.map(|(_, value)| value)
}
