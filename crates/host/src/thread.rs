//! How a thread is set up: what is asked of Codex, and whether what it reports back is what was asked.

use crate::fault::{Deed, fault, of_call};
use crate::host::Session;
use bridge_codex::wire::method::ThreadResume;
use bridge_codex::wire::policy::SandboxPolicy;
use bridge_codex::wire::thread::{ThreadOpened, ThreadResumeParams, ThreadResumed, ThreadSettings};
use bridge_codex::wire::values::{ApprovalPolicy as WireApproval, ApprovalsReviewer, SandboxMode};
use bridge_core::port::{AgentFault, ThreadSpec};
use bridge_core::value::{ApprovalPolicy, Class, Sandbox};

/// What a thread is asked to be.
pub(crate) fn settings(spec: &ThreadSpec) -> ThreadSettings {
    ThreadSettings {
        cwd: Some(spec.workdir.clone()),
        sandbox: Some(match spec.sandbox {
            Sandbox::ReadOnly => SandboxMode::ReadOnly,
            Sandbox::WorkspaceWrite => SandboxMode::WorkspaceWrite,
            Sandbox::DangerFullAccess => SandboxMode::DangerFullAccess,
        }),
        approval_policy: Some(approval(spec.approval_policy)),
        approvals_reviewer: Some(ApprovalsReviewer::User),
        model: spec.model.clone(),
        developer_instructions: Some(spec.instructions.clone()),
        ..ThreadSettings::default()
    }
}

fn approval(policy: ApprovalPolicy) -> WireApproval {
    match policy {
        ApprovalPolicy::OnRequest => WireApproval::OnRequest,
        ApprovalPolicy::Untrusted => WireApproval::Untrusted,
        ApprovalPolicy::Never => WireApproval::Never,
    }
}

/// Codex ignores an unknown field without a word, so what it reports as effective is compared.
pub(crate) fn check_power(opened: &ThreadOpened, spec: &ThreadSpec) -> Result<(), AgentFault> {
    let sandbox = match opened.sandbox {
        SandboxPolicy::ReadOnly { .. } => Sandbox::ReadOnly,
        SandboxPolicy::WorkspaceWrite { .. } => Sandbox::WorkspaceWrite,
        SandboxPolicy::DangerFullAccess | SandboxPolicy::Other { .. } => Sandbox::DangerFullAccess,
    };
    let complaint = if sandbox > spec.sandbox {
        format!(
            "sandbox `{}` was asked for and Codex reports `{}`",
            spec.sandbox.word(),
            sandbox.word()
        )
    } else if opened.approval_policy != approval(spec.approval_policy) {
        format!(
            "approval policy `{}` was asked for and Codex reports `{}`",
            spec.approval_policy.word(),
            opened.approval_policy.as_str()
        )
    } else if opened.approvals_reviewer != ApprovalsReviewer::User {
        "approvals by a person were asked for, and Codex would decide by itself".to_owned()
    } else {
        return Ok(());
    };
    let reason = format!(
        "Codex would have more power than configured, so the turn was not begun: {complaint}. Look for requirements or a profile that override it in CODEX_HOME"
    );
    Err(fault(Class::Config, reason))
}

/// Loads a thread and takes its writer. The settings are passed again: without them a thread comes back with
/// another sandbox than it was started with.
pub(crate) async fn resume(
    session: &Session,
    params: ThreadResumeParams,
) -> Result<ThreadResumed, AgentFault> {
    session
        .connection
        .call::<ThreadResume>(params)
        .await
        .map_err(|error| of_call(&error, Deed::Harmless))
}
