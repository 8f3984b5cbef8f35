//! One call, one answer: which rule answers which route. Also what is seen of every call.

use serde_json::{Value, json};

use super::auth::Bearer;
use super::ground::Ground;
use super::ids::WorkspaceId;
use super::options::Edition;
use super::route::Route;
use super::seen::{AuthSeen, SEEN_MOST, Seen};
use super::wire::{Answer, Call};

impl Ground {
    /// What the platform says, once nothing stands between.
    pub(super) fn answer(&mut self, call: &Call) -> Answer {
        let answered = match call.place.route {
            Route::Health => Ok(Answer::ok(json!({ "status": "ok" }))),
            Route::BuildInfo => Ok(Answer::ok(json!({ "git_sha": "dev" }))),
            Route::Create => self.create(call),
            Route::Workspace => self.workspace(call),
            Route::Delete => self.delete(call),
            Route::State => self.state(call),
            Route::Pause => self.pause(call),
            Route::Resume => self.resume(call),
            Route::Register => self.register(call),
            Route::Heartbeat => self.heartbeat(call),
            Route::UpdateCard => self.update_card(call),
            Route::Discover => self.discover(call),
            Route::Peers => self.peers(call),
            Route::Activity => self.activity(call),
            Route::Report => self.report(call),
            Route::Ack => self.ack(call),
            Route::Notify => self.notify(call),
            Route::A2a => self.a2a(call),
            Route::Inbound => self.inbound(call),
            Route::Channels => self.channels(call),
            Route::SendToChannel => self.send_to_channel(call),
            Route::Delegate => self.delegate(call),
            Route::Delegations => self.delegations(call),
            Route::ChatHistory => self.chat_history(call),
            Route::Upload => self.upload(call),
            Route::PendingContent => self.pending_content(call),
            Route::PendingAck => self.pending_ack(call),
            Route::UploadLimits => Ok(self.upload_limits()),
            Route::Tokens => self.list_tokens(call),
            Route::MintToken => self.mint_token(call),
            Route::RevokeToken => self.revoke_token(call),
            Route::Connection => self.connection(call),
            Route::Rotate => self.rotate(call),
            Route::Broadcast => self.broadcast(call),
            Route::Mcp => self.mcp(call),
            Route::Events | Route::Unknown => Err(Answer::not_found()),
        };
        answered.unwrap_or_else(|refusal| refusal)
    }

    /// No workspace has this ability unless an admin gives it, and none does here.
    fn broadcast(&mut self, call: &Call) -> Result<Answer, Answer> {
        self.admit(call)?;
        let hint = "This workspace does not have the broadcast ability.";
        Err(Answer::json(
            403,
            json!({"error": "broadcast_disabled", "hint": hint}),
        ))
    }

    /// The platform's own tools over MCP: their list. Calling one is not simulated and says so.
    fn mcp(&mut self, call: &Call) -> Result<Answer, Answer> {
        self.admit(call)?;
        let body = call.json().unwrap_or(Value::Null);
        let id = body.get("id").cloned().unwrap_or(Value::Null);
        let answer = match body.get("method").and_then(Value::as_str) {
            Some("tools/list") => {
                json!({"jsonrpc": "2.0", "id": id, "result": {"tools": tools(self.edition)}})
            }
            _ => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "not simulated"}})
            }
        };
        Ok(Answer::ok(answer))
    }

    /// Remembers a call; its number is for telling later what was answered.
    pub(super) fn saw(&mut self, call: &Call) -> u64 {
        self.calls += 1;
        let path = WorkspaceId::read(&call.place.id);
        let auth = match self.bearer(call) {
            Bearer::Missing => AuthSeen::None,
            Bearer::Admin => AuthSeen::Admin,
            Bearer::Owner(owner) if path.is_none_or(|path| path == owner) => AuthSeen::Own,
            Bearer::Owner(_) => AuthSeen::Other,
            Bearer::Unknown => AuthSeen::Unknown,
        };
        if self.seen.len() < SEEN_MOST {
            self.seen.push(Seen::of(self.calls, call, auth));
        }
        self.calls
    }

    pub(super) fn answered(&mut self, number: u64, status: u16) {
        let seen = self
            .seen
            .iter_mut()
            .rev()
            .find(|seen| seen.number == number);
        if let Some(seen) = seen {
            seen.status = Some(status);
        }
    }
}

fn tools(edition: Edition) -> Value {
    let text = |about: &str| json!({"type": "string", "description": about});
    let mut arguments = json!({"workspace_id": text("the peer"), "task": text("what to do")});
    if edition != Edition::Seed {
        let file = json!({
            "type": "object",
            "properties": {"uri": text("where"), "name": text("label"), "mimeType": text("type"), "size": {"type": "number", "description": "bytes"}},
            "required": ["uri", "name"],
        });
        let files = json!({"type": "array", "description": "files", "items": file});
        super::rows::put(&mut arguments, "attachments", files);
    }
    json!([{
        "name": "delegate_task",
        "description": "Hand a task to a peer and wait.",
        "inputSchema": {"type": "object", "properties": arguments, "required": ["workspace_id", "task"]},
    }])
}
