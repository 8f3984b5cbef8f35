//! Codex's notifications, typed where we act on them.
//!
//! Everything else is [`Notification::Unknown`]; a known one that does not read is
//! [`Notification::Malformed`], so that the turn it belongs to can be treated as unclear.

use serde::Deserialize;
use serde_json::Value;

use super::ReaderVisitor;
use super::account::{RateLimits, ThreadTokenUsage};
use super::config::SandboxPolicy;
use super::item::{FileUpdate, Item};
use super::thread::{PermissionProfile, Thread, ThreadStatus};
use super::turn::{Turn, TurnError};
use super::values::{ApprovalPolicy, ApprovalsReviewer, PlanStepStatus};
use crate::rpc::RawId;
use bridge_core::value::{ItemId, ThreadId, TurnId};

/// Declares the notifications once: the enum, its reader, and the list for the schema check.
macro_rules! notifications {
    ($($method:literal => $variant:ident($params:ident),)+) => {
        /// One notification.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Notification {
            $($variant($params),)+
            /// A method we do not act on.
            Unknown { method: String },
            /// A method we act on, with params we can not read.
            Malformed {
                method: String,
                thread_id: Option<ThreadId>,
                why: String,
            },
        }

        impl Notification {
            /// Reads a notification; never fails.
            pub fn parse(method: &str, params: &Value) -> Self {
                match method {
                    $($method => match $params::deserialize(params) {
                        Ok(params) => Self::$variant(params),
                        Err(error) => Self::malformed(method, params, &error),
                    },)+
                    _ => Self::Unknown { method: method.to_owned() },
                }
            }

            /// Codex's name of it.
            pub fn method(&self) -> &str {
                match self {
                    $(Self::$variant(_) => $method,)+
                    Self::Unknown { method } | Self::Malformed { method, .. } => method,
                }
            }
        }

        /// Shows every notification we act on with the type that reads its params.
        pub fn each_reader(visitor: &mut impl ReaderVisitor) {
            $(visitor.reader::<$params>($method);)+
        }
    };
}

notifications! {
    "thread/started" => ThreadStarted(ThreadStarted),
    "thread/status/changed" => ThreadStatusChanged(ThreadStatusChanged),
    "thread/closed" => ThreadClosed(ThreadNamed),
    "thread/archived" => ThreadArchived(ThreadNamed),
    "thread/settings/updated" => ThreadSettingsUpdated(ThreadSettingsUpdated),
    "thread/tokenUsage/updated" => TokenUsageUpdated(TokenUsageUpdated),
    "turn/started" => TurnStarted(TurnNotice),
    "turn/completed" => TurnCompleted(TurnNotice),
    "turn/diff/updated" => TurnDiffUpdated(TurnDiffUpdated),
    "turn/plan/updated" => TurnPlanUpdated(TurnPlanUpdated),
    "item/started" => ItemStarted(ItemNotice),
    "item/completed" => ItemCompleted(ItemNotice),
    "item/agentMessage/delta" => AgentMessageDelta(ItemDelta),
    "item/commandExecution/outputDelta" => CommandOutputDelta(ItemDelta),
    "item/fileChange/patchUpdated" => PatchUpdated(PatchUpdated),
    "error" => Error(ErrorNotice),
    "warning" => Warning(Warning),
    "configWarning" => ConfigWarning(ConfigWarning),
    "serverRequest/resolved" => ServerRequestResolved(ServerRequestResolved),
    "account/rateLimits/updated" => RateLimitsUpdated(RateLimitsUpdated),
    "account/login/completed" => LoginCompleted(LoginCompleted),
    "account/updated" => AccountUpdated(AccountUpdated),
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ThreadStarted {
    pub thread: Thread,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadStatusChanged {
    pub thread_id: ThreadId,
    pub status: ThreadStatus,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadNamed {
    pub thread_id: ThreadId,
}

/// New permissions of the thread's turns, whichever client changed them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSettingsUpdated {
    pub thread_id: ThreadId,
    pub thread_settings: EffectiveSettings,
}

/// The part of it that decides what turns may do.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EffectiveSettings {
    pub approval_policy: ApprovalPolicy,
    pub approvals_reviewer: ApprovalsReviewer,
    pub sandbox_policy: SandboxPolicy,
    pub active_permission_profile: Option<PermissionProfile>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenUsageUpdated {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub token_usage: ThreadTokenUsage,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnNotice {
    pub thread_id: ThreadId,
    pub turn: Turn,
}

/// The whole diff of the turn so far: not empty means that files have changed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnDiffUpdated {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub diff: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnPlanUpdated {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub explanation: Option<String>,
    pub plan: Vec<PlanStep>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct PlanStep {
    pub step: String,
    pub status: PlanStepStatus,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemNotice {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item: Item,
}

/// A piece of text. After a broken stream the text comes again under a NEW item id, so pieces of
/// different items are never joined.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemDelta {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_id: ItemId,
    pub delta: String,
}

/// A file change that grew while the model wrote it: what is approved must be the latest.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PatchUpdated {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_id: ItemId,
    pub changes: Vec<FileUpdate>,
}

/// With `will_retry` it is a notice, not a failure.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorNotice {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub will_retry: bool,
    pub error: TurnError,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Warning {
    pub thread_id: Option<ThreadId>,
    pub message: String,
}

impl Warning {
    /// The disk did not take the history: the history of this thread can no longer be trusted after a crash.
    pub fn is_transcript_lost(&self) -> bool {
        self.message
            .starts_with("Failed to save the conversation transcript")
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ConfigWarning {
    pub summary: String,
    pub details: Option<String>,
    pub path: Option<String>,
}

/// The request was answered, here or on another connection, or its turn ended.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerRequestResolved {
    pub thread_id: ThreadId,
    pub request_id: RawId,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitsUpdated {
    pub rate_limits: RateLimits,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct LoginCompleted {
    pub success: bool,
    pub error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountUpdated {
    pub plan_type: Option<String>,
}

impl Notification {
    /// The thread it belongs to, for routing; `None` concerns the whole process.
    pub fn thread_id(&self) -> Option<&ThreadId> {
        match self {
            Self::ThreadStarted(params) => Some(&params.thread.id),
            Self::ThreadStatusChanged(params) => Some(&params.thread_id),
            Self::ThreadClosed(params) | Self::ThreadArchived(params) => Some(&params.thread_id),
            Self::ThreadSettingsUpdated(params) => Some(&params.thread_id),
            Self::TokenUsageUpdated(params) => Some(&params.thread_id),
            Self::TurnStarted(params) | Self::TurnCompleted(params) => Some(&params.thread_id),
            Self::TurnDiffUpdated(params) => Some(&params.thread_id),
            Self::TurnPlanUpdated(params) => Some(&params.thread_id),
            Self::ItemStarted(params) | Self::ItemCompleted(params) => Some(&params.thread_id),
            Self::AgentMessageDelta(params) | Self::CommandOutputDelta(params) => {
                Some(&params.thread_id)
            }
            Self::PatchUpdated(params) => Some(&params.thread_id),
            Self::Error(params) => Some(&params.thread_id),
            Self::Warning(params) => params.thread_id.as_ref(),
            Self::ServerRequestResolved(params) => Some(&params.thread_id),
            Self::Malformed { thread_id, .. } => thread_id.as_ref(),
            Self::ConfigWarning(_)
            | Self::RateLimitsUpdated(_)
            | Self::LoginCompleted(_)
            | Self::AccountUpdated(_)
            | Self::Unknown { .. } => None,
        }
    }

    /// The turn it belongs to.
    pub fn turn_id(&self) -> Option<&TurnId> {
        match self {
            Self::TurnStarted(params) | Self::TurnCompleted(params) => Some(&params.turn.id),
            Self::TokenUsageUpdated(params) => Some(&params.turn_id),
            Self::TurnDiffUpdated(params) => Some(&params.turn_id),
            Self::TurnPlanUpdated(params) => Some(&params.turn_id),
            Self::ItemStarted(params) | Self::ItemCompleted(params) => Some(&params.turn_id),
            Self::AgentMessageDelta(params) | Self::CommandOutputDelta(params) => {
                Some(&params.turn_id)
            }
            Self::PatchUpdated(params) => Some(&params.turn_id),
            Self::Error(params) => Some(&params.turn_id),
            _ => None,
        }
    }

    fn malformed(method: &str, params: &Value, error: &serde_json::Error) -> Self {
        Self::Malformed {
            method: method.to_owned(),
            thread_id: params
                .get("threadId")
                .and_then(Value::as_str)
                .map(ThreadId::new),
            why: error.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_and_malformed_stay_distinct() {
        assert_eq!(
            Notification::parse("thread/queue/changed", &json!({"threadId": "t"})),
            Notification::Unknown {
                method: "thread/queue/changed".to_owned()
            }
        );
        let broken = Notification::parse("turn/completed", &json!({"threadId": "t", "turn": 1}));
        assert!(
            matches!(broken, Notification::Malformed { .. }),
            "{broken:?}"
        );
        assert_eq!(broken.thread_id(), Some(&ThreadId::new("t")));
        for params in [json!(null), json!([]), json!("x"), json!({"threadId": 1})] {
            let broken = Notification::parse("error", &params);
            assert_eq!(broken.method(), "error");
            assert_eq!(broken.thread_id(), None);
        }
    }

    #[test]
    fn resolved_request_keeps_id_type() {
        let read = |id: Value| {
            Notification::parse(
                "serverRequest/resolved",
                &json!({"threadId": "t", "requestId": id}),
            )
        };
        let resolved = |request_id| {
            Notification::ServerRequestResolved(ServerRequestResolved {
                thread_id: ThreadId::new("t"),
                request_id,
            })
        };
        assert_eq!(read(json!(0)), resolved(RawId::Integer(0)));
        assert_eq!(read(json!("0")), resolved(RawId::Text("0".to_owned())));
    }

    #[test]
    fn a_full_disk_is_recognised() {
        let warning = |message: &str| Warning {
            thread_id: None,
            message: message.to_owned(),
        };
        assert!(
            warning(
                "Failed to save the conversation transcript; Codex will continue retrying. Error: x"
            )
            .is_transcript_lost()
        );
        assert!(!warning("Model metadata for `x` not found").is_transcript_lost());
    }
}
