//! `doctor`: looks at everything a first message needs, one thing after the other, and says what to do.
//!
//! It makes nothing that stays: where the state directory or CODEX_HOME is missing, a directory that is removed again
//! stands for it. A Codex is started for a moment, without logging it in; in a CODEX_HOME that exists it keeps its own
//! files, as at every start. What is looked at is in the modules beside this one; how it is shown is in [`report`].

mod channels;
mod codex;
mod database;
mod isolation;
mod report;
mod sandbox;
mod self_check;
mod server;
mod state;

use crate::cli::{Common, DoctorArgs};
use bridge_daemon::config::{Environment, Loaded, load};
pub(crate) use report::DoctorView;
use report::{DoctorReport, Topic};
pub(crate) use server::launch;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// Names Codex's directory to it.
const CODEX_HOME: &str = "CODEX_HOME";

/// Runs all checks and prints them. Succeeds only if nothing failed; warnings are not failures.
pub(crate) async fn run(args: DoctorArgs, common: &Common, environment: &Environment) -> ExitCode {
    let mut report = DoctorReport::start(args.output.json, environment.no_color());
    let deep = args.deep;
    let loaded = configuration(args, common, environment, &mut report);
    let state = state::prepare(
        environment,
        common.state_dir.as_deref(),
        &loaded.config,
        &mut report,
    )
    .await;
    let binary = codex::find(&loaded.config, environment, &mut report);
    if let Some(home) = loaded.codex_home() {
        report.add(codex::check_home(home, &environment.temporary_dirs()));
    }
    let scratch = state.and_then(|state| state::scratch(&state, &mut report));
    match (binary, scratch) {
        (Some(binary), Some(scratch)) => {
            let env = codex_env(&loaded, environment, scratch.path());
            let asked = server::check(&loaded, environment, &binary, env.clone(), scratch.path());
            for check in asked.await {
                report.add(check);
            }
            let codex = (&binary, env.clone());
            let places = (common.state_dir.as_deref(), scratch.path());
            self_check::look(&loaded, environment, codex, places, deep)
                .await
                .into_iter()
                .for_each(|check| report.add(check));
            let config = &loaded.config;
            report.add(sandbox::check(config, &binary, env.clone(), scratch.path()).await);
            report.add(isolation::check(&loaded, &binary, env, scratch.path()).await);
        }
        (None, _) | (_, None) => {
            for topic in [
                server::CONFIG,
                server::SETTINGS,
                server::LOGIN,
                sandbox::SANDBOX,
                isolation::ISOLATION,
            ] {
                let why = "not looked at: it needs a codex and a state directory";
                report.add(topic.warn(why, "mend what failed above first"));
            }
        }
    }
    codex::check_socket(bridge_host::app_server::socket_dir::obstacle())
        .into_iter()
        .for_each(|check| report.add(check));
    channels::check_molecule(&loaded.molecule, &mut report).await;
    channels::check_a2a(&loaded.config)
        .into_iter()
        .for_each(|check| report.add(check));
    report.finish()
}

/// The environment of Codex in these checks. A CODEX_HOME that does not exist yet is not made.
fn codex_env(
    loaded: &Loaded,
    environment: &Environment,
    scratch: &Path,
) -> Vec<(OsString, OsString)> {
    let mut env = environment.for_codex(&loaded.config);
    let is_missing = loaded.codex_home().is_none_or(|home| !home.exists());
    let stand_in = scratch.join("home");
    if is_missing && std::fs::create_dir(&stand_in).is_ok() {
        env.retain(|(name, _)| name != CODEX_HOME);
        env.push((CODEX_HOME.into(), stand_in.into()));
    }
    env
}

/// Reports a file that can't be used, and goes on with the defaults.
fn configuration(
    args: DoctorArgs,
    common: &Common,
    environment: &Environment,
    report: &mut DoctorReport,
) -> Loaded {
    let topic = Topic("config", "configuration");
    let state_dir = common.state_dir.as_deref();
    let loaded = load(common.config.as_deref(), environment, state_dir).and_then(|mut loaded| {
        loaded.override_with(args.codex.codex_bin.clone(), None)?;
        Ok(loaded)
    });
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(error) => {
            let fix = "mend it; `codex-bridge config check` looks at it again";
            report.add(topic.fail(error.to_string(), fix));
            let mut defaults = Loaded::without_file(environment, state_dir);
            defaults.config.codex.bin = args.codex.codex_bin.or(defaults.config.codex.bin);
            return defaults;
        }
    };
    let from = match &loaded.file {
        Some(file) => file.display().to_string(),
        None => "no file, defaults are in force".to_owned(),
    };
    report.add(match loaded.warnings.as_slice() {
        [] => topic.ok(from),
        warnings => {
            let detail = format!("{from}\n{}", warnings.join("\n"));
            topic.warn(detail, "make sure that this is what you want")
        }
    });
    loaded
}
