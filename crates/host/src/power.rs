//! What the turns of a thread may do at most, and whether what Codex reports is more than that.
//!
//! Codex ignores an unknown field without a word, an operator's requirements go before what we ask for, and another
//! client of the same Codex may change a thread of ours; so every report is compared. What is done about it is decided
//! where the report arrives: `thread` before a turn, `mailbox` during one.

use crate::shield::PROFILE;
use bridge_codex::wire::notification::EffectiveSettings;
use bridge_codex::wire::policy::SandboxPolicy;
use bridge_codex::wire::thread::ThreadOpened;
use bridge_codex::wire::values::{ApprovalPolicy as WireApproval, ApprovalsReviewer};
use bridge_core::port::{Reads, ThreadSpec};
use bridge_core::value::{ApprovalPolicy, Sandbox};

/// The most that a thread may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Allowed {
    pub(crate) sandbox: Sandbox,
    approval_policy: ApprovalPolicy,
    shielded: bool,
}

/// What Codex says is in force.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reported<'a> {
    sandbox: &'a SandboxPolicy,
    approval_policy: &'a WireApproval,
    approvals_reviewer: &'a ApprovalsReviewer,
    profile: Option<&'a str>,
}

impl<'a> From<&'a ThreadOpened> for Reported<'a> {
    fn from(opened: &'a ThreadOpened) -> Self {
        let profile = opened.active_permission_profile.as_ref();
        Self {
            sandbox: &opened.sandbox,
            approval_policy: &opened.approval_policy,
            approvals_reviewer: &opened.approvals_reviewer,
            profile: profile.map(|profile| profile.id.as_str()),
        }
    }
}

impl<'a> From<&'a EffectiveSettings> for Reported<'a> {
    fn from(settings: &'a EffectiveSettings) -> Self {
        let profile = settings.active_permission_profile.as_ref();
        Self {
            sandbox: &settings.sandbox_policy,
            approval_policy: &settings.approval_policy,
            approvals_reviewer: &settings.approvals_reviewer,
            profile: profile.map(|profile| profile.id.as_str()),
        }
    }
}

fn kind(policy: &SandboxPolicy) -> Sandbox {
    match policy {
        SandboxPolicy::ReadOnly { .. } => Sandbox::ReadOnly,
        SandboxPolicy::WorkspaceWrite { .. } => Sandbox::WorkspaceWrite,
        SandboxPolicy::DangerFullAccess | SandboxPolicy::Other { .. } => Sandbox::DangerFullAccess,
    }
}

pub(crate) fn approval(policy: ApprovalPolicy) -> WireApproval {
    match policy {
        ApprovalPolicy::OnRequest => WireApproval::OnRequest,
        ApprovalPolicy::Untrusted => WireApproval::Untrusted,
        ApprovalPolicy::Never => WireApproval::Never,
    }
}

impl Allowed {
    pub(crate) fn of(spec: &ThreadSpec) -> Self {
        Self {
            sandbox: spec.sandbox,
            approval_policy: spec.approval_policy,
            shielded: match &spec.reads {
                Reads::Disk => false,
                Reads::Shielded { .. } => true,
            },
        }
    }

    /// Whether what is in force is what was asked for, no less and no more.
    pub(crate) fn is_met_by(&self, reported: Reported<'_>) -> bool {
        kind(reported.sandbox) == self.sandbox && self.exceeded_by(reported).is_none()
    }

    /// Which part of what is in force is more than what was asked for, as a clause.
    pub(crate) fn exceeded_by(&self, reported: Reported<'_>) -> Option<String> {
        let sandbox = kind(reported.sandbox);
        if sandbox > self.sandbox {
            return Some(format!(
                "sandbox `{}` was asked for and Codex reports `{}`",
                self.sandbox.word(),
                sandbox.word()
            ));
        }
        if *reported.approval_policy != approval(self.approval_policy) {
            return Some(format!(
                "approval policy `{}` was asked for and Codex reports `{}`",
                self.approval_policy.word(),
                reported.approval_policy.as_str()
            ));
        }
        if *reported.approvals_reviewer != ApprovalsReviewer::User {
            let why = "approvals by a person were asked for, and Codex would decide by itself";
            return Some(why.to_owned());
        }
        let active = reported.profile.unwrap_or("none");
        (self.shielded && active != PROFILE).then(|| {
            format!("permission profile `{PROFILE}` was asked for and Codex reports `{active}`")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn settings(
        sandbox: &str,
        approval: &str,
        reviewer: &str,
        profile: Value,
    ) -> EffectiveSettings {
        serde_json::from_value(json!({
            "sandboxPolicy": {"type": sandbox}, "approvalPolicy": approval,
            "approvalsReviewer": reviewer, "activePermissionProfile": profile,
        }))
        .unwrap()
    }

    fn allowed(sandbox: Sandbox, shielded: bool) -> Allowed {
        Allowed {
            sandbox,
            approval_policy: ApprovalPolicy::OnRequest,
            shielded,
        }
    }

    #[test]
    fn more_than_was_asked_for_is_named() {
        let writer = allowed(Sandbox::WorkspaceWrite, false);
        for (reported, word) in [
            (
                settings("dangerFullAccess", "on-request", "user", Value::Null),
                "danger-full-access",
            ),
            (
                settings("brandNew", "on-request", "user", Value::Null),
                "danger-full-access",
            ),
            (
                settings("readOnly", "never", "user", Value::Null),
                "`never`",
            ),
            (
                settings("readOnly", "untrusted", "user", Value::Null),
                "`untrusted`",
            ),
            (
                settings("readOnly", "on-request", "auto_review", Value::Null),
                "decide by itself",
            ),
        ] {
            let complaint = writer.exceeded_by(Reported::from(&reported)).unwrap();
            assert!(complaint.contains(word), "{complaint}");
        }
        let less = settings("readOnly", "on-request", "user", Value::Null);
        assert_eq!(writer.exceeded_by(Reported::from(&less)), None);
    }

    #[test]
    fn a_shield_that_was_dropped_is_more_power() {
        let peer = allowed(Sandbox::ReadOnly, true);
        let bare = settings("readOnly", "on-request", "user", Value::Null);
        assert!(peer.exceeded_by(Reported::from(&bare)).is_some());
        let held = settings("readOnly", "on-request", "user", json!({"id": PROFILE}));
        assert_eq!(peer.exceeded_by(Reported::from(&held)), None);
    }
}
