//! The open questions of Codex on one connection: who hears them, how long they wait for somebody who does, and what
//! they look like in the core's words.
//!
//! A question stays here until it is answered or Codex says that it is settled, so that an answer which does not fit
//! can be given again; its answer stays in [`Unconfirmed`] until Codex has taken it. What is answered is decided
//! elsewhere.

use crate::unconfirmed::Unconfirmed;
use bridge_codex::rpc::RawId;
use bridge_codex::turn::OpenChanges;
use bridge_codex::wire::effect::effect;
use bridge_codex::wire::server_request::RequestKind as WireKind;
use bridge_codex::wire::shown::Scene;
use bridge_codex::wire::{Notification, Outcome, ServerRequest};
use bridge_core::deadline::after;
use bridge_core::port::{ApprovalRequest, RequestKey};
use bridge_core::prompt::ASK_AGENT;
use bridge_core::value::{IncarnationId, RequestKind, ThreadId, Wants};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// Questions that may be open at the same time on one connection; more are declined at once.
const OPEN_MAX: usize = 256;
/// How long a question waits for somebody who follows its thread, before it is declined. A lost turn is looked at again
/// within seconds; after this nobody comes.
pub(crate) const UNHEARD_PATIENCE: Duration = Duration::from_secs(60);

/// The book of one connection.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    open: HashMap<RawId, ServerRequest>,
    unheard: VecDeque<(Instant, ServerRequest)>,
    /// What was settled while nobody followed its thread; whoever does next is told.
    settled: VecDeque<ServerRequest>,
    /// What was answered, until Codex confirms it.
    pub(crate) answered: Unconfirmed,
}

/// What a notification settles.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// Questions whose answers Codex has.
    pub(crate) confirmed: Vec<ServerRequest>,
    /// A question that we did not answer.
    pub(crate) unanswered: Option<ServerRequest>,
}

impl Questions {
    pub(crate) fn is_full(&self) -> bool {
        let waiting = self.open.len().saturating_add(self.unheard.len());
        waiting.saturating_add(self.answered.len()) >= OPEN_MAX
    }

    /// Notes an answer to a question that is still asked; false when somebody else answered it, or Codex settled it.
    pub(crate) fn answer(&mut self, id: &RawId, outcome: Outcome, now: Instant) -> bool {
        let Some(request) = self.close(id) else {
            return false;
        };
        self.answered.insert(request, outcome, now);
        true
    }

    /// Somebody follows the thread of this one.
    pub(crate) fn heard(&mut self, request: ServerRequest) {
        self.open.insert(request.id.clone(), request);
    }

    /// Nobody follows its thread yet.
    pub(crate) fn unheard(&mut self, request: ServerRequest, now: Instant) {
        self.open.remove(&request.id);
        self.unheard
            .push_back((after(now, UNHEARD_PATIENCE), request));
    }

    /// What waits for somebody who follows this thread.
    pub(crate) fn take_unheard(&mut self, thread: &ThreadId) -> Vec<ServerRequest> {
        let (found, rest) = self
            .unheard
            .drain(..)
            .partition(|(_, request)| request.thread_id() == Some(thread));
        self.unheard = rest;
        found.into_iter().map(|(_, request)| request).collect()
    }

    /// What is asked on this thread and was told to whoever followed it before.
    pub(crate) fn open_on(&self, thread: &ThreadId) -> Vec<ServerRequest> {
        let on_it = |request: &&ServerRequest| request.thread_id() == Some(thread);
        self.open.values().filter(on_it).cloned().collect()
    }

    /// What has waited for too long; to be declined.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<ServerRequest> {
        let mut late = Vec::new();
        while let Some((_, request)) = self.unheard.pop_front_if(|(until, _)| *until <= now) {
            self.settled(request.clone());
            late.push(request);
        }
        late
    }

    /// It was settled, and nobody who follows its thread heard that.
    pub(crate) fn settled(&mut self, request: ServerRequest) {
        if self.settled.len() >= OPEN_MAX {
            self.settled.pop_front();
        }
        self.settled.push_back(request);
    }

    /// What was settled on this thread while nobody followed it.
    pub(crate) fn take_settled(&mut self, thread: &ThreadId) -> Vec<ServerRequest> {
        let (found, rest) = self
            .settled
            .drain(..)
            .partition(|request| request.thread_id() == Some(thread));
        self.settled = rest;
        found.into()
    }

    /// Takes out what a notification settles.
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

    /// When a question or an answer has waited for too long.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        let unheard = self.unheard.front().map(|(until, _)| *until);
        unheard.into_iter().chain(self.answered.next_due()).min()
    }

    /// A question that Codex still asks, by its name; also while nobody follows its thread.
    pub(crate) fn find(&self, to: &RequestKey) -> Option<&ServerRequest> {
        let unheard = self.unheard.iter().map(|(_, request)| request);
        let mut asked = self.open.values().chain(unheard);
        asked.find(|request| is_named(request, to))
    }

    /// The answer to a question that Codex has not confirmed.
    pub(crate) fn unconfirmed(&self, to: &RequestKey) -> Option<(&ServerRequest, &Outcome)> {
        let mut answers = self.answered.answers();
        answers.find(|(request, _)| is_named(request, to))
    }

    /// It is settled; gives it back if it was still asked.
    pub(crate) fn close(&mut self, id: &RawId) -> Option<ServerRequest> {
        let at = self
            .unheard
            .iter()
            .position(|(_, request)| request.id == *id);
        let unheard = at.and_then(|at| self.unheard.remove(at));
        self.open.remove(id).or(unheard.map(|(_, request)| request))
    }
}

fn is_named(request: &ServerRequest, to: &RequestKey) -> bool {
    request.id.to_string() == to.rpc_id && request.item_id() == to.item_id.as_ref()
}

pub(crate) fn name_of(request: &ServerRequest, incarnation: &IncarnationId) -> RequestKey {
    RequestKey {
        incarnation: incarnation.clone(),
        rpc_id: request.id.to_string(),
        item_id: request.item_id().cloned(),
    }
}

/// The question in the core's words.
pub(crate) fn asked(
    request: &ServerRequest,
    incarnation: &IncarnationId,
    sandbox: &str,
    changes: &OpenChanges,
) -> ApprovalRequest {
    let scene = Scene {
        sandbox,
        changes: request.item_id().and_then(|item_id| changes.of(item_id)),
    };
    ApprovalRequest {
        key: name_of(request, incarnation),
        method: request.method.clone(),
        kind: kind_of(request),
        headline: request.headline_in(&scene),
        shown: request.shown(&scene),
        effect: effect(request, scene.changes),
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
        // Also the approval of a tool of an MCP server, which Codex asks for with an empty form.
        WireKind::Elicitation(_) => RequestKind::Elicitation,
        WireKind::ToolCall(_) => RequestKind::ToolCall,
        WireKind::AuthRefresh(_)
        | WireKind::CurrentTime(_)
        | WireKind::Attestation
        | WireKind::Unknown { .. } => RequestKind::Other(request.method.clone()),
    }
}

/// Whether somebody can decide it. Other kinds are declined as soon as they come, because waiting could not help.
pub(crate) fn is_decidable(request: &ServerRequest) -> bool {
    match &request.kind {
        WireKind::Command(_)
        | WireKind::LegacyExec(_)
        | WireKind::FileChange(_)
        | WireKind::LegacyPatch(_)
        | WireKind::Permissions(_)
        | WireKind::UserInput(_)
        | WireKind::Elicitation(_) => true,
        // The one tool that we offer; whoever follows the turn runs it.
        WireKind::ToolCall(call) => call.namespace.is_none() && call.tool == ASK_AGENT,
        WireKind::AuthRefresh(_)
        | WireKind::CurrentTime(_)
        | WireKind::Attestation
        | WireKind::Unknown { .. } => false,
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
