//! Respond: decides a request of a task. Without a decision it is declined, as in the legacy tool.

use super::rows::TaskRows;
use super::service::{ActionResult, TaskOutcome, permit};
use super::{Caller, ControlError, ControlErrorKind, Scope, TaskService};
use crate::service::BridgeService;
use crate::task_view::TaskReply;
use bridge_core::port::Ledger;
use bridge_core::step::{Authority, DecideOutcome};
use bridge_core::value::{Request, RequestDecision, RequestId, RequestKind};
use serde_json::{Value, json};

impl<D: BridgeService> TaskService<D> {
    pub(crate) async fn respond(
        &self,
        caller: &Caller,
        task_id: &str,
        request_id: &str,
        decision: Option<&str>,
        answers: Option<Value>,
    ) -> ActionResult {
        let said = read(decision)?;
        let rows = self.look(task_id).await?;
        let past = self.past_request(&rows, request_id).await?;
        let request = find(&rows, request_id).or(past.as_ref());
        let decision = said.unwrap_or_else(|| implied(request, answers.as_ref()));
        let own = request.is_some_and(|request| is_own_question(caller, &rows, request));
        if decision.accepts() && !own {
            permit(caller, Scope::Approve)?;
        }
        let none = format!("No pending Codex request '{request_id}' for task {task_id}");
        let request = request.ok_or_else(|| {
            let said = format!("{none}.{}", asked_now(&rows, None));
            ControlError::unknown(said)
        })?;
        // A secret answer is not repeated in the response: callers keep what they read.
        let request_id = request.request_id.clone();
        let decide = caller.decide(request_id, decision, answers.as_ref(), self.service.now());
        let said_back = answers.filter(|_| !request.secret_answer);
        let message = match self.service.decide(decide).await? {
            DecideOutcome::Applied => "The decision counts; Codex gets it.",
            DecideOutcome::Granted => {
                "Codex died while it asked. The decision counts once, if it asks the same again."
            }
            DecideOutcome::Refused(refusal) => {
                let kind = ControlErrorKind::from(&refusal);
                let mut why = refusal.to_string();
                if kind == ControlErrorKind::Refused {
                    let rows = self.look(task_id).await?;
                    why = format!("{none}: {why}.{}", asked_now(&rows, Some(request)));
                }
                return Err(ControlError::new(kind, why));
            }
        };
        let rows = self.look(task_id).await?;
        let response = match said_back {
            Some(answers) => json!({ "decision": decision.as_str(), "answers": answers }),
            None => json!({ "decision": decision.as_str() }),
        };
        Ok(TaskOutcome::of(&rows).map(|reply| TaskReply {
            response: Some(response),
            ..reply.with_message(message)
        }))
    }
}

impl<D: BridgeService> TaskService<D> {
    /// A request of the task that does not wait any more, the newest one with this id or code.
    async fn past_request(
        &self,
        rows: &TaskRows,
        id: &str,
    ) -> Result<Option<Request>, ControlError> {
        let id = id.trim().to_owned();
        if find(rows, &id).is_some() {
            return Ok(None);
        }
        let messages = rows
            .messages
            .iter()
            .map(|one| one.message.message_id.clone());
        let messages: Vec<_> = messages.collect();
        let found = self.service.ledger().read(move |rows| {
            for message_id in messages.iter().rev() {
                let standings = rows.standings(message_id)?;
                let mut standings = standings.iter().rev();
                if let Some(one) = standings.find(|one| is_named(&one.request_id, &id)) {
                    return rows.request(&one.request_id);
                }
            }
            Ok(None)
        });
        Ok(found.await?)
    }
}

/// What Codex waits for now, for whoever answered something else: after a restart it asks the same again under another
/// code.
fn asked_now(rows: &TaskRows, answered: Option<&Request>) -> String {
    let asked = rows.requests().last().map(|request| {
        let same = answered.is_some_and(|before| before.digest == request.digest);
        let how = if same {
            "Codex asked again: answer"
        } else {
            "Codex waits for"
        };
        let code = request.request_id.code();
        format!(" {how} '{code}' ({}).", request.headline)
    });
    asked.unwrap_or_default()
}

fn read(decision: Option<&str>) -> Result<Option<RequestDecision>, ControlError> {
    let Some(word) = decision.map(str::trim).filter(|word| !word.is_empty()) else {
        return Ok(None);
    };
    word.parse().map(Some).map_err(|_| {
        ControlError::invalid("decision must be one of accept, acceptForSession, decline, cancel.")
    })
}

/// The decision where none is given: answers to a question of Codex accept it, because agents leave the decision out.
/// Nothing else is accepted that way: the form of an MCP server may be an approval.
fn implied(request: Option<&Request>, answers: Option<&Value>) -> RequestDecision {
    let answered = answers
        .and_then(Value::as_object)
        .is_some_and(|answers| !answers.is_empty());
    let asked = request.is_some_and(|request| request.kind == RequestKind::UserInput);
    if answered && asked {
        RequestDecision::Accept
    } else {
        RequestDecision::Decline
    }
}

/// Whether the caller may accept it without the scope to approve.
fn is_own_question(caller: &Caller, rows: &TaskRows, request: &Request) -> bool {
    let authority = Authority::Caller {
        name: caller.name.clone(),
    };
    let owner = rows.task.as_ref().map(|task| task.owner.as_str());
    let mut messages = rows.messages.iter().map(|rows| &rows.message);
    let asking = messages.find(|message| message.message_id == request.message_id);
    asking.is_some_and(|message| {
        let checked = authority.check(RequestDecision::Accept, request, message, owner);
        checked.is_ok()
    })
}

/// By its id, or by its code.
fn find<'r>(rows: &'r TaskRows, id: &str) -> Option<&'r Request> {
    let id = id.trim();
    rows.requests()
        .find(|request| is_named(&request.request_id, id))
}

fn is_named(request_id: &RequestId, id: &str) -> bool {
    request_id.as_str() == id || request_id.code().eq_ignore_ascii_case(id)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{asks, rows, running};
    use super::*;
    use crate::control::{Grants, Via};

    #[test]
    fn implicit_accept_requires_user_input_answers() {
        let answers = json!({ "q": { "answers": ["a"] } });
        for (kind, answers, said) in [
            (RequestKind::UserInput, answers.clone(), "accept"),
            (RequestKind::UserInput, json!({}), "decline"),
            (RequestKind::Elicitation, json!({}), "decline"),
            (RequestKind::Elicitation, answers.clone(), "decline"),
            (RequestKind::Command, answers, "decline"),
        ] {
            let decision = implied(Some(&asks(kind.clone())), Some(&answers));
            assert_eq!(decision.as_str(), said, "{kind:?} {answers}");
        }
        let asked = asks(RequestKind::UserInput);
        assert_eq!(implied(Some(&asked), None), RequestDecision::Decline);
    }

    #[test]
    fn starter_may_answer_only_user_input() {
        let rows = rows(vec![(running(), false)]);
        let starter = rows.task.as_ref().unwrap().owner.clone();
        let named = |name: &str| Caller {
            name: name.to_owned(),
            via: Via::Http,
            program: None,
            grants: Grants::Scopes([Scope::Read, Scope::Control].into()),
            trace: None,
        };
        let may = |name: &str, kind| is_own_question(&named(name), &rows, &asks(kind));
        assert!(may(&starter, RequestKind::UserInput));
        assert!(!may("stranger", RequestKind::UserInput));
        assert!(!may(&starter, RequestKind::Elicitation));
        assert!(!may(&starter, RequestKind::Command));
    }
}
