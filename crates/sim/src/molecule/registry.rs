//! Signing on, staying present, and finding others: the `/registry` calls.

use serde_json::{Value, json};

use super::dispatch::PushCalls;
use super::ground::Ground;
use super::ids::WorkspaceId;
use super::office::{Office, Status};
use super::options::Edition;
use super::wire::{Answer, Call};

const BAD_BODY: &str = "invalid request body";

impl Ground {
    pub(super) fn register(&mut self, call: &Call) -> Result<Answer, Answer> {
        let body = call.json().unwrap_or(Value::Null);
        let id = read_id(&body, "id")?;
        let answer = self.sign_on(call, &body, id);
        if answer.is_err() {
            let now = self.clock.now();
            if let Some(office) = self.offices.get_mut(&id) {
                office.register_failed = Some(now);
            }
        }
        answer
    }

    fn sign_on(&mut self, call: &Call, body: &Value, id: WorkspaceId) -> Result<Answer, Answer> {
        if !self.database {
            return Err(Answer::error(500, "registration failed"));
        }
        self.admit_to_registry(call, id)?;
        let mode = body.get("delivery_mode").and_then(Value::as_str);
        let url = body.get("url").and_then(Value::as_str).unwrap_or_default();
        match mode.unwrap_or("push") {
            "poll" => {}
            "push" if url.is_empty() => {
                let why = "url is required for push-mode workspaces";
                return Err(Answer::error(400, why));
            }
            "push" => {}
            _ => return Err(Answer::error(400, "delivery_mode must be 'push' or 'poll'")),
        }
        let minted = (!self.has_token(id)).then(|| self.mint(id));
        let now = self.clock.now();
        let card = body.get("agent_card").cloned().unwrap_or_else(|| json!({}));
        let Some(office) = self.offices.get_mut(&id) else {
            return Err(Answer::error(500, "registration failed"));
        };
        office.registered(self.edition, card, now);
        office.push_url = (mode.unwrap_or("push") == "push").then(|| url.to_owned());
        let secret = office.secret.clone();
        self.poll_from_now_on(id);
        let mut came = json!({
            "status": "registered",
            "delivery_mode": mode.unwrap_or("push"),
            "platform_inbound_secret": secret,
        });
        if let Some(token) = minted {
            super::rows::put(&mut came, "auth_token", json!(token));
        }
        Ok(Answer::ok(came))
    }

    pub(super) fn heartbeat(&mut self, call: &Call) -> Result<Answer, Answer> {
        let body = call.json().unwrap_or(Value::Null);
        let id = read_id(&body, "workspace_id")?;
        if !self.database {
            return Err(Answer::error(500, "failed to update"));
        }
        self.admit_to_registry(call, id)?;
        let now = self.clock.now();
        let Some(office) = self.offices.get_mut(&id) else {
            return Err(Answer::error(500, "failed to update"));
        };
        office.beat(self.edition, &body, now);
        let mut came = json!({"status": "ok", "platform_inbound_secret": office.secret});
        if self.edition == Edition::August {
            // Grows when the platform wants a runtime to load its settings again, which no external one does.
            super::rows::put(&mut came, "generation", json!(0));
        }
        let calls = PushCalls::Meanwhile(self.drain(id));
        Ok(Answer {
            calls: Some(Box::new(calls)),
            ..Answer::ok(came)
        })
    }

    pub(super) fn update_card(&mut self, call: &Call) -> Result<Answer, Answer> {
        let body = call.json().unwrap_or(Value::Null);
        let id = read_id(&body, "workspace_id")?;
        if !self.database {
            return Err(Answer::error(500, "failed to update"));
        }
        self.admit_to_registry(call, id)?;
        if let (Some(office), Some(card)) = (self.offices.get_mut(&id), body.get("agent_card")) {
            office.card = Some(card.clone());
        }
        Ok(Answer::ok(json!({ "status": "updated" })))
    }

    pub(super) fn discover(&mut self, call: &Call) -> Result<Answer, Answer> {
        if call.header("x-workspace-id").is_none() {
            return Err(Answer::error(400, "X-Workspace-ID header is required"));
        }
        self.reachable()?;
        let caller = self.caller(call)?;
        let target = WorkspaceId::read(&call.place.id);
        let allowed = match (caller, target) {
            (Some(caller), Some(target)) => self.may_talk(caller, target),
            (None, Some(target)) => self.offices.contains_key(&target),
            (_, None) => false,
        };
        let Some(office) = target
            .filter(|_| allowed)
            .and_then(|id| self.offices.get(&id))
        else {
            let why = "not authorized to discover this workspace";
            return Err(Answer::error(403, why));
        };
        match office.status(self.edition, self.clock.now()) {
            Status::Online | Status::Degraded => Ok(Answer::ok(json!({
                "id": office.id.to_string(),
                "name": office.name,
                "url": self.fiction(office.id),
            }))),
            status @ (Status::AwaitingAgent
            | Status::Paused
            | Status::Provisioning
            | Status::Removed) => Err(Answer::json(
                503,
                json!({"error": "workspace not available", "status": status.text()}),
            )),
        }
    }

    /// Where a workspace would be if it ran in a container; nobody is there.
    fn fiction(&self, id: WorkspaceId) -> String {
        let id = id.to_string();
        let host = match self.edition {
            Edition::Seed => id.get(..12).unwrap_or_default(),
            Edition::New | Edition::August => &id,
        };
        format!("http://ws-{host}:8000")
    }

    pub(super) fn peers(&mut self, call: &Call) -> Result<Answer, Answer> {
        self.reachable()?;
        let id = self.admit(call)?;
        let named = |office: &&Office| match call.asked("q") {
            Some(part) => office.name.to_lowercase().contains(&part.to_lowercase()),
            None => true,
        };
        let peers: Vec<Value> = self
            .offices
            .values()
            .filter(|office| office.id != id && office.removed_at.is_none())
            .filter(|office| self.may_talk(id, office.id))
            .filter(named)
            .map(|office| self.peer(office))
            .collect();
        Ok(Answer::ok(json!(peers)))
    }

    fn peer(&self, office: &Office) -> Value {
        json!({
            "id": office.id.to_string(),
            "name": office.name,
            "role": office.role,
            "tier": office.tier,
            "status": office.status(self.edition, self.clock.now()).text(),
            "url": "",
            "parent_id": office.parent.map(|id| id.to_string()),
            "active_tasks": office.active_tasks,
            "agent_card": office.card,
        })
    }

    /// Finding others fails in its own way while the database is down.
    fn reachable(&self) -> Result<(), Answer> {
        match (self.database, self.edition) {
            (true, _) => Ok(()),
            (false, Edition::Seed) => Err(Answer::error(500, "query failed")),
            (false, Edition::New | Edition::August) => Err(Answer::json(
                503,
                json!({
                    "error": "platform datastore unavailable — retry shortly",
                    "code": "platform_unavailable",
                }),
            )),
        }
    }
}

fn read_id(body: &Value, key: &str) -> Result<WorkspaceId, Answer> {
    let id = body.get(key).and_then(Value::as_str);
    id.and_then(WorkspaceId::read)
        .ok_or_else(|| Answer::error(400, BAD_BODY))
}
