//! Workspaces themselves: made, looked at, paused, deleted; their tokens and what a new agent needs to connect.

use serde_json::{Value, json};

use super::ground::Ground;
use super::ids::WorkspaceId;
use super::office::{Office, Status};
use super::options::Edition;
use super::rows::put;
use super::wire::{Answer, Call};

/// What a removed workspace's agent is told to do.
const HINT: &str = "Regenerate workspace + token from the canvas → Tokens tab";
const HINT_OF_AUGUST: &str =
    "Create a replacement workspace in Canvas, then open Settings → Workspace Tokens → + New Token";
/// Live tokens that one workspace may have.
const TOKENS_MOST: usize = 50;

impl Ground {
    pub(super) fn create(&mut self, call: &Call) -> Result<Answer, Answer> {
        self.admit_admin(call)?;
        let body = call.json().unwrap_or(Value::Null);
        let text = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default();
        if text("name").is_empty() {
            return Err(Answer::error(400, "invalid request body"));
        }
        let tier = body.get("tier").and_then(Value::as_u64).unwrap_or(1);
        let parent = WorkspaceId::read(text("parent_id"));
        let (id, token) = self.found(text("name"), text("role"), tier, parent);
        Ok(Answer::json(
            201,
            json!({
                "id": id.to_string(),
                "status": Status::AwaitingAgent.text(),
                "external": true,
                "connection": self.connection_of(id, &token),
            }),
        ))
    }

    /// Makes a workspace; newer platforms put what has no parent under the first root, the newest only if there is no
    /// other one.
    pub(super) fn found(
        &mut self,
        name: &str,
        role: &str,
        tier: u64,
        parent: Option<WorkspaceId>,
    ) -> (WorkspaceId, String) {
        let parent = match self.edition {
            Edition::Seed => parent,
            Edition::New => parent.or(self.root),
            Edition::August => parent.or(self.only_root()),
        };
        self.settle(Office::new(name, role, tier, parent))
    }

    fn only_root(&self) -> Option<WorkspaceId> {
        let mut roots = self
            .offices
            .values()
            .filter(|office| office.parent.is_none());
        match (roots.next(), roots.next()) {
            (Some(root), None) => Some(root.id),
            (None, _) | (Some(_), Some(_)) => None,
        }
    }

    pub(super) fn settle(&mut self, office: Office) -> (WorkspaceId, String) {
        let id = office.id;
        if office.parent.is_none() {
            self.root.get_or_insert(id);
        }
        self.offices.insert(id, office);
        (id, self.mint(id))
    }

    fn connection_of(&self, id: WorkspaceId, token: &str) -> Value {
        json!({
            "workspace_id": id.to_string(),
            "platform_url": self.base,
            "auth_token": token,
            "registry_endpoint": format!("{}/registry/register", self.base),
            "heartbeat_endpoint": format!("{}/registry/heartbeat", self.base),
        })
    }

    pub(super) fn workspace(&mut self, call: &Call) -> Result<Answer, Answer> {
        let id = WorkspaceId::read(&call.place.id)
            .ok_or_else(|| Answer::error(400, "invalid workspace ID"))?;
        if !self.database {
            return Err(Answer::error(500, "query failed"));
        }
        let office = self
            .offices
            .get(&id)
            .ok_or_else(|| Answer::error(404, "workspace not found"))?;
        match office.removed_at {
            None => Ok(Answer::ok(self.describe(office))),
            Some(removed_at) => Err(Answer::json(
                410,
                json!({
                    "error": "workspace removed",
                    "id": id.to_string(),
                    "removed_at": removed_at.text(),
                    "hint": match self.edition {
                        Edition::Seed | Edition::New => HINT,
                        Edition::August => HINT_OF_AUGUST,
                    },
                }),
            )),
        }
    }

    fn describe(&self, office: &Office) -> Value {
        let mut shown = json!({
            "id": office.id.to_string(),
            "name": office.name,
            "role": office.role,
            "tier": office.tier,
            "status": office.status(self.edition, self.clock.now()).text(),
            "parent_id": office.parent.map(|id| id.to_string()),
            "runtime": "external",
            "url": "",
            "agent_card": office.card,
            "active_tasks": office.active_tasks,
            "max_concurrent_tasks": 1,
            "last_error_rate": office.error_rate(),
            "uptime_seconds": office.uptime,
            "last_outbound_at": null,
            "x": 0,
            "y": 0,
            "collapsed": false,
        });
        if self.edition != Edition::Seed {
            let heard = office.last_heartbeat.map(|at| at.text());
            put(&mut shown, "kind", json!("workspace"));
            put(&mut shown, "last_heartbeat_at", json!(heard));
            put(&mut shown, "loaded_mcp_tools", json!([]));
            put(
                &mut shown,
                "talk_to_user_enabled",
                json!(office.talk_to_user),
            );
            put(&mut shown, "broadcast_enabled", json!(false));
            put(&mut shown, "wedged", json!(false));
            put(&mut shown, "compute", json!({}));
        }
        if self.edition == Edition::August {
            put(&mut shown, "last_sample_error", json!(office.sample_error));
            put(&mut shown, "mcp_surface", Value::Null);
        }
        shown
    }

    pub(super) fn state(&mut self, call: &Call) -> Result<Answer, Answer> {
        let id = self.admit(call)?;
        let status = self.status_of(id);
        Ok(Answer::ok(json!({
            "workspace_id": id.to_string(),
            "status": status.text(),
            "paused": status == Status::Paused,
            "deleted": status == Status::Removed,
        })))
    }

    pub(super) fn status_of(&self, id: WorkspaceId) -> Status {
        let now = self.clock.now();
        let office = self.offices.get(&id);
        office.map_or(Status::Removed, |office| office.status(self.edition, now))
    }

    pub(super) fn pause(&mut self, call: &Call) -> Result<Answer, Answer> {
        self.admit_admin(call)?;
        let office = self.office_mut(&call.place.id);
        let office = office.ok_or_else(|| Answer::error(404, "workspace not found"))?;
        office.pause();
        Ok(Answer::ok(json!({"status": "paused", "paused_count": 1})))
    }

    pub(super) fn resume(&mut self, call: &Call) -> Result<Answer, Answer> {
        self.admit_admin(call)?;
        let office = self.office_mut(&call.place.id);
        let office = office.ok_or_else(|| Answer::error(404, "workspace not found"))?;
        office.resume();
        Ok(Answer::ok(
            json!({"status": "provisioning", "resumed_count": 1}),
        ))
    }

    /// The recorded platform had no container engine, so it removes and then says 500; that is kept.
    pub(super) fn delete(&mut self, call: &Call) -> Result<Answer, Answer> {
        self.admit_admin(call)?;
        let office = self.office(&call.place.id);
        let office = office.ok_or_else(|| Answer::error(404, "workspace not found"))?;
        let (id, name) = (office.id, office.name.clone());
        let confirmed = call.header("x-confirm-name") == Some(name.as_str());
        if self.edition != Edition::Seed && !confirmed {
            let mut asked = json!({
                    "error": "destructive_action_requires_confirmation",
                    "hint": format!("Re-send the same request with header X-Confirm-Name: {name}"),
                    "workspace_name": name,
                    "active_tasks": office.active_tasks,
                    "child_count": self.offices.values().filter(|child| child.parent == Some(id)).count(),
            });
            if self.edition == Edition::New {
                put(&mut asked, "schedule_count", json!(0));
            }
            return Err(Answer::json(400, asked));
        }
        self.remove(id);
        let why =
            format!("workspace marked removed, but 1 stop call(s) failed — please retry: {id}");
        Err(Answer::json(
            500,
            json!({"error": why, "removed_count": 1, "stop_failures": 1}),
        ))
    }

    /// Removal revokes every token; the rows stay.
    pub(super) fn remove(&mut self, id: WorkspaceId) {
        let now = self.clock.now();
        self.revoke_all(id);
        if let Some(office) = self.offices.get_mut(&id) {
            office.remove(now);
        }
    }

    pub(super) fn list_tokens(&mut self, call: &Call) -> Result<Answer, Answer> {
        let id = self.admit(call)?;
        let tokens: Vec<Value> = self
            .tokens
            .iter()
            .filter(|(_, token)| token.workspace == id)
            .map(|(text, token)| {
                json!({
                    "id": token.id,
                    "prefix": text.chars().take(8).collect::<String>(),
                    "created_at": token.created.text(),
                    "last_used_at": token.used.map(|at| at.text()),
                })
            })
            .collect();
        Ok(Answer::ok(json!({"count": tokens.len(), "tokens": tokens})))
    }

    pub(super) fn mint_token(&mut self, call: &Call) -> Result<Answer, Answer> {
        let id = self.admit(call)?;
        let live = self.tokens.values().filter(|token| token.workspace == id);
        if live.count() >= TOKENS_MOST {
            return Err(Answer::error(429, "too many tokens"));
        }
        let token = self.mint(id);
        Ok(Answer::json(
            201,
            json!({
                "auth_token": token,
                "workspace_id": id.to_string(),
                "message": "Save this token now — it cannot be retrieved again.",
            }),
        ))
    }

    pub(super) fn revoke_token(&mut self, call: &Call) -> Result<Answer, Answer> {
        let id = self.admit(call)?;
        let had = self.tokens.len();
        let gone =
            |token: &super::ground::Token| token.workspace == id && token.id == call.place.part;
        self.tokens.retain(|_, token| !gone(token));
        if self.tokens.len() < had {
            Ok(Answer::ok(json!({ "status": "revoked" })))
        } else {
            Err(Answer::error(404, "token not found"))
        }
    }

    pub(super) fn connection(&mut self, call: &Call) -> Result<Answer, Answer> {
        let id = self.admit(call)?;
        Ok(Answer::ok(
            json!({ "connection": self.connection_of(id, "") }),
        ))
    }

    pub(super) fn rotate(&mut self, call: &Call) -> Result<Answer, Answer> {
        let id = self.admit(call)?;
        self.revoke_all(id);
        let token = self.mint(id);
        Ok(Answer::ok(
            json!({ "connection": self.connection_of(id, &token) }),
        ))
    }
}
