//! The actions of control, named as in the legacy tool `codex_bridge`, and their errors.

use super::{Caller, Scope};
use crate::{StartError, SubmitError};
use bridge_core::port::LedgerError;
use bridge_core::step::DecideRefusal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::future::Future;

/// Performs the actions that a caller may.
pub trait Control: Clone + Send + Sync + 'static {
    /// Notifies a caller that waits for a task.
    type TaskWatch: TaskWatch;

    /// Performs an action and returns the envelope for its caller.
    fn act(
        &self,
        caller: &Caller,
        act: ControlAction,
    ) -> impl Future<Output = Result<Value, ControlError>> + Send;

    /// Watches the task with this id; it subscribes at the first call of `changed`.
    fn news(&self, task_id: &str) -> Self::TaskWatch;
}

/// Notifies of changes of a task. Lossy: rows are the truth, so read them before the first call, and now and then without
/// a notification. Cancel-safe.
pub trait TaskWatch: Send + 'static {
    /// Resolves when the task may have changed since the last call. The first call resolves as soon as it subscribes, so
    /// that the caller reads what happened before.
    fn changed(&mut self) -> impl Future<Output = ()> + Send;
}

/// One action. A `task_id` may also be the id of a message of any channel.
#[derive(Clone, PartialEq)]
pub enum ControlAction {
    Start(StartArgs),
    Status {
        task_id: String,
    },
    List {
        limit: Option<u32>,
    },
    /// The newest open requests of all channels.
    Requests,
    /// Give a running turn more input.
    Steer {
        task_id: String,
        instruction: String,
    },
    /// Stop everything that has no answer.
    Interrupt {
        task_id: String,
    },
    /// Answer a question of Codex.
    Respond {
        task_id: String,
        /// Its id or its code.
        request_id: String,
        /// `accept`, `acceptForSession`, `decline` or `cancel`; `decline` when absent.
        decision: Option<String>,
        /// For questions and forms.
        answers: Option<Value>,
    },
    /// Send the notifications of finished tasks that are still unsent.
    NotifyCompleted {
        limit: Option<u32>,
        dry_run: bool,
    },
}

impl ControlAction {
    /// The scope that it needs. `approve` is enough to answer a request, and needed to accept one.
    #[must_use]
    pub fn scope(&self) -> Scope {
        match self {
            Self::Status { .. }
            | Self::List { .. }
            | Self::Requests
            | Self::NotifyCompleted { dry_run: true, .. } => Scope::Read,
            Self::Start(_)
            | Self::Steer { .. }
            | Self::Interrupt { .. }
            | Self::Respond { .. }
            | Self::NotifyCompleted { dry_run: false, .. } => Scope::Control,
        }
    }
}

/// Omits texts and answers, which may be secret.
impl fmt::Debug for ControlAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut on = |name: &str, task_id: &str| {
            f.debug_struct(name)
                .field("task_id", &task_id)
                .finish_non_exhaustive()
        };
        match self {
            Self::Status { task_id } => on("Status", task_id),
            Self::Steer { task_id, .. } => on("Steer", task_id),
            Self::Interrupt { task_id } => on("Interrupt", task_id),
            Self::Respond { task_id, .. } => on("Respond", task_id),
            Self::Start(_) => f.write_str("Start(..)"),
            Self::List { limit } => f.debug_struct("List").field("limit", limit).finish(),
            Self::Requests => f.write_str("Requests"),
            Self::NotifyCompleted { limit, dry_run } => f
                .debug_struct("NotifyCompleted")
                .field("limit", limit)
                .field("dry_run", dry_run)
                .finish(),
        }
    }
}

/// What a task is started with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartArgs {
    /// What Codex is to do.
    pub prompt: String,
    /// Where it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Which model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// `read-only` or `workspace-write`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// `on-request` or `untrusted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_policy: Option<String>,
    /// A CODEX_HOME that the configuration lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codex_home: Option<String>,
    /// Target of the notification at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify_target: Option<String>,
    /// The caller's own id for it: the same one again is the same task.
    #[serde(skip)]
    pub key: Option<String>,
    /// Where the caller's program works, as its transport says.
    #[serde(skip)]
    pub base: Option<String>,
}

/// Why an action was refused. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ControlError {
    pub kind: ControlErrorKind,
    /// What happened and what to do.
    pub message: String,
}

/// The kind of a [`ControlError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlErrorKind {
    /// The arguments are not valid.
    Invalid,
    /// There is no such task, message or question.
    Unknown,
    /// Its state does not allow it.
    Refused,
    /// The caller lacks the right.
    Forbidden,
    /// The daemon can't do it now.
    Unavailable,
    /// One of its rows can't be read.
    Unreadable,
}

impl ControlError {
    /// An error of this kind.
    pub fn new(kind: ControlErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    /// What to do about a row that can't be read; the error names it.
    pub(crate) fn unreadable(error: &LedgerError) -> String {
        format!(
            "{error}; the rest of the database is not concerned, and asking again does not help: `codex-bridge doctor` looks at the whole file, `codex-bridge recover` makes a new one of what can be read"
        )
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ControlErrorKind::Invalid, message)
    }

    pub(crate) fn unknown(message: impl Into<String>) -> Self {
        Self::new(ControlErrorKind::Unknown, message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(ControlErrorKind::Forbidden, message)
    }
}

impl From<LedgerError> for ControlError {
    fn from(error: LedgerError) -> Self {
        if error.is_unreadable() {
            return Self::new(ControlErrorKind::Unreadable, Self::unreadable(&error));
        }
        let message = format!("the database can't be used now: {error}");
        Self::new(ControlErrorKind::Unavailable, message)
    }
}

impl From<SubmitError> for ControlError {
    fn from(error: SubmitError) -> Self {
        let kind = match &error {
            SubmitError::Unfit(_) | SubmitError::OtherBody => ControlErrorKind::Invalid,
            SubmitError::Revoked => ControlErrorKind::Forbidden,
            SubmitError::Full
            | SubmitError::OverBudget { .. }
            | SubmitError::NoRoom(_)
            | SubmitError::Slow { .. }
            | SubmitError::Damaged(_)
            | SubmitError::Stopping
            | SubmitError::Ledger(_) => ControlErrorKind::Unavailable,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<StartError> for ControlError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Invalid(why) => Self::invalid(why),
            StartError::Forbidden(why) => Self::forbidden(why),
            StartError::Submit(error) => error.into(),
        }
    }
}

impl From<&DecideRefusal> for ControlErrorKind {
    fn from(refusal: &DecideRefusal) -> Self {
        match refusal {
            DecideRefusal::Unknown => Self::Unknown,
            DecideRefusal::Unfit { .. } => Self::Invalid,
            DecideRefusal::NotYours { .. } => Self::Forbidden,
            DecideRefusal::Decided { .. }
            | DecideRefusal::NotShown
            | DecideRefusal::Expired
            | DecideRefusal::Withdrawn { .. } => Self::Refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threat_6_debug_omits_prompts_and_answers() {
        let canary = || "canary".to_owned();
        let start = StartArgs {
            prompt: canary(),
            ..StartArgs::default()
        };
        for act in [
            ControlAction::Start(start),
            ControlAction::Steer {
                task_id: "codex-1".to_owned(),
                instruction: canary(),
            },
            ControlAction::Respond {
                task_id: "codex-1".to_owned(),
                request_id: "r".to_owned(),
                decision: None,
                answers: Some(Value::String(canary())),
            },
        ] {
            assert!(!format!("{act:?}").contains("canary"));
        }
    }
}
