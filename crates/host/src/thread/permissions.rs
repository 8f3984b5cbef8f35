//! The most that the turns of a thread may do, compared with the permissions that Codex reports.
//!
//! Codex ignores an unknown field without a word, an operator's requirements go before what we ask for, and another
//! client of the same Codex may change a thread of ours; so every report is compared. What is done about it is decided
//! where the report arrives: `thread` before a turn, `mailbox` during one.

use crate::sandbox::read_isolation::{PROFILE, real};
use crate::thread::operator_config::OperatorConfig;
use bridge_codex::wire::config::SandboxPolicy;
use bridge_codex::wire::notification::EffectiveSettings;
use bridge_codex::wire::thread::ThreadOpened;
use bridge_codex::wire::values::{ApprovalPolicy as WireApproval, ApprovalsReviewer};
use bridge_core::port::{Reads, ThreadSpec};
use bridge_core::value::{ApprovalPolicy, Sandbox};
use std::path::{Path, PathBuf};

/// The most that a thread may do.
#[derive(Clone, Debug)]
pub(crate) struct Permissions {
    pub(crate) sandbox: Sandbox,
    approval_policy: ApprovalPolicy,
    shielded: bool,
    reach: SandboxReach,
}

/// How far its sandbox reaches. Two sandboxes of one kind may be worlds apart.
#[derive(Clone, Debug)]
struct SandboxReach {
    network: bool,
    roots: Vec<PathBuf>,
    tmpdir: bool,
    slash_tmp: bool,
}

/// Permissions that Codex reports as effective.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportedPermissions<'a> {
    sandbox: &'a SandboxPolicy,
    approval_policy: &'a WireApproval,
    approvals_reviewer: &'a ApprovalsReviewer,
    profile: Option<&'a str>,
}

impl<'a> From<&'a ThreadOpened> for ReportedPermissions<'a> {
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

impl<'a> From<&'a EffectiveSettings> for ReportedPermissions<'a> {
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

impl SandboxReach {
    fn of(policy: &SandboxPolicy) -> Self {
        match policy {
            SandboxPolicy::ReadOnly { network_access } => Self {
                network: *network_access,
                roots: Vec::new(),
                tmpdir: false,
                slash_tmp: false,
            },
            SandboxPolicy::WorkspaceWrite {
                writable_roots,
                network_access,
                exclude_tmpdir_env_var,
                exclude_slash_tmp,
            } => Self {
                network: *network_access,
                roots: writable_roots.iter().map(PathBuf::from).collect(),
                tmpdir: !exclude_tmpdir_env_var,
                slash_tmp: !exclude_slash_tmp,
            },
            SandboxPolicy::DangerFullAccess | SandboxPolicy::Other { .. } => Self {
                network: true,
                roots: vec![PathBuf::from("/")],
                tmpdir: true,
                slash_tmp: true,
            },
        }
    }

    /// The first part of `other` that is not in `self`. Codex reports a root as its configuration names it, so one that is
    /// spelled otherwise is another one.
    fn exceeded_by(&self, other: &Self) -> Option<String> {
        let excess = |what: &str| format!("{what} was not asked for and Codex reports it");
        if other.network && !self.network {
            return Some(excess("network access"));
        }
        let root = other.roots.iter().find(|root| !self.roots.contains(root));
        if let Some(root) = root {
            return Some(excess(&format!("writing in `{}`", root.display())));
        }
        if other.slash_tmp && !self.slash_tmp {
            return Some(excess("writing in `/tmp`"));
        }
        (other.tmpdir && !self.tmpdir).then(|| excess("writing in `$TMPDIR`"))
    }
}

fn is_shielded(spec: &ThreadSpec) -> bool {
    matches!(spec.reads, Reads::Shielded { .. })
}

impl Permissions {
    /// The permissions of a spec, with the operator's additions for threads without read isolation.
    pub(crate) fn of(spec: &ThreadSpec, operator: &OperatorConfig) -> Self {
        let shielded = is_shielded(spec);
        let policy = if shielded {
            OperatorConfig::default().policy(spec.sandbox)
        } else {
            operator.policy(spec.sandbox)
        };
        let mut reach = SandboxReach::of(&policy);
        if spec.sandbox.can_write() {
            let workdir = Path::new(&spec.workdir).to_owned();
            reach.roots.extend([workdir, real(&spec.workdir).into()]);
        }
        Self {
            sandbox: spec.sandbox,
            approval_policy: spec.approval_policy,
            shielded,
            reach,
        }
    }

    /// Whether this is what a thread of this kind is asked to be.
    pub(crate) fn fits(&self, spec: &ThreadSpec) -> bool {
        self.sandbox == spec.sandbox
            && self.approval_policy == spec.approval_policy
            && self.shielded == is_shielded(spec)
    }

    /// Whether what is in force is what was asked for, no less and no more.
    pub(crate) fn is_met_by(&self, reported: ReportedPermissions<'_>) -> bool {
        kind(reported.sandbox) == self.sandbox && self.exceeded_by(reported).is_none()
    }

    /// Which part of what is in force is more than what was asked for, as a clause.
    pub(crate) fn exceeded_by(&self, reported: ReportedPermissions<'_>) -> Option<String> {
        let sandbox = kind(reported.sandbox);
        if sandbox > self.sandbox {
            return Some(format!(
                "sandbox `{}` was asked for and Codex reports `{}`",
                self.sandbox.as_str(),
                sandbox.as_str()
            ));
        }
        // Beyond full access there is nothing.
        if self.sandbox != Sandbox::DangerFullAccess
            && let Some(beyond) = self.reach.exceeded_by(&SandboxReach::of(reported.sandbox))
        {
            return Some(beyond);
        }
        if *reported.approval_policy != approval(self.approval_policy) {
            return Some(format!(
                "approval policy `{}` was asked for and Codex reports `{}`",
                self.approval_policy.as_str(),
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
    use bridge_codex::wire::config::ConfigReadResponse;
    use bridge_core::port::TurnTransport;
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

    fn allowed(sandbox: Sandbox, shielded: bool) -> Permissions {
        let operator = OperatorConfig::default();
        Permissions {
            shielded,
            ..Permissions::of(&spec(sandbox), &operator)
        }
    }

    fn spec(sandbox: Sandbox) -> ThreadSpec {
        ThreadSpec {
            workdir: "/w".to_owned(),
            sandbox,
            approval_policy: ApprovalPolicy::OnRequest,
            model: None,
            instructions: String::new(),
            reads: Reads::Disk,
            transport: TurnTransport::AppServer,
            codex_home: None,
            agents: Vec::new(),
        }
    }

    fn with_policy(policy: Value) -> EffectiveSettings {
        let mut settings = settings("readOnly", "on-request", "user", Value::Null);
        settings.sandbox_policy = serde_json::from_value(policy).unwrap();
        settings
    }

    #[test]
    fn wider_sandbox_of_same_kind_exceeds_permissions() {
        let config = json!({"config": {"sandbox_workspace_write":
            {"writable_roots": ["/srv"], "exclude_slash_tmp": true}}});
        let operator =
            OperatorConfig::from(serde_json::from_value::<ConfigReadResponse>(config).unwrap());
        let writer = Permissions::of(&spec(Sandbox::WorkspaceWrite), &operator);
        let policy = |roots: Value, network: bool, no_tmp: bool| {
            with_policy(json!({"type": "workspaceWrite", "writableRoots": roots,
                "networkAccess": network, "excludeSlashTmp": no_tmp}))
        };
        for (reported, word) in [
            (policy(json!(["/srv"]), true, true), "network"),
            (policy(json!(["/srv", "/"]), false, true), "`/`"),
            (policy(json!(["/srv/../etc"]), false, true), "/etc"),
            (policy(json!(["/srv"]), false, false), "/tmp"),
        ] {
            let complaint = writer
                .exceeded_by(ReportedPermissions::from(&reported))
                .unwrap();
            assert!(complaint.contains(word), "{complaint}");
        }
        let asked = policy(json!(["/srv/", "/w"]), false, true);
        assert_eq!(writer.exceeded_by(ReportedPermissions::from(&asked)), None);
        let online = with_policy(json!({"type": "readOnly", "networkAccess": true}));
        let reader = allowed(Sandbox::ReadOnly, false);
        assert!(
            reader
                .exceeded_by(ReportedPermissions::from(&online))
                .is_some()
        );
        assert!(!reader.is_met_by(ReportedPermissions::from(&online)));
        let all = allowed(Sandbox::DangerFullAccess, false);
        assert_eq!(all.exceeded_by(ReportedPermissions::from(&online)), None);
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
            let complaint = writer
                .exceeded_by(ReportedPermissions::from(&reported))
                .unwrap();
            assert!(complaint.contains(word), "{complaint}");
        }
        let less = settings("readOnly", "on-request", "user", Value::Null);
        assert_eq!(writer.exceeded_by(ReportedPermissions::from(&less)), None);
    }

    #[test]
    fn dropped_read_isolation_exceeds_permissions() {
        let peer = allowed(Sandbox::ReadOnly, true);
        let bare = settings("readOnly", "on-request", "user", Value::Null);
        assert!(peer.exceeded_by(ReportedPermissions::from(&bare)).is_some());
        let held = settings("readOnly", "on-request", "user", json!({"id": PROFILE}));
        assert_eq!(peer.exceeded_by(ReportedPermissions::from(&held)), None);
    }
}
