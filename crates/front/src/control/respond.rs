//! Respond: a question of a task is decided. Silence about the decision is a no, as in the tool that other agents know.

use super::desk::{Done, permit, unavailable};
use super::envelope::{Told, protocol, view};
use super::{Caller, ControlError, ControlFault, DeskControl, Scope};
use crate::desk::Desk;
use bridge_core::step::{Authority, Decide, DecideOutcome, DecideRefusal};
use bridge_core::value::{Request, RequestDecision, RequestVerdict};
use serde_json::{Value, json};

impl<D: Desk> DeskControl<D> {
    pub(super) async fn respond(
        &self,
        caller: &Caller,
        task_id: &str,
        request_id: &str,
        decision: Option<&str>,
        answers: Option<Value>,
    ) -> Done {
        let decision = read(decision)?;
        if decision.accepts() {
            permit(caller, Scope::Approve)?;
        }
        let rows = self.look(task_id).await?;
        let request = find(&rows.asked, request_id).ok_or_else(|| {
            let said = format!("No pending Codex request '{request_id}' for task {task_id}.");
            ControlError::new(ControlFault::Unknown, said)
        })?;
        let verdict = RequestVerdict {
            decision,
            answers: answers.as_ref().map(ToString::to_string),
            by: caller.name.clone(),
            via: caller.via.word().to_owned(),
            at: self.desk.now(),
        };
        let decide = Decide {
            request_id: request.request_id.clone(),
            verdict,
            authority: Authority::Owner,
        };
        let message = match self.desk.decide(decide).await.map_err(unavailable)? {
            DecideOutcome::Applied => "The decision counts; Codex is told.",
            DecideOutcome::Granted => {
                "Codex died while it asked. The decision counts once, if it asks the same again."
            }
            DecideOutcome::Refused(refusal) => return Err(refused(&refusal)),
        };
        let rows = self.look(task_id).await?;
        let response = match answers {
            Some(answers) => json!({ "decision": decision.word(), "answers": answers }),
            None => json!({ "decision": decision.word() }),
        };
        Ok(json!({
            "success": true,
            "message": message,
            "task": view(&rows, Told::Whole),
            "response": response,
            "protocol": protocol(rows.transport),
        }))
    }
}

fn refused(refusal: &DecideRefusal) -> ControlError {
    let kind = match refusal {
        DecideRefusal::Unknown => ControlFault::Unknown,
        DecideRefusal::Unfit { .. } => ControlFault::Invalid,
        DecideRefusal::NotYours { .. } => ControlFault::Forbidden,
        DecideRefusal::Decided { .. }
        | DecideRefusal::Expired
        | DecideRefusal::Withdrawn { .. } => ControlFault::Refused,
    };
    ControlError::new(kind, refusal.to_string())
}

fn read(decision: Option<&str>) -> Result<RequestDecision, ControlError> {
    let Some(word) = decision.map(str::trim).filter(|word| !word.is_empty()) else {
        return Ok(RequestDecision::Decline);
    };
    RequestDecision::from_word(word).ok_or_else(|| {
        ControlError::new(
            ControlFault::Invalid,
            "decision must be one of accept, acceptForSession, decline, cancel.",
        )
    })
}

/// By its id, or by its code.
fn find<'r>(asked: &'r [Request], id: &str) -> Option<&'r Request> {
    let id = id.trim();
    asked.iter().find(|request| {
        request.request_id.as_str() == id || request.request_id.code().eq_ignore_ascii_case(id)
    })
}
