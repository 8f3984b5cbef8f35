//! `cargo xtask test`: everything that CI does, on a machine with Rust and Node.js.
//!
//! Which programs are fetched, and how, is `tools`; the rules of the tree are `tidy`.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::cli::{Fuzz, Plan, Schedules, Step};
use crate::matrix::{self, CODEX_BIN};
use crate::report::Report;
use crate::{a2a, kits, tidy, tools};

/// Variables of the caller that would make a test talk to a real platform, use a real
/// login or write into a real state directory.
pub(crate) const NOT_FOR_TESTS: [&str; 9] = [
    "CODEX_HOME",
    "OPENAI_API_KEY",
    "CODEX_API_KEY",
    "WORKSPACE_ID",
    "PLATFORM_URL",
    "MOLECULE_WORKSPACE_TOKEN",
    "CODEX_BRIDGE_STATE_DIR",
    "CODEX_BRIDGE_LISTEN",
    "CODEX_CHANNEL_MOLECULE_STATE_DIR",
];

/// Runs the chosen steps up to the first that fails, then prints what each took.
///
/// # Errors
///
/// Names the step that failed.
pub fn run(root: &Path, plan: &Plan) -> anyhow::Result<()> {
    let mut report = Report::default();
    let result = run_steps(root, plan, &mut report);
    eprintln!("\n{}", report.table());
    result
}

fn run_steps(root: &Path, plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    for step in &plan.steps {
        let name = step.name();
        match step {
            Step::Fmt => report.step(name, || fmt(root))?,
            Step::Tidy => report.step(name, || tidy::run(root))?,
            Step::Deny => {
                let deny = report.step("set up cargo-deny", || tools::cargo_deny(root))?;
                report.step(name, || check_dependencies(root, &deny))?;
            }
            Step::Clippy => report.step(name, || clippy(root))?,
            Step::Test => {
                report.step("set up packages", || tools::packages(tools::PACKAGES))?;
                let codex = report.step("set up codex", || tools::codex(root))?;
                let kit = report.step("set up MCP kit", || tools::mcp_kit(root))?;
                let console = report.step("set up console kit", || tools::console_kit(root))?;
                let python = report.step("set up A2A SDK", || tools::a2a_sdk(root))?;
                let outside = [
                    (CODEX_BIN, codex),
                    (kits::MCP_KIT, kit),
                    (kits::CONSOLE_KIT, console),
                    (a2a::A2A_SDK, python),
                ];
                report.step(name, || test(root, outside, &plan.test_args))?;
            }
            Step::Floor => matrix::floor(root, report, name)?,
            Step::Count => {
                report.step("set up valgrind", || tools::packages(tools::FOR_COUNTING))?;
                report.step(name, || count(root))?;
            }
        }
    }
    Ok(())
}

fn fmt(root: &Path) -> anyhow::Result<()> {
    run_command(cargo(root).args(["fmt", "--all", "--check"]))
}

fn clippy(root: &Path) -> anyhow::Result<()> {
    run_command(
        cargo(root)
            .args(["clippy", "--workspace", "--all-targets", "--"])
            .args(["-D", "warnings"]),
    )?;
    // As packages may build it: without the demo and its simulators.
    run_command(
        cargo(root)
            .args(["clippy", "--package", "codex-bridge"])
            .args(["--no-default-features", "--", "-D", "warnings"]),
    )
}

fn check_dependencies(root: &Path, deny: &Path) -> anyhow::Result<()> {
    let mut command = clean(Command::new(deny));
    command
        .current_dir(root)
        .args(["check", "--hide-inclusion-graph"])
        .args(["bans", "licenses", "sources"]);
    run_command(&mut command)
}

/// Tests that run at the same time, as the test harness takes it. Most of them wait for processes, so two cores bear
/// twice as many.
pub(crate) const TEST_THREADS: (&str, &str) = ("RUST_TEST_THREADS", "4");

/// `outside` are the programs of others that tests start, by the variables that name them.
fn test<const N: usize>(
    root: &Path,
    outside: [(&str, PathBuf); N],
    args: &[String],
) -> anyhow::Result<()> {
    let mut command = cargo(root);
    command.arg("test").args(packages_of(args)).args(args);
    for name in NOT_FOR_TESTS {
        command.env_remove(name);
    }
    let (threads, number) = TEST_THREADS;
    if std::env::var_os(threads).is_none() {
        command.env(threads, number);
    }
    run_command(command.envs(outside))
}

/// Counts the instructions of the hot paths, and fails where one costs more than its budget.
fn count(root: &Path) -> anyhow::Result<()> {
    run_command(
        cargo(root)
            .args(["run", "--release", "--package", "bridge-hot", "--"])
            .arg("count"),
    )
}

/// Plays the simulation of `bridge-core` at full speed.
pub fn simulate(root: &Path, schedules: Schedules) -> anyhow::Result<()> {
    let (name, number, test) = match schedules {
        Schedules::Many(seeds) => ("SEEDS", seeds, "every_seed_keeps_every_promise"),
        Schedules::One(seed) => ("SEED", seed, "one_seed"),
    };
    let mut command = cargo(root);
    command
        .args(["test", "--release", "--package", "bridge-core"])
        .args(["--test", "simulation", "--", "--exact", test, "--nocapture"])
        .env(name, number.to_string());
    run_command(&mut command)
}

/// Fuzzes the parsers with `crates/sim/tests/fuzz` at full speed. What it finds lies in `target/tmp/fuzz`.
pub fn fuzz(root: &Path, wanted: &Fuzz) -> anyhow::Result<()> {
    let seconds = wanted.minutes.saturating_mul(60);
    let mut command = cargo(root);
    command
        .args(["test", "--release", "--package", "bridge-sim"])
        .args(["--test", "fuzz", "--", "--exact", "explore", "--nocapture"])
        .env("FUZZ_SECONDS", seconds.to_string())
        .envs(wanted.target.as_ref().map(|name| ("FUZZ_TARGET", name)))
        .envs(wanted.seed.map(|seed| ("FUZZ_SEED", seed.to_string())));
    run_command(&mut command)
}

/// The whole workspace, unless the arguments choose packages themselves.
fn packages_of(args: &[String]) -> Option<&'static str> {
    let chosen = args
        .iter()
        .take_while(|arg| *arg != "--")
        .any(|arg| arg.starts_with("-p") || arg.starts_with("--package"));
    (!chosen).then_some("--workspace")
}

/// The cargo that runs us.
pub(crate) fn cargo(root: &Path) -> Command {
    let cargo = env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
    let mut command = clean(Command::new(cargo));
    command.current_dir(root);
    command
}

/// What `cargo run` tells us about xtask is not meant for the commands we run: some
/// build scripts watch it, and would build everything again.
pub(crate) fn clean(mut command: Command) -> Command {
    let ours = |name: &OsString| {
        name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        })
    };
    for (name, _) in env::vars_os().filter(|(name, _)| ours(name)) {
        command.env_remove(name);
    }
    command
}

/// Shows the command, runs it on our terminal, and fails if it does.
pub(crate) fn run_command(command: &mut Command) -> anyhow::Result<()> {
    let shown = show(command);
    eprintln!("$ {shown}");
    let status = command
        .status()
        .with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` ended with {status}");
    }
    Ok(())
}

fn show(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let words: Vec<_> = std::iter::once(name)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explicit_packages_replace_workspace() {
        let packages = |line: &str| {
            let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            packages_of(&args)
        };
        assert_eq!(packages("-p bridge-host find"), None);
        assert_eq!(packages("--package=bridge-host"), None);
        assert_eq!(packages("ledger -- -p"), Some("--workspace"));
        assert_eq!(packages(""), Some("--workspace"));
    }

    #[test]
    fn failed_command_reports_its_status() {
        let mut command = Command::new("/bin/sh");
        let error = run_command(command.args(["-c", "exit 7"])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`sh -c exit 7` ended with exit status: 7"
        );
    }
}
