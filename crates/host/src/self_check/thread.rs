//! The threads of a check: opened as the bridge opens those of conversations, with what may be done on them confirmed.

use super::Room;
use super::private_codex::{PrivateCodex, SettingsReport};
use crate::app_server::connection::CallError;
use crate::thread::operator_config::OperatorConfig;
use crate::thread::permissions::{Permissions, ReportedPermissions};
use crate::thread::settings;
use bridge_codex::wire::config::SandboxPolicy;
use bridge_codex::wire::method::{Method, ThreadSettingsUpdate, ThreadStart};
use bridge_codex::wire::thread::{ThreadOpened, ThreadSettingsUpdateParams, ThreadStartParams};
use bridge_codex::wire::values::SandboxMode;
use bridge_core::port::{Reads, ThreadSpec, TurnTransport};
use bridge_core::value::{ApprovalPolicy, Sandbox, ThreadId};
use serde_json::Value;
use std::path::Path;

/// A thread that was opened.
#[derive(Debug)]
pub(crate) struct OpenedThread {
    pub(crate) id: ThreadId,
    /// Why the bridge would not use it.
    pub(crate) complaint: Option<String>,
    /// All that Codex says of its settings.
    pub(crate) reported: Value,
}

/// Opens one. It begins as a reader and is given its sandbox afterwards.
pub(crate) async fn open(
    codex: &mut PrivateCodex,
    room: &Room,
    spec: &ThreadSpec,
) -> Result<OpenedThread, CallError> {
    let operator = OperatorConfig::default();
    let allowed = Permissions::of(spec, &operator);
    let mut settings = settings(spec, &room.isolation(), &operator);
    let widened = spec.sandbox == Sandbox::WorkspaceWrite;
    if widened {
        settings.sandbox = Some(SandboxMode::ReadOnly);
    }
    let params = ThreadStartParams {
        settings,
        ..ThreadStartParams::default()
    };
    let reported = codex.call_raw::<ThreadStart>(&params).await?;
    let opened: ThreadOpened =
        serde_json::from_value(reported.clone()).map_err(|error| CallError::Unreadable {
            method: ThreadStart::NAME,
            why: error.to_string(),
        })?;
    let id = opened.thread.id.clone();
    let mut complaint = allowed.exceeded_by(ReportedPermissions::from(&opened));
    if widened && complaint.is_none() {
        let params = ThreadSettingsUpdateParams {
            thread_id: id.clone(),
            sandbox_policy: Some(writing_sandbox()),
            approval_policy: None,
            approvals_reviewer: None,
        };
        codex.call::<ThreadSettingsUpdate>(&params).await?;
        let judge = |reported: ReportedPermissions<'_>| allowed.exceeded_by(reported);
        match codex.reported_settings(&id, judge).await? {
            SettingsReport::AsAsked => {}
            SettingsReport::Exceeds(what) => complaint = Some(what),
            SettingsReport::Missing => {
                let what =
                    "thread/settings/updated: it does not report which sandbox a thread was given";
                return Ok(OpenedThread {
                    id,
                    complaint: Some(what.to_owned()),
                    reported,
                });
            }
        }
    }
    let complaint =
        complaint.map(|what| format!("a thread has more power than it was given: {what}"));
    Ok(OpenedThread {
        id,
        complaint,
        reported,
    })
}

/// What a conversation of a person may do, but not in the temporary directories, where the check may be.
fn writing_sandbox() -> SandboxPolicy {
    SandboxPolicy::WorkspaceWrite {
        writable_roots: Vec::new(),
        network_access: false,
        exclude_tmpdir_env_var: true,
        exclude_slash_tmp: true,
    }
}

/// A thread of a check: its commands may read the disk.
pub(super) fn spec(
    workdir: &Path,
    sandbox: Sandbox,
    approval_policy: ApprovalPolicy,
) -> ThreadSpec {
    ThreadSpec {
        workdir: workdir.display().to_string(),
        sandbox,
        approval_policy,
        model: None,
        instructions: String::new(),
        reads: Reads::Disk,
        transport: TurnTransport::AppServer,
        codex_home: None,
        agents: Vec::new(),
    }
}
