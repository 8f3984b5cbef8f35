//! How a thread is set up: what is asked of Codex, and whether what it reports back is what was asked.

use crate::connection::CallError;
use crate::fault::{Deed, fault, of_call};
use crate::host::Session;
use crate::operator::Operator;
use crate::shield::{Ground, PROFILE, Reach, real};
use bridge_codex::wire::method::{ThreadResume, ThreadSettingsUpdate, ThreadStart};
use bridge_codex::wire::policy::SandboxPolicy;
use bridge_codex::wire::thread::{
    ThreadOpened, ThreadResumeParams, ThreadResumed, ThreadSettings, ThreadSettingsUpdateParams,
    ThreadStartParams,
};
use bridge_codex::wire::values::{ApprovalPolicy as WireApproval, ApprovalsReviewer, SandboxMode};
use bridge_core::port::{AgentFault, Reads, ThreadSpec};
use bridge_core::value::{ApprovalPolicy, Class, Sandbox};
use serde_json::{Map, Value, json};

/// What a thread is asked to be. A `sandbox` beside a profile would drop the profile without a word, so one of the
/// two is given.
pub(crate) fn settings(spec: &ThreadSpec, ground: &Ground, operator: &Operator) -> ThreadSettings {
    let (cwd, sandbox, config) = match &spec.reads {
        Reads::Disk => (spec.workdir.clone(), Some(mode(spec.sandbox)), Map::new()),
        Reads::Shielded { hidden } => {
            let workdir = real(&spec.workdir);
            let reach = Reach {
                workdir: &workdir,
                write: spec.sandbox.can_write(),
                hidden,
            };
            let keys = shielded(reach, ground, operator);
            (workdir, None, keys)
        }
    };
    ThreadSettings {
        cwd: Some(cwd),
        sandbox,
        approval_policy: Some(approval(spec.approval_policy)),
        approvals_reviewer: Some(ApprovalsReviewer::User),
        model: spec.model.clone(),
        developer_instructions: Some(spec.instructions.clone()),
        config,
        ..ThreadSettings::default()
    }
}

fn shielded(reach: Reach<'_>, ground: &Ground, operator: &Operator) -> Map<String, Value> {
    let mut keys = ground.profile(reach);
    keys.append(&mut operator.without_tools());
    if reach.write {
        // Otherwise Codex notes the directory as trusted, and runs what its `.codex` names.
        let projects = json!({ reach.workdir: { "trust_level": "untrusted" } });
        keys.insert("projects".to_owned(), projects);
    }
    keys
}

fn mode(sandbox: Sandbox) -> SandboxMode {
    match sandbox {
        Sandbox::ReadOnly => SandboxMode::ReadOnly,
        Sandbox::WorkspaceWrite => SandboxMode::WorkspaceWrite,
        Sandbox::DangerFullAccess => SandboxMode::DangerFullAccess,
    }
}

/// Starts a thread. Codex notes the directory of a thread that is started with a writing sandbox as trusted in the
/// operator's config.toml, and from then on starts the programs that the directory's own `.codex` names. Nobody
/// here decided that; so a thread starts as a reader and is given its sandbox afterwards.
pub(crate) async fn start(
    session: &Session,
    spec: &ThreadSpec,
    operator: &Operator,
) -> Result<ThreadOpened, AgentFault> {
    let mut settings = settings(spec, &session.ground, operator);
    let widened = settings.sandbox.is_some() && spec.sandbox.can_write();
    if widened {
        settings.sandbox = Some(SandboxMode::ReadOnly);
    }
    let params = ThreadStartParams {
        settings,
        ..ThreadStartParams::default()
    };
    let harmless = |error: CallError| of_call(&error, Deed::Harmless);
    let connection = &session.connection;
    let opened = connection
        .call::<ThreadStart>(params)
        .await
        .map_err(harmless)?;
    check_power(&opened, spec)?;
    if widened {
        let params = ThreadSettingsUpdateParams {
            thread_id: opened.thread.id.clone(),
            sandbox_policy: Some(operator.policy(spec.sandbox)),
        };
        let given = connection.call::<ThreadSettingsUpdate>(params).await;
        given.map_err(harmless)?;
    }
    Ok(opened)
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
    } else if let Some(complaint) = unshielded(opened, &spec.reads) {
        complaint
    } else {
        return Ok(());
    };
    let reason = format!(
        "Codex would have more power than configured, so the turn was not begun: {complaint}. Look for requirements or a profile that override it in CODEX_HOME"
    );
    Err(fault(Class::Config, reason))
}

fn unshielded(opened: &ThreadOpened, reads: &Reads) -> Option<String> {
    let active = opened.active_permission_profile.as_ref();
    let active = active.map_or("none", |profile| profile.id.as_str());
    match reads {
        Reads::Disk => None,
        Reads::Shielded { .. } if active == PROFILE => None,
        Reads::Shielded { .. } => Some(format!(
            "permission profile `{PROFILE}` was asked for and Codex reports `{active}`"
        )),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_core::port::TurnTransport;

    #[test]
    fn a_link_to_the_working_directory_unhides_nothing_in_it() {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().canonicalize().unwrap();
        std::fs::create_dir(real.join("work")).unwrap();
        std::os::unix::fs::symlink(real.join("work"), real.join("link")).unwrap();
        let at = |name: &str| real.join(name).display().to_string();
        let spec = ThreadSpec {
            workdir: at("link"),
            sandbox: Sandbox::WorkspaceWrite,
            approval_policy: ApprovalPolicy::Never,
            model: None,
            instructions: String::new(),
            reads: Reads::Shielded {
                hidden: vec![at("work/token")],
            },
            transport: TurnTransport::AppServer,
            codex_home: None,
        };
        let ground = Ground {
            codex: real.join("codex"),
            denied: real.join("denied"),
        };
        let settings = settings(&spec, &ground, &Operator::default());
        assert_eq!(settings.cwd, Some(at("work")));
        let entries = &settings.config["permissions"][PROFILE]["filesystem"];
        assert_eq!(entries[at("work/token")], "none");
        assert_eq!(entries[at("work")], "write");
        assert_eq!(entries.get(at("link")), None);
        assert_eq!(
            settings.config["projects"][at("work")]["trust_level"],
            "untrusted"
        );
    }
}
