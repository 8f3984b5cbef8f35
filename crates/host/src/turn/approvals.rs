//! The open approval requests of one connection, and their form in the core.
//!
//! A request stays here until it is answered or Codex reports that it is settled, so that a wrong answer can be corrected.
//! Its answer stays in [`Unconfirmed`] until Codex confirms it. The decision is made elsewhere.

use crate::turn::unconfirmed::Unconfirmed;
use bridge_codex::rpc::RawId;
use bridge_codex::turn::OpenChanges;
use bridge_codex::wire::effect::effect;
use bridge_codex::wire::request_text::RequestContext;
use bridge_codex::wire::server_request::RequestKind as WireKind;
use bridge_codex::wire::{Notification, RequestOutcome, ServerRequest};
use bridge_core::deadline::after;
use bridge_core::port::{ApprovalRequest, RequestKey};
use bridge_core::prompt::ASK_AGENT;
use bridge_core::value::{IncarnationId, RequestKind, ThreadId, Wants};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// Requests that may be open at the same time on one connection; more are declined at once.
const OPEN_MAX: usize = 256;
/// How long a request waits for a follower before it is declined. A lost turn is looked up again within seconds; after
/// this time nobody comes.
pub(crate) const UNDELIVERED_TIMEOUT: Duration = Duration::from_secs(60);

/// The requests of one connection.
#[derive(Debug, Default)]
pub(crate) struct ConnectionRequests {
    open: HashMap<RawId, ServerRequest>,
    undelivered: VecDeque<(Instant, ServerRequest)>,
    /// Settled while nobody followed the thread; reported to the next follower.
    settled: VecDeque<ServerRequest>,
    /// Answered and not confirmed.
    pub(crate) answered: Unconfirmed,
}

/// The requests that a notification settles.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// Codex has our answers.
    pub(crate) confirmed: Vec<ServerRequest>,
    /// Settled without our answer.
    pub(crate) unanswered: Option<ServerRequest>,
}

impl ConnectionRequests {
    pub(crate) fn is_full(&self) -> bool {
        let waiting = self.open.len().saturating_add(self.undelivered.len());
        waiting.saturating_add(self.answered.len()) >= OPEN_MAX
    }

    /// Records an answer. `false` if the request is not open: another caller answered, or Codex settled it.
    pub(crate) fn answer(&mut self, id: &RawId, outcome: RequestOutcome, now: Instant) -> bool {
        let Some(request) = self.close(id) else {
            return false;
        };
        self.answered.insert(request, outcome, now);
        true
    }

    /// A follower received the request.
    pub(crate) fn delivered(&mut self, request: ServerRequest) {
        self.open.insert(request.id.clone(), request);
    }

    /// Nobody follows its thread yet.
    pub(crate) fn undelivered(&mut self, request: ServerRequest, now: Instant) {
        self.open.remove(&request.id);
        self.undelivered
            .push_back((after(now, UNDELIVERED_TIMEOUT), request));
    }

    /// Removes the requests that wait for a follower of this thread.
    pub(crate) fn take_undelivered(&mut self, thread: &ThreadId) -> Vec<ServerRequest> {
        let (found, rest) = self
            .undelivered
            .drain(..)
            .partition(|(_, request)| request.thread_id() == Some(thread));
        self.undelivered = rest;
        found.into_iter().map(|(_, request)| request).collect()
    }

    /// Open requests of this thread that an earlier follower received.
    pub(crate) fn open_on(&self, thread: &ThreadId) -> Vec<ServerRequest> {
        let on_it = |request: &&ServerRequest| request.thread_id() == Some(thread);
        self.open.values().filter(on_it).cloned().collect()
    }

    /// Removes the requests that waited too long; the caller declines them.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<ServerRequest> {
        let mut late = Vec::new();
        while let Some((_, request)) = self.undelivered.pop_front_if(|(until, _)| *until <= now) {
            self.settled(request.clone());
            late.push(request);
        }
        late
    }

    /// Keeps a settled request for the next follower.
    pub(crate) fn settled(&mut self, request: ServerRequest) {
        if self.settled.len() >= OPEN_MAX {
            self.settled.pop_front();
        }
        self.settled.push_back(request);
    }

    /// Removes the requests of this thread that were settled while nobody followed it.
    pub(crate) fn take_settled(&mut self, thread: &ThreadId) -> Vec<ServerRequest> {
        let (found, rest) = self
            .settled
            .drain(..)
            .partition(|request| request.thread_id() == Some(thread));
        self.settled = rest;
        found.into()
    }

    /// Removes the requests that a notification settles.
    pub(crate) fn settle(&mut self, notification: &Notification) -> Settled {
        let mut settled = Settled::default();
        match notification {
            Notification::ServerRequestResolved(resolved) => {
                let id = &resolved.request_id;
                settled.confirmed.extend(self.answered.confirm(id));
                settled.unanswered = self.close(id);
            }
            Notification::ItemCompleted(notice) => {
                let item = notice.item.id();
                settled.confirmed = self.answered.confirm_item(&notice.thread_id, item);
            }
            Notification::TurnCompleted(notice) => {
                let turn = &notice.turn.id;
                settled.confirmed = self.answered.confirm_turn(&notice.thread_id, turn);
            }
            _ => {}
        }
        settled
    }

    /// When the next request or answer is overdue.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        let undelivered = self.undelivered.front().map(|(until, _)| *until);
        undelivered
            .into_iter()
            .chain(self.answered.next_due())
            .min()
    }

    /// An open request by its key, with or without a follower.
    pub(crate) fn find(&self, to: &RequestKey) -> Option<&ServerRequest> {
        let undelivered = self.undelivered.iter().map(|(_, request)| request);
        let mut asked = self.open.values().chain(undelivered);
        asked.find(|request| has_key(request, to))
    }

    /// An unconfirmed answer by the key of its request.
    pub(crate) fn unconfirmed(&self, to: &RequestKey) -> Option<(&ServerRequest, &RequestOutcome)> {
        let mut answers = self.answered.answers();
        answers.find(|(request, _)| has_key(request, to))
    }

    /// Removes and returns an open request.
    pub(crate) fn close(&mut self, id: &RawId) -> Option<ServerRequest> {
        let at = self
            .undelivered
            .iter()
            .position(|(_, request)| request.id == *id);
        let undelivered = at.and_then(|at| self.undelivered.remove(at));
        self.open
            .remove(id)
            .or(undelivered.map(|(_, request)| request))
    }
}

fn has_key(request: &ServerRequest, to: &RequestKey) -> bool {
    request.id.to_string() == to.rpc_id && request.item_id() == to.item_id.as_ref()
}

pub(crate) fn key_of(request: &ServerRequest, incarnation: &IncarnationId) -> RequestKey {
    RequestKey {
        incarnation: incarnation.clone(),
        rpc_id: request.id.to_string(),
        item_id: request.item_id().cloned(),
    }
}

/// The request as the core's value.
pub(crate) fn approval_request(
    request: &ServerRequest,
    incarnation: &IncarnationId,
    sandbox: &str,
    changes: &OpenChanges,
) -> ApprovalRequest {
    let context = RequestContext {
        sandbox,
        changes: request.item_id().and_then(|item_id| changes.of(item_id)),
    };
    ApprovalRequest {
        key: key_of(request, incarnation),
        method: request.method.clone(),
        kind: kind_of(request),
        headline: request.headline_in(&context),
        shown: request.shown(&context),
        effect: effect(request, context.changes),
        payload: request.params.to_string(),
        wants: wants(request),
        secret_answer: wants_secret(request),
        tool_arguments: match &request.kind {
            WireKind::ToolCall(call) if call.tool == ASK_AGENT => Some(call.arguments.to_string()),
            _ => None,
        },
    }
}

/// What an accept must say beside yes.
fn wants(request: &ServerRequest) -> Wants {
    match &request.kind {
        WireKind::Elicitation(form) if form.tool_approval().is_some() => Wants::Approval,
        WireKind::Elicitation(form) if form.takes_no_content() => Wants::Visit,
        WireKind::UserInput(asked) if asked.questions.len() == 1 => Wants::Text,
        WireKind::UserInput(_) | WireKind::Elicitation(_) => Wants::Form,
        _ => Wants::Approval,
    }
}

/// Forms do not say which of their fields are secret.
fn wants_secret(request: &ServerRequest) -> bool {
    match &request.kind {
        WireKind::UserInput(asked) => asked.questions.iter().any(|question| question.is_secret),
        WireKind::Elicitation(_) => true,
        _ => false,
    }
}

fn kind_of(request: &ServerRequest) -> RequestKind {
    match &request.kind {
        WireKind::Command(_) | WireKind::LegacyExec(_) => RequestKind::Command,
        WireKind::FileChange(_) | WireKind::LegacyPatch(_) => RequestKind::FileChange,
        WireKind::Permissions(_) => RequestKind::Permissions,
        WireKind::UserInput(_) => RequestKind::UserInput,
        // Codex asks for this approval with an empty form.
        WireKind::Elicitation(form) if form.tool_approval().is_some() => RequestKind::McpTool,
        WireKind::Elicitation(_) => RequestKind::Elicitation,
        WireKind::ToolCall(_) => RequestKind::ToolCall,
        WireKind::AuthRefresh(_)
        | WireKind::CurrentTime(_)
        | WireKind::Attestation
        | WireKind::Unknown { .. } => RequestKind::Other(request.method.clone()),
    }
}

/// Whether a person or a rule can decide it. Other kinds are declined at once.
pub(crate) fn is_decidable(request: &ServerRequest) -> bool {
    match &request.kind {
        // The one tool that we offer; the daemon runs it for the turn.
        WireKind::ToolCall(call) => call.namespace.is_none() && call.tool == ASK_AGENT,
        WireKind::AuthRefresh(_)
        | WireKind::CurrentTime(_)
        | WireKind::Attestation
        | WireKind::Unknown { .. } => false,
        WireKind::Command(_)
        | WireKind::LegacyExec(_)
        | WireKind::FileChange(_)
        | WireKind::LegacyPatch(_)
        | WireKind::Permissions(_)
        | WireKind::UserInput(_)
        | WireKind::Elicitation(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn request(method: &str, mut params: Value) -> ServerRequest {
        for id in ["threadId", "turnId", "itemId"] {
            params[id] = json!(id);
        }
        ServerRequest::parse(RawId::Integer(0), method.to_owned(), params)
    }

    #[test]
    fn classifies_approval_text_and_form_requests() {
        let ask = "item/tool/requestUserInput";
        let form = "mcpServer/elicitation/request";
        let question = |id: &str| json!({"id": id, "question": "?"});
        let asks = |questions: Value| json!({"isBlocking": true, "questions": questions});
        let elicits = |mode: &str, meta: Value| {
            json!({"serverName": "s", "mode": mode, "message": "m",
                "url": "https://example.org", "requestedSchema": {"type": "object", "properties": {}}, "_meta": meta})
        };
        let tool = json!({"codex_approval_kind": "mcp_tool_call"});
        let command = "item/commandExecution/requestApproval";
        for (method, payload, expected) in [
            (ask, asks(json!([question("a")])), Wants::Text),
            (
                ask,
                asks(json!([question("a"), question("b")])),
                Wants::Form,
            ),
            (form, elicits("form", tool), Wants::Approval),
            (form, elicits("form", Value::Null), Wants::Form),
            (form, elicits("url", Value::Null), Wants::Visit),
            (command, json!({}), Wants::Approval),
        ] {
            assert_eq!(
                wants(&request(method, payload.clone())),
                expected,
                "{payload}"
            );
        }
    }

    #[test]
    fn secret_questions_and_all_forms_want_secrets() {
        let asks = |secret: Value| {
            let questions = json!([{"id": "a", "question": "?"}, {"id": "b", "question": "?", "isSecret": secret}]);
            request(
                "item/tool/requestUserInput",
                json!({"isBlocking": true, "questions": questions}),
            )
        };
        assert!(wants_secret(&asks(json!(true))) && !wants_secret(&asks(json!(false))));
        // A mark that can't be read makes the whole request unreadable, and nobody is asked.
        assert!(!is_decidable(&asks(json!("yes"))));
        let form = json!({"serverName": "s", "mode": "form"});
        assert!(wants_secret(&request(
            "mcpServer/elicitation/request",
            form
        )));
        assert!(!wants_secret(&request(
            "item/commandExecution/requestApproval",
            json!({})
        )));
    }
}
