//! Start: checks the arguments of a new task, with the errors of the legacy tool. The service checks paths and settings of
//! this machine.

use super::rows::TaskSubject;
use super::service::{ActionResult, TaskOutcome};
use super::shape::summary;
use super::{Caller, ControlError, Grants, Scope, StartArgs, TaskService};
use crate::service::{BridgeService, NewTask};
use crate::task_view::TaskReply;
use bridge_core::limits::PROMPT_SUMMARY_MAX_CHARS;
use bridge_core::value::{ApprovalPolicy, Sandbox};

/// Longest name of a model.
const MODEL_MAX_CHARS: usize = 200;

/// The beginning of a prompt, one line.
#[must_use]
pub fn prompt_summary(prompt: &str) -> String {
    summary(prompt, PROMPT_SUMMARY_MAX_CHARS)
}

impl<D: BridgeService> TaskService<D> {
    pub(crate) async fn start(&self, caller: &Caller, args: StartArgs) -> ActionResult {
        let new = new_task(caller, args)?;
        let begun = self.service.start_task(new).await?;
        let task_id = begun.task.task_id.to_string();
        let subject = TaskSubject::Task(Box::new(begun.task));
        let rows = self.rows(subject, &task_id).await?;
        let message = if begun.duplicate {
            "This Codex task was started before with the same key."
        } else {
            "Codex task started; it runs through app-server JSON-RPC."
        };
        Ok(TaskOutcome::of(&rows).map(|reply| TaskReply {
            duplicate: Some(begun.duplicate),
            ..reply.with_message(message)
        }))
    }
}

/// An empty text counts as absent: other agents leave parameters out that way.
fn given(text: Option<String>) -> Option<String> {
    text.map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
}

fn new_task(caller: &Caller, args: StartArgs) -> Result<NewTask, ControlError> {
    if args.prompt.trim().is_empty() {
        return Err(ControlError::invalid(
            "codex_bridge start requires a non-empty prompt.",
        ));
    }
    let model = given(args.model);
    if let Some(model) = &model
        && (model.chars().nth(MODEL_MAX_CHARS).is_some() || model.chars().any(char::is_control))
    {
        return Err(ControlError::invalid("model is no name of a model."));
    }
    Ok(NewTask {
        sandbox: given(args.sandbox).as_deref().map(sandbox).transpose()?,
        approval_policy: given(args.approval_policy)
            .as_deref()
            .map(approval_policy)
            .transpose()?,
        prompt: args.prompt,
        cwd: given(args.cwd),
        model,
        codex_home: given(args.codex_home),
        notify_target: given(args.notify_target),
        key: args.key,
        starter: caller.name.clone(),
        session: caller.owner_session().map(ToOwned::to_owned),
        by_owner: caller.may(Scope::Admin),
        trace: caller.trace,
        base: args.base.filter(|_| caller.grants == Grants::LocalOwner),
    })
}

fn sandbox(word: &str) -> Result<Sandbox, ControlError> {
    match word.parse() {
        Ok(sandbox @ (Sandbox::ReadOnly | Sandbox::WorkspaceWrite)) => Ok(sandbox),
        Ok(Sandbox::DangerFullAccess) => Err(ControlError::invalid(
            "codex_bridge refuses danger-full-access as a default bridge sandbox.",
        )),
        Err(_) => Err(ControlError::invalid(
            "sandbox must be one of read-only, workspace-write.",
        )),
    }
}

fn approval_policy(word: &str) -> Result<ApprovalPolicy, ControlError> {
    match word.parse() {
        Ok(policy @ (ApprovalPolicy::OnRequest | ApprovalPolicy::Untrusted)) => Ok(policy),
        Ok(ApprovalPolicy::Never) => Err(ControlError::invalid(
            "codex_bridge refuses approval_policy=never.",
        )),
        Err(_) => Err(ControlError::invalid(
            "approval_policy must be one of on-request, untrusted.",
        )),
    }
}
