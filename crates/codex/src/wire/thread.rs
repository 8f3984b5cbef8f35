//! Threads: start, resume, read, and what Codex reports back as effective.
//!
//! Comparing the effective settings with the asked ones belongs to the caller.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::config::SandboxPolicy;
use super::turn::Turn;
use super::values::{
    ActiveFlag, ApprovalPolicy, ApprovalsReviewer, HistoryMode, ItemsView, SandboxMode,
    SortDirection,
};
use bridge_core::value::ThreadId;

/// A thread as Codex describes it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Thread {
    pub id: ThreadId,
    pub status: ThreadStatus,
    /// Oldest first. Empty unless the call asks for turns.
    #[serde(default)]
    pub turns: Vec<Turn>,
    pub cwd: Option<String>,
    pub cli_version: Option<String>,
    pub history_mode: Option<HistoryMode>,
    /// The thread whose turn started this one, for an agent of Codex's own.
    pub parent_thread_id: Option<ThreadId>,
}

impl Thread {
    /// Whether the history shows every item of a turn that has ended. A legacy one keeps no commands: on 0.166 a turn
    /// that ran one and then failed is listed without it, also by the process that ran it. A Codex that names no mode
    /// has no other.
    pub fn keeps_all_items(&self) -> bool {
        match self.history_mode {
            Some(HistoryMode::Paginated) => true,
            Some(HistoryMode::Legacy | HistoryMode::Other(_)) | None => false,
        }
    }
}

/// Status of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "StatusFields")]
pub enum ThreadStatus {
    NotLoaded,
    Idle,
    SystemError,
    Active { flags: Vec<ActiveFlag> },
    Other(String),
}

impl ThreadStatus {
    /// The kinds that have a variant.
    pub const KINDS: &'static [&'static str] = &["notLoaded", "idle", "systemError", "active"];
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatusFields {
    r#type: String,
    #[serde(default)]
    active_flags: Vec<ActiveFlag>,
}

impl From<StatusFields> for ThreadStatus {
    fn from(fields: StatusFields) -> Self {
        match fields.r#type.as_str() {
            "notLoaded" => Self::NotLoaded,
            "idle" => Self::Idle,
            "systemError" => Self::SystemError,
            "active" => Self::Active {
                flags: fields.active_flags,
            },
            _ => Self::Other(fields.r#type),
        }
    }
}

/// Settings of a thread that both `thread/start` and `thread/resume` take.
///
/// `sandbox` beside `permissions` drops the profile without a word, so a caller sets one of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSettings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxMode>,
    /// Name of a permission profile; needs the experimental API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_policy: Option<ApprovalPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_provider: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub developer_instructions: Option<String>,
    /// Keys of config.toml for this thread only.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub config: Map<String, Value>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadStartParams {
    #[serde(flatten)]
    pub settings: ThreadSettings,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_mode: Option<HistoryMode>,
    /// Tools that this client runs; needs the experimental API. A thread keeps what it began with, also in a new
    /// process, and `thread/resume` takes none (seen on 0.166).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dynamic_tools: Vec<DynamicTool>,
}

/// A tool that this client runs. Codex asks for it with `item/tool/call`, again after a lost connection.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "type", rename = "function")]
pub struct DynamicTool {
    pub name: String,
    pub description: String,
    /// JSON schema of its arguments.
    pub input_schema: Value,
}

/// Give the settings again: a new process restores the approval policy of a thread but not its
/// sandbox, which falls back to the default of config.toml (seen on 0.166).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadResumeParams {
    pub thread_id: ThreadId,
    #[serde(flatten)]
    pub settings: ThreadSettings,
    /// Leave `thread.turns` empty; all turns of a long thread in one response are deprecated.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exclude_turns: bool,
    /// A page of turns in the same response, so that resuming and looking is one request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_turns_page: Option<TurnsPageParams>,
}

impl ThreadResumeParams {
    /// Resume with the newest `limit` turns, all items loaded: what reconcile needs.
    pub fn with_newest_turns(thread_id: ThreadId, settings: ThreadSettings, limit: u32) -> Self {
        Self {
            thread_id,
            settings,
            exclude_turns: true,
            initial_turns_page: Some(TurnsPageParams {
                items_view: ItemsView::Full,
                limit,
                sort_direction: SortDirection::Descending,
            }),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnsPageParams {
    pub items_view: ItemsView,
    pub limit: u32,
    pub sort_direction: SortDirection,
}

/// Response of `thread/start`: the settings in force.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadOpened {
    pub thread: Thread,
    pub model: String,
    pub cwd: String,
    pub approval_policy: ApprovalPolicy,
    pub approvals_reviewer: ApprovalsReviewer,
    pub sandbox: SandboxPolicy,
    /// Absent although asked for: the profile was dropped.
    pub active_permission_profile: Option<PermissionProfile>,
}

/// Response of `thread/resume`: the same, and the page of turns if one was asked for.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadResumed {
    pub thread: Thread,
    pub model: String,
    pub cwd: String,
    pub approval_policy: ApprovalPolicy,
    pub approvals_reviewer: ApprovalsReviewer,
    pub sandbox: SandboxPolicy,
    pub active_permission_profile: Option<PermissionProfile>,
    pub initial_turns_page: Option<TurnsPage>,
}

impl ThreadResumed {
    /// The settings in force, and the turns oldest first from wherever the response holds them.
    /// `asked` is the direction of the page that was asked for.
    pub fn into_parts(mut self, asked: &SortDirection) -> (ThreadOpened, Vec<Turn>) {
        let turns = match self.initial_turns_page {
            Some(page) => page.into_oldest_first(asked),
            None => std::mem::take(&mut self.thread.turns),
        };
        let opened = ThreadOpened {
            thread: self.thread,
            model: self.model,
            cwd: self.cwd,
            approval_policy: self.approval_policy,
            approvals_reviewer: self.approvals_reviewer,
            sandbox: self.sandbox,
            active_permission_profile: self.active_permission_profile,
        };
        (opened, turns)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PermissionProfile {
    pub id: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadReadParams {
    pub thread_id: ThreadId,
    pub include_turns: bool,
}

/// Beware: a read by a process that does not hold the writer says `interrupted` of a running turn.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ThreadReadResponse {
    pub thread: Thread,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadTurnsListParams {
    pub thread_id: ThreadId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[serde(flatten)]
    pub page: TurnsPageParams,
}

/// One page of turns, in the order that was asked for.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnsPage {
    pub data: Vec<Turn>,
    /// Absent on the last page.
    pub next_cursor: Option<String>,
}

impl TurnsPage {
    /// The turns oldest first, as [`crate::oracle`] reads them.
    pub fn into_oldest_first(mut self, asked: &SortDirection) -> Vec<Turn> {
        match asked {
            SortDirection::Descending | SortDirection::Other(_) => self.data.reverse(),
            SortDirection::Ascending => {}
        }
        self.data
    }
}

/// Only what is given is changed, from the next turn on.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSettingsUpdateParams {
    pub thread_id: ThreadId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox_policy: Option<SandboxPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_policy: Option<ApprovalPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvals_reviewer: Option<ApprovalsReviewer>,
}

/// Params of the calls that only name a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadIdParams {
    pub thread_id: ThreadId,
}

/// Beyond `limit` the answer names where the next page begins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadLoadedListParams {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Ids of threads that are loaded, agents of Codex's own among them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct LoadedThreads {
    pub data: Vec<ThreadId>,
}

/// Commands that turns of a thread left running; how many is all that is needed of them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct BackgroundTerminals {
    pub data: Vec<Value>,
}

/// A response whose content nobody needs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Empty {}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wire::values::TurnStatus;

    #[test]
    fn unknown_thread_status_is_kept() {
        let read = |value| serde_json::from_value::<ThreadStatus>(value).unwrap();
        for kind in ThreadStatus::KINDS {
            let status = read(json!({"type": kind}));
            assert!(!matches!(status, ThreadStatus::Other(_)), "{kind}");
        }
        assert_eq!(
            read(json!({"type": "active", "activeFlags": ["waitingOnApproval", "dreaming"]})),
            ThreadStatus::Active {
                flags: vec![
                    ActiveFlag::WaitingOnApproval,
                    ActiveFlag::Other("dreaming".to_owned())
                ]
            }
        );
        assert_eq!(
            read(json!({"type": "asleep"})),
            ThreadStatus::Other("asleep".to_owned())
        );
    }

    #[test]
    fn only_paginated_history_keeps_all_items() {
        let keeps = |mode: serde_json::Value| {
            let thread = json!({"id": "x", "status": {"type": "idle"}, "historyMode": mode});
            let thread: Thread = serde_json::from_value(thread).unwrap();
            thread.keeps_all_items()
        };
        assert!(keeps(json!("paginated")));
        for mode in [json!("legacy"), json!("newer"), json!(null)] {
            assert!(!keeps(mode.clone()), "{mode}");
        }
    }

    #[test]
    fn resume_page_is_reversed_to_oldest_first() {
        let params =
            ThreadResumeParams::with_newest_turns(ThreadId::new("t"), ThreadSettings::default(), 5);
        assert_eq!(
            serde_json::to_value(&params).unwrap(),
            json!({"threadId": "t", "excludeTurns": true, "initialTurnsPage":
                   {"itemsView": "full", "limit": 5, "sortDirection": "desc"}})
        );
        let turn = |id: &str| Turn {
            id: bridge_core::value::TurnId::new(id),
            status: TurnStatus::Completed,
            items: vec![],
            items_view: None,
            error: None,
            started_at: None,
            completed_at: None,
        };
        let page = TurnsPage {
            data: vec![turn("2"), turn("1")],
            next_cursor: None,
        };
        assert_eq!(
            page.into_oldest_first(&SortDirection::Descending),
            [turn("1"), turn("2")]
        );
    }
}
