//! How a thread is set up: what is asked of Codex, and whether what it reports back is what was asked.

pub(crate) mod arrive;
pub(crate) mod foreign;
pub(crate) mod history;
pub(crate) mod memory;
pub(crate) mod operator_config;
pub(crate) mod permissions;
pub(crate) mod registry;
pub(crate) mod release;
pub(crate) mod transcript;
pub(crate) mod travel;

use crate::app_server::connection::CallError;
use crate::app_server::{NewThreads, Session};
use crate::error::{CallEffect, agent_error, of_call};
use crate::sandbox::read_isolation::{IsolationBase, ReadGrants, real};
use crate::thread::operator_config::OperatorConfig;
use crate::thread::permissions::{Permissions, ReportedPermissions, approval};
use crate::thread::release::resume;
use bridge_codex::wire::config::SandboxPolicy;
use bridge_codex::wire::method::{ThreadSettingsUpdate, ThreadStart};
use bridge_codex::wire::thread::{
    DynamicTool, ThreadResumeParams, ThreadSettings, ThreadSettingsUpdateParams, ThreadStartParams,
};
use bridge_codex::wire::values::{ApprovalsReviewer, HistoryMode, SandboxMode, SortDirection};
use bridge_core::port::{AgentError, Reads, ThreadSpec};
use bridge_core::prompt::{ASK_AGENT, ask_agent_description};
use bridge_core::value::{Class, Sandbox, ThreadId};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// How long Codex may take to report the sandbox that a thread was given; measured on 0.166: milliseconds.
const REPORT_PATIENCE: Duration = Duration::from_secs(10);

/// What a thread is asked to be. A `sandbox` beside a profile would drop the profile without a word, so one of the
/// two is given.
pub(crate) fn settings(
    spec: &ThreadSpec,
    isolation: &IsolationBase,
    operator: &OperatorConfig,
) -> ThreadSettings {
    let (cwd, sandbox, config) = match &spec.reads {
        Reads::Disk => (spec.workdir.clone(), Some(mode(spec.sandbox)), Map::new()),
        Reads::Shielded { also, hidden } => {
            let workdir = real(&spec.workdir);
            let reach = ReadGrants {
                workdir: &workdir,
                write: spec.sandbox.can_write(),
                also,
                hidden,
            };
            let keys = shielded(reach, isolation, operator);
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

fn shielded(
    reach: ReadGrants<'_>,
    isolation: &IsolationBase,
    operator: &OperatorConfig,
) -> Map<String, Value> {
    let mut keys = isolation.profile(reach);
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
/// here decided that; so a thread starts as a reader and is given its sandbox afterwards. Before its first turn it can't
/// be resumed to be compared again, so what Codex reports by itself is waited for.
pub(crate) async fn start(
    session: &Session,
    spec: &ThreadSpec,
    operator: &OperatorConfig,
    kept: NewThreads,
) -> Result<ThreadId, AgentError> {
    let mut settings = settings(spec, &session.isolation, operator);
    let widened = settings.sandbox.is_some() && spec.sandbox.can_write();
    if widened {
        settings.sandbox = Some(SandboxMode::ReadOnly);
    }
    let params = ThreadStartParams {
        settings,
        dynamic_tools: tools(spec),
        history_mode: match kept {
            NewThreads::Usual => None,
            NewThreads::Legacy => Some(HistoryMode::Legacy),
        },
    };
    let harmless = |error: CallError| of_call(&error, CallEffect::Repeatable);
    let connection = &session.connection;
    let opened = connection
        .call::<ThreadStart>(params)
        .await
        .map_err(harmless)?;
    let allowed = Permissions::of(spec, operator);
    not_more(allowed.exceeded_by(ReportedPermissions::from(&opened)))?;
    let thread = opened.thread.id;
    connection
        .threads
        .loaded(thread.clone(), &opened.thread.status, allowed);
    if widened {
        let given = widen(session, &thread, operator.policy(spec.sandbox)).await;
        given.inspect_err(|_| connection.threads.unloaded(&thread))?;
    }
    Ok(thread)
}

/// Tools of ours that the model may call.
fn tools(spec: &ThreadSpec) -> Vec<DynamicTool> {
    if spec.agents.is_empty() {
        return Vec::new();
    }
    let text = |description: &str| json!({"type": "string", "description": description});
    let fields = json!({
        "agent": text("Which agent, by its name"),
        "text": text("What to ask it"),
        "context": text("The context that an earlier answer named, to go on with another talk than the usual one"),
        "task": text("The task that an earlier answer named, to tell it what it asked for"),
    });
    vec![DynamicTool {
        name: ASK_AGENT.to_owned(),
        description: ask_agent_description(&spec.agents),
        input_schema: json!({
            "type": "object",
            "properties": fields,
            "required": ["agent", "text"],
            "additionalProperties": false,
        }),
    }]
}

async fn widen(
    session: &Session,
    thread: &ThreadId,
    policy: SandboxPolicy,
) -> Result<(), AgentError> {
    let connection = &session.connection;
    let report = connection.threads.await_report(thread);
    let params = ThreadSettingsUpdateParams {
        thread_id: thread.clone(),
        sandbox_policy: Some(policy),
        approval_policy: None,
        approvals_reviewer: None,
    };
    let given = connection.call::<ThreadSettingsUpdate>(params).await;
    given.map_err(|error| of_call(&error, CallEffect::Repeatable))?;
    match tokio::time::timeout(REPORT_PATIENCE, report).await {
        Ok(Ok(verdict)) => not_more(verdict),
        Ok(Err(_)) | Err(_) => {
            let reason = "Codex did not report which sandbox the thread was given, so the turn was not begun; run `codex-bridge doctor` if that goes on";
            Err(agent_error(Class::Transient, reason))
        }
    }
}

/// Refuses a thread with more permissions than requested.
fn not_more(verdict: Option<String>) -> Result<(), AgentError> {
    match verdict {
        None => Ok(()),
        Some(complaint) => {
            let reason = format!(
                "Codex would have more power than configured, so the turn was not begun: {complaint}. Look for requirements or a profile that override it in CODEX_HOME"
            );
            Err(agent_error(Class::Config, reason))
        }
    }
}

/// Loads a thread, takes its writer, and makes sure that it may do what it should and no more. A thread that Codex had
/// loaded already keeps the power it had, from an older configuration of ours or from another program; it is given its
/// own again.
pub(crate) async fn load(
    session: &Session,
    thread: &ThreadId,
    spec: &ThreadSpec,
) -> Result<(), AgentError> {
    let operator = operator_config::read(&session.connection, spec).await?;
    let allowed = Permissions::of(spec, &operator);
    let again = async || {
        let params = ThreadResumeParams {
            thread_id: thread.clone(),
            settings: settings(spec, &session.isolation, &operator),
            exclude_turns: true,
            initial_turns_page: None,
        };
        let resumed = resume(session, params).await?;
        Ok::<_, AgentError>(resumed.into_parts(&SortDirection::Descending).0)
    };
    let mut opened = again().await?;
    let met = allowed.is_met_by(ReportedPermissions::from(&opened));
    if !met && spec.reads == Reads::Disk {
        let params = ThreadSettingsUpdateParams {
            thread_id: thread.clone(),
            sandbox_policy: Some(operator.policy(spec.sandbox)),
            approval_policy: Some(approval(spec.approval_policy)),
            approvals_reviewer: Some(ApprovalsReviewer::User),
        };
        let given = session.connection.call::<ThreadSettingsUpdate>(params);
        match given.await {
            Ok(_) => opened = again().await?,
            // What is in force is compared all the same.
            Err(error) => {
                tracing::warn!(%error, "a thread could not be given its own settings again")
            }
        }
    }
    not_more(allowed.exceeded_by(ReportedPermissions::from(&opened)))?;
    let threads = &session.connection.threads;
    threads.loaded(thread.clone(), &opened.thread.status, allowed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::read_isolation::PROFILE;
    use bridge_core::port::TurnTransport;
    use bridge_core::value::ApprovalPolicy;

    #[test]
    fn symlinked_workdir_keeps_hidden_paths_denied() {
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
                also: Vec::new(),
                hidden: vec![at("work/token")],
            },
            transport: TurnTransport::AppServer,
            codex_home: None,
            agents: Vec::new(),
        };
        let isolation = IsolationBase {
            codex: real.join("codex"),
            denied: real.join("denied"),
        };
        let settings = settings(&spec, &isolation, &OperatorConfig::default());
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
