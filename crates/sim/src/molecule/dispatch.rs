//! Calling agents that registered an address (`delivery_mode: push`): one POST per message, whose answer the caller waits
//! for. A call that breaks is queued and made again after a heartbeat that reports a free agent.
//!
//! As the source of August has it (`a2a_proxy.go:965-1140, 1636-1690`, `a2a_proxy_helpers.go:108-330`,
//! `a2a_inbound_auth.go:62-110`, `a2a_queue.go:713`): the row is written before the call; the call carries the message as
//! it was stored, no name of who wrote it, and the workspace's secret only where the address looks like one outside.

use std::net::IpAddr;
use std::time::Duration;

use serde_json::{Value, json};

use super::MoleculePlatform;
use super::ground::{Ground, Shared, change};
use super::ids::{WorkspaceId, fresh_id};
use super::push::BUSY;
use super::wire::Answer;

/// How long an agent may take: the platform's ceiling for calls of agents.
const CEILING: Duration = Duration::from_secs(30 * 60);

/// A call to an agent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PushCall {
    pub(super) to: WorkspaceId,
    url: String,
    secret: Option<String>,
    body: Value,
    /// Whether the caller is the canvas, whose rows show what a queued call was answered with.
    from_canvas: bool,
    /// Whether it was queued before.
    queued: bool,
}

/// Calls that an answer of the platform's is followed by.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PushCalls {
    /// Its answer is the platform's.
    Answer(PushCall),
    /// They are made meanwhile.
    Meanwhile(Vec<PushCall>),
}

impl MoleculePlatform {
    /// Sends the secret with every call, also to addresses of its own network (`MOLECULE_A2A_ALWAYS_AUTH`).
    pub fn always_authenticates(&self) {
        self.change(|ground| {
            ground.always_auth = true;
            Some(())
        });
    }

    /// Gives a workspace another inbound secret, as an operator does in the database.
    pub fn change_secret(&self, workspace: &super::Workspace) {
        self.change(|ground| {
            let office = ground.office_mut(&workspace.id)?;
            office.secret = super::ids::fresh_token();
            Some(())
        });
    }

    /// The secret that the platform calls this workspace with.
    pub fn secret_of(&self, workspace: &super::Workspace) -> String {
        let ground = self.ground.borrow();
        let office = ground.office(&workspace.id);
        office
            .map(|office| office.secret.clone())
            .unwrap_or_default()
    }

    /// What the row of a message shows as its agent's answer.
    pub fn answer_to(&self, message_id: &str) -> Option<String> {
        let ground = self.ground.borrow();
        let mut rows = ground.rows.iter();
        let row = rows.find(|row| row.entry.message_id.as_deref() == Some(message_id))?;
        let answer = row
            .entry
            .response
            .as_ref()?
            .pointer("/result/parts/0/text")?;
        answer.as_str().map(str::to_owned)
    }

    /// Calls that wait for the agent of a workspace.
    pub fn queued_calls(&self, workspace: &super::Workspace) -> usize {
        let ground = self.ground.borrow();
        let office = ground.office(&workspace.id);
        office.map_or(0, |office| office.queue.len())
    }
}

impl Ground {
    /// The call that hands a message to an agent that is pushed to.
    pub(super) fn push_call(
        &self,
        from: Option<WorkspaceId>,
        to: WorkspaceId,
        body: &Value,
    ) -> Option<PushCall> {
        let office = self.offices.get(&to)?;
        let url = office.push_url.clone()?;
        let secret = (self.always_auth || is_outside(&url)).then(|| office.secret.clone());
        Some(PushCall {
            to,
            url,
            secret,
            body: body.clone(),
            from_canvas: from.is_none(),
            queued: false,
        })
    }

    /// What waits for an agent that is free now. Calls under way are not there any more.
    pub(super) fn drain(&mut self, id: WorkspaceId) -> Vec<PushCall> {
        match self.offices.get_mut(&id) {
            Some(office) if office.active_tasks == 0 => std::mem::take(&mut office.queue),
            Some(_) | None => Vec::new(),
        }
    }

    fn answered_by_agent(&mut self, call: &PushCall, response: &Value) {
        if call.queued && !call.from_canvas {
            return;
        }
        let named = call.body.pointer("/params/message/messageId");
        let Some(named) = named.and_then(Value::as_str) else {
            return;
        };
        let mut rows = self.rows.iter_mut();
        let row = rows
            .find(|row| row.workspace == call.to && row.entry.message_id.as_deref() == Some(named));
        if let Some(row) = row {
            row.entry.response = Some(response.clone());
        }
    }

    fn enqueue(&mut self, call: PushCall) -> Answer {
        let Some(office) = self.offices.get_mut(&call.to) else {
            return Answer::error(404, "workspace not found");
        };
        office.queue.push(PushCall {
            queued: true,
            ..call
        });
        let depth = office.queue.len();
        Answer::json(
            202,
            json!({"queued": true, "queue_id": fresh_id(), "queue_depth": depth, "message": BUSY}),
        )
    }
}

/// Makes a call, and tells its caller how it ended.
pub(super) async fn dispatch(ground: &Shared, call: PushCall) -> Answer {
    let client = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(CEILING)
        .build();
    let Ok(client) = client else {
        return Answer::error(500, "failed to create proxy request");
    };
    let mut request = client.post(&call.url).json(&call.body);
    if let Some(secret) = &call.secret {
        request = request.bearer_auth(secret);
    }
    let response = match request.send().await {
        Ok(response) => response,
        Err(error) if error.is_connect() => {
            return Answer::error(502, "failed to reach workspace agent");
        }
        // It took the call and hung up, or took too long.
        Err(_) => return enqueue(ground, call),
    };
    let status = response.status().as_u16();
    let Ok(bytes) = response.bytes().await else {
        return enqueue(ground, call);
    };
    let body: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    if status >= 300 {
        let said = body.get("error").and_then(Value::as_str);
        return Answer::error(status, said.unwrap_or("the agent refused the call"));
    }
    change(ground, |ground| {
        ground.answered_by_agent(&call, &body);
        Some(())
    });
    Answer::json(status, body)
}

fn enqueue(ground: &Shared, call: PushCall) -> Answer {
    change(ground, |ground| ground.enqueue(call))
}

/// Addresses by number of the platform's own networks get no secret; a name does.
fn is_outside(url: &str) -> bool {
    let host = reqwest::Url::parse(url)
        .ok()
        .and_then(|url| url.host_str().map(str::to_owned))
        .unwrap_or_default();
    match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => !(address.is_loopback() || address.is_private()),
        Ok(IpAddr::V6(address)) => !address.is_loopback(),
        Err(_) => true,
    }
}
