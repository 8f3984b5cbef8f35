//! The command that opens a thread in Codex's own terminal, with the directory and the sandbox of its conversation.
//!
//! It is a process of its own. A terminal can join our app-server too (`--remote`), but there it sees the threads of
//! everybody, and their questions.

use crate::app_server::Session;
use crate::exec::args::{quoted, tables};
use crate::keeper::launch::LaunchOptions;
use crate::process::oneshot;
use crate::thread::operator_config::OperatorConfig;
use crate::thread::permissions::approval;
use crate::thread::settings;
use bridge_codex::wire::thread::ThreadSettings;
use bridge_codex::wire::values::SandboxMode;
use bridge_core::port::ThreadSpec;
use bridge_core::value::ThreadId;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Keeps the terminal from joining a server that Codex shares between terminals; 0.150 has none, and no such flag.
const ALONE: &str = "--no-daemon";
/// How long Codex may take to list its flags.
const HELP_DEADLINE: Duration = Duration::from_secs(10);

/// What to run. Nothing of a message is in it, and no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminalCommand {
    pub program: PathBuf,
    pub args: Vec<String>,
    /// The directory to run it in.
    pub workdir: String,
    pub codex_home: Option<PathBuf>,
}

/// The command for a thread. `help` is what Codex says of its flags.
pub(crate) fn command(
    session: &Session,
    launch: &LaunchOptions,
    (thread, spec): (&ThreadId, &ThreadSpec),
    operator: &OperatorConfig,
    help: &str,
) -> TerminalCommand {
    let settings = settings(spec, &session.isolation, operator);
    let is_alone = help.contains(ALONE);
    TerminalCommand {
        program: launch.codex.clone(),
        args: args(thread, spec, &settings, launch.overrides(), is_alone),
        workdir: settings.cwd.unwrap_or_else(|| spec.workdir.clone()),
        codex_home: launch.usual_home(),
    }
}

fn args(
    thread: &ThreadId,
    spec: &ThreadSpec,
    settings: &ThreadSettings,
    overrides: Vec<String>,
    is_alone: bool,
) -> Vec<String> {
    let mut args = vec!["resume".to_owned()];
    args.extend(is_alone.then(|| ALONE.to_owned()));
    let workdir = settings.cwd.as_ref().unwrap_or(&spec.workdir);
    args.push(format!("--cd={workdir}"));
    // Beside a permission profile it would drop the profile without a word, so it is one of the two.
    let sandbox = settings.sandbox.as_ref().map(SandboxMode::as_str);
    args.extend(sandbox.map(|mode| format!("--sandbox={mode}")));
    let policy = approval(spec.approval_policy);
    let policy = format!("approval_policy={}", quoted(policy.as_str()));
    for setting in tables(settings).chain(overrides).chain([policy]) {
        args.extend(["-c".to_owned(), setting]);
    }
    args.push(thread.as_str().to_owned());
    args
}

/// The flags of `codex resume`, in Codex's own words; nothing where it does not say.
pub(crate) async fn help(launch: &LaunchOptions) -> String {
    let mut command = Command::new(&launch.codex);
    command
        .args(["resume", "--help"])
        .env_clear()
        .envs(launch.env.iter().cloned());
    let ran = tokio::task::spawn_blocking(move || {
        oneshot::run(command, HELP_DEADLINE, &mut |_| {}).map(|(_, output)| output.stdout)
    });
    match ran.await {
        Ok(Ok(said)) => String::from_utf8_lossy(&said).into_owned(),
        Ok(Err(error)) => {
            tracing::debug!(%error, "codex does not list its flags");
            String::new()
        }
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_core::port::{Reads, TurnTransport};
    use bridge_core::value::{ApprovalPolicy, Sandbox};
    use serde_json::json;

    #[test]
    fn terminal_has_the_sandbox_of_its_thread() {
        let spec = ThreadSpec {
            workdir: "/w".to_owned(),
            sandbox: Sandbox::ReadOnly,
            approval_policy: ApprovalPolicy::OnRequest,
            model: Some("m".to_owned()),
            instructions: "secret words".to_owned(),
            reads: Reads::Disk,
            transport: TurnTransport::AppServer,
            codex_home: None,
            agents: Vec::new(),
        };
        let mut settings = ThreadSettings {
            sandbox: Some(SandboxMode::ReadOnly),
            ..ThreadSettings::default()
        };
        let of = |settings: &ThreadSettings| {
            let overrides = vec!["a=1".to_owned()];
            args(&ThreadId::new("t"), &spec, settings, overrides, true)
        };
        let words = "resume --no-daemon --cd=/w --sandbox=read-only -c a=1 -c approval_policy=\"on-request\" t";
        assert_eq!(of(&settings).join(" "), words);
        settings.sandbox = None;
        settings
            .config
            .insert("default_permissions".to_owned(), json!("p"));
        let isolated = of(&settings).join(" ");
        assert!(
            isolated.contains("-c default_permissions=\"p\""),
            "{isolated}"
        );
        assert!(!isolated.contains("--sandbox"), "{isolated}");
    }
}
