//! Delegation: the one call that delivers a task under a key, and the list of what became of each.
//! To a workspace that polls it is "completed" by the receipt, in milliseconds and without any answer.

use serde_json::{Value, json};

use super::a2a::{Letter, NOT_RELATED, receipt};
use super::faults::Late;
use super::ground::{Delegated, Ground};
use super::ids::{WorkspaceId, fresh_id};
use super::options::Edition;
use super::rows::{Entry, Row, put};
use super::wire::{Answer, Call};

/// The activity type of both rows of a delegation.
const DELEGATION: &str = "delegation";
/// Delegations that the list shows.
const LIST_MOST: usize = 50;

impl Ground {
    pub(super) fn delegate(&mut self, call: &Call) -> Result<Answer, Answer> {
        let id = self.admit(call)?;
        let body = call.json().unwrap_or(Value::Null);
        let text = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default();
        if text("task").is_empty() || text("target_id").is_empty() {
            return Err(Answer::error(400, "invalid delegation request"));
        }
        let Some(target) = WorkspaceId::read(text("target_id")) else {
            return Err(Answer::error(400, "target_id must be a valid UUID"));
        };
        if target == id {
            return Err(self.self_delegation());
        }
        let key = (id, text("idempotency_key").to_owned());
        if !key.1.is_empty()
            && let Some(known) = self.delegated.get(&key)
        {
            return Ok(Answer::ok(json!({
                "delegation_id": known.id,
                "idempotent_hit": true,
                "status": known.status,
                "target_id": known.target,
            })));
        }
        let delegation = fresh_id();
        let status = self.hand_over(id, target, text("task"), &delegation);
        if !key.1.is_empty() && status != "failed" {
            let known = Delegated {
                id: delegation.clone(),
                target: target.to_string(),
                status,
            };
            self.delegated.insert(key, known);
        }
        Ok(Answer::json(
            202,
            json!({
                "delegation_id": delegation,
                "status": "delegated",
                "target_id": target.to_string(),
            }),
        ))
    }

    fn self_delegation(&self) -> Answer {
        let mut body = json!({ "error": "self-delegation not permitted" });
        if self.edition != Edition::Seed {
            let reason = "source and target are the same workspace";
            put(&mut body, "reason", json!(reason));
            put(&mut body, "hint", json!("pick another peer"));
        }
        Answer::json(400, body)
    }

    /// Writes the row, delivers the task if that may be, and writes what came of it.
    fn hand_over(
        &mut self,
        id: WorkspaceId,
        target: WorkspaceId,
        task: &str,
        delegation: &str,
    ) -> &'static str {
        let allowed = self.may_talk(id, target);
        let status = if allowed { "completed" } else { "failed" };
        let error = (!allowed).then(|| NOT_RELATED.to_owned());
        let made = Entry {
            kind: DELEGATION.to_owned(),
            method: Some("delegate".to_owned()),
            source: Some(id.to_string()),
            target: Some(target.to_string()),
            summary: Some(format!("Delegating to {target}")),
            status: status.to_owned(),
            error: error.clone(),
            request: Some(json!({"task": task, "delegation_id": delegation})),
            response: match self.edition {
                Edition::Seed => None,
                Edition::New | Edition::August => Some(json!({ "delegation_id": delegation })),
            },
            message_id: None,
        };
        let mut came = made.clone();
        self.log(id, made, Late::Never);
        came.method = Some("delegate_result".to_owned());
        came.request = None;
        came.response = None;
        came.summary = Some("Delegation failed".to_owned());
        if allowed {
            self.deliver(self.task_letter(id, target, task, delegation));
            let text = receipt("message/send").to_string();
            came.summary = Some(format!("Delegation completed ({text})"));
            came.response = Some(json!({"text": text, "delegation_id": delegation}));
        }
        self.log(id, came, Late::Never);
        status
    }

    fn task_letter(
        &self,
        from: WorkspaceId,
        to: WorkspaceId,
        task: &str,
        delegation: &str,
    ) -> Letter {
        let part = match self.edition {
            Edition::Seed => json!({"type": "text", "text": task}),
            Edition::New | Edition::August => json!({"kind": "text", "text": task}),
        };
        let message = json!({
            "role": "user",
            "messageId": delegation,
            "parts": [part],
            "metadata": {"delegation_id": delegation},
        });
        let body = json!({
            "jsonrpc": "2.0",
            "id": fresh_id(),
            "method": "message/send",
            "params": {"message": message},
        });
        Letter {
            from: Some(from),
            to,
            body,
        }
    }

    pub(super) fn delegations(&mut self, call: &Call) -> Result<Answer, Answer> {
        let id = self.admit(call)?;
        let mut rows: Vec<&Row> = self
            .rows
            .iter()
            .filter(|row| row.entry.kind == DELEGATION && self.lists(row, id))
            .collect();
        rows.sort_by_key(|row| std::cmp::Reverse((row.at, row.seq)));
        let shown = rows.into_iter().take(LIST_MOST);
        let shown: Vec<Value> = match self.edition {
            Edition::Seed | Edition::New => {
                shown.map(|row| list_entry(self.edition, row)).collect()
            }
            Edition::August => shown.map(|row| ledger_entry(row, id)).collect(),
        };
        Ok(Answer::ok(json!(shown)))
    }

    /// Whether a row of a delegation is in the list of this workspace. The newest platform keeps a ledger: one entry
    /// per delegation, shown to both sides.
    fn lists(&self, row: &Row, id: WorkspaceId) -> bool {
        match self.edition {
            Edition::Seed | Edition::New => row.workspace == id,
            Edition::August => {
                let made = row.entry.method.as_deref() == Some("delegate");
                made && (row.workspace == id || row.entry.target == Some(id.to_string()))
            }
        }
    }
}

fn ledger_entry(row: &Row, id: WorkspaceId) -> Value {
    let entry = &row.entry;
    let asked = |key: &str| entry.request.as_ref().and_then(|asked| asked.get(key));
    let mut shown = json!({
        "delegation_id": asked("delegation_id"),
        "source_id": entry.source,
        "target_id": entry.target,
        "direction": if row.workspace == id { "sent" } else { "received" },
        "summary": asked("task"),
        "status": entry.status,
        "created_at": row.at.text(),
        "updated_at": row.at.text(),
        "_ledger": true,
    });
    if let Some(error) = &entry.error {
        put(&mut shown, "error", json!(error));
    }
    shown
}

fn list_entry(edition: Edition, row: &Row) -> Value {
    let entry = &row.entry;
    let mut shown = json!({
        "id": row.id,
        "type": "delegation",
        "source_id": entry.source,
        "target_id": entry.target,
        "summary": entry.summary,
        "status": entry.status,
        "created_at": row.at.text(),
    });
    if edition != Edition::Seed {
        put(&mut shown, "direction", json!("sent"));
    }
    if let Some(error) = &entry.error {
        put(&mut shown, "error", json!(error));
    }
    let bodies = [&entry.response, &entry.request].into_iter().flatten();
    let mut ids = bodies.filter_map(|body| body.get("delegation_id"));
    if let Some(id) = ids.next() {
        put(&mut shown, "delegation_id", id.clone());
    }
    if let Some(response) = &entry.response {
        let preview = match response.get("text").and_then(Value::as_str) {
            Some(text) => text.to_owned(),
            None => response.to_string().replace("\":", "\": "),
        };
        put(&mut shown, "response_preview", json!(preview));
    }
    shown
}
