//! What the check of this Codex says: of one that is newer than the tested ones, or of any with `--deep`.

use super::report::{Check, Topic};
use super::server;
use bridge_daemon::config::{Environment, Loaded};
use bridge_daemon::state::StateDir;
use bridge_host::LaunchOptions;
use bridge_host::binary::{Binary, launcher};
use bridge_host::self_check::{CheckError, Checks, Severity, Verdict, check, is_unknown};
use bridge_host::version::TESTED_UP_TO;
use std::ffi::OsString;
use std::path::Path;

/// Id and title of this check.
const TOPIC: Topic = Topic("codex_check", "check of this codex");

/// Shows the verdict that the daemon goes by, or checks. Only a `--deep` check is remembered; it takes the place of the
/// verdict that is. `scratch` is a private directory.
pub(super) async fn look(
    loaded: &Loaded,
    environment: &Environment,
    (binary, env): (&Binary, Vec<(OsString, OsString)>),
    (state_dir, scratch): (Option<&Path>, &Path),
    deep: bool,
) -> Option<Check> {
    if !deep && !is_unknown(&binary.version) {
        return None;
    }
    let mut launch = match server::launch(loaded, binary, env, scratch) {
        Ok(launch) => launch,
        // The check of its configuration says it.
        Err(_) => return None,
    };
    launch.native = native(&launch, scratch).await;
    let kept = environment.state_dir(state_dir).ok();
    let kept = kept.filter(|root| root.exists());
    let kept = kept.map(|root| StateDir::existing(&root).codex_checks());
    Some(judge(verdict(&launch, kept, deep, scratch).await))
}

async fn verdict(
    launch: &LaunchOptions,
    kept: Option<Checks>,
    deep: bool,
    scratch: &Path,
) -> Result<Verdict, CheckError> {
    match kept {
        Some(checks) if deep => checks.check_again(launch).await,
        Some(checks) => match checks.verdict_of(launch) {
            Some(verdict) => Ok(verdict),
            None => check(launch, &scratch.join("check")).await,
        },
        None => check(launch, &scratch.join("check")).await,
    }
}

/// What a launcher runs in the end.
async fn native(launch: &LaunchOptions, scratch: &Path) -> Result<std::path::PathBuf, String> {
    let (codex, env) = (launch.codex.clone(), launch.env.clone());
    let scratch = scratch.join("launcher-of-check");
    let found = tokio::task::spawn_blocking(move || launcher::native_of(&codex, &env, &scratch));
    match found.await {
        Ok(found) => found.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

fn judge(found: Result<Verdict, CheckError>) -> Check {
    let lines = |verdict: &Verdict, severity: Severity| {
        let lines: Vec<_> = verdict
            .of(severity)
            .map(|found| found.what.as_str())
            .collect();
        lines.join("\n")
    };
    let verdict = match found {
        Ok(verdict) => verdict,
        Err(error) => {
            let fix = "a Codex newer than the tested ones is not started without it: try again, with less load on this machine";
            return TOPIC.fail(error.to_string(), fix);
        }
    };
    let version = &verdict.version;
    if !verdict.passed() {
        return TOPIC.fail(
            format!("{version} is not used:\n{}", lines(&verdict, Severity::Breaks)),
            format!("`npm install -g @openai/codex@{TESTED_UP_TO}`, or a newer codex-bridge; `codex-bridge doctor --deep` checks again"),
        );
    }
    if verdict.of(Severity::BlindSpot).next().is_some() {
        return TOPIC.warn(
            format!(
                "{version} passed; this bridge does not know all of it:\n{}",
                lines(&verdict, Severity::BlindSpot)
            ),
            "nothing has to be done; a newer codex-bridge may know it",
        );
    }
    TOPIC.ok(format!(
        "{version} passed: its schema, our settings, scripted turns and its history"
    ))
}
