//! `cargo xtask a2a-kit`: the official A2A conformance kits against a daemon with the real Codex and a scripted model.
//!
//! The kits are not ours and not here: the caller says where they lie, and copies of them run in `target/tools`.

mod python;
mod stand;
mod verdict;
mod waivers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::tools;
use stand::Stand;

pub(crate) use python::environment;
pub use python::{A2A_SDK, sdk};

/// The bindings that we have.
const TRANSPORTS: &str = "jsonrpc,http_json";

/// Which kits to run, and how much of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kits {
    /// A checkout of branch `1.0-dev` of a2aproject/a2a-tck.
    pub kit: Option<PathBuf>,
    /// A checkout of its branch `0.3.x`.
    pub kit_03: Option<PathBuf>,
    /// Bindings for the 1.0 kit.
    pub transport: Option<String>,
    /// Added to the 1.0 kit's pytest.
    pub pytest: Vec<String>,
}

/// Runs the kits and prints what they found.
///
/// # Errors
///
/// A requirement with MUST failed that no waiver names, or a kit could not be run.
pub fn run(root: &Path, kits: &Kits) -> anyhow::Result<()> {
    let tools_dir = root.join("target").join("tools");
    let codex = tools::codex(root)?;
    let python = python::kit(&tools_dir)?;
    stand::build(root)?;
    let mut failed = Vec::new();
    if let Some(kit) = &kits.kit {
        let place = copy_of(kit, &tools_dir.join("a2a-kit-1.0"))?;
        let stand = Stand::start(root, &codex)?;
        let report = run_10(&python, &place, &stand, kits)?;
        stand.stop()?;
        failed.extend(verdict::judge_10(&report)?);
    }
    if let Some(kit) = &kits.kit_03 {
        let place = copy_of(kit, &tools_dir.join("a2a-kit-0.3"))?;
        let stand = Stand::start(root, &codex)?;
        let report = run_03(&python, &place, &stand)?;
        stand.stop()?;
        failed.extend(verdict::judge_03(&report)?);
    }
    match failed.as_slice() {
        [] => Ok(()),
        some => bail!("{} required and failed: {}", some.len(), some.join(", ")),
    }
}

/// Its own exit status counts what is optional too, so it is not asked.
fn run_10(python: &Path, kit: &Path, stand: &Stand, kits: &Kits) -> anyhow::Result<PathBuf> {
    let transport = kits.transport.as_deref().unwrap_or(TRANSPORTS);
    let mut command = at(python, kit, stand);
    command
        .args(["--sut-host", &stand.base(), "--transport", transport, "--"])
        .args(["--webhook-host", "localhost"])
        .args(&kits.pytest);
    run_kit(command, &kit.join("reports/compatibility.json"))
}

fn run_03(python: &Path, kit: &Path, stand: &Stand) -> anyhow::Result<PathBuf> {
    let mut command = at(python, kit, stand);
    command
        .args(["--sut-url", &format!("{}/a2a", stand.base())])
        .args(["--category", "mandatory", "--transports", "jsonrpc"])
        .env(
            "PYTEST_ADDOPTS",
            "-p known_port --json-report --json-report-file=reports/mandatory.json",
        );
    run_kit(command, &kit.join("reports/mandatory.json"))
}

fn at(python: &Path, kit: &Path, stand: &Stand) -> Command {
    let mut command = Command::new(python);
    command
        .arg("run_tck.py")
        .current_dir(kit)
        .env("PYTHONPATH", stand.plugins())
        .env("PYTEST_ADDOPTS", "-p known_port")
        .env("TCK_WEBHOOK_PORT", stand.webhook_port().to_string());
    command
}

fn run_kit(mut command: Command, report: &Path) -> anyhow::Result<PathBuf> {
    if report.exists() {
        fs::remove_file(report)?;
    }
    let status = command.status().context("cannot start the kit")?;
    if !report.is_file() {
        bail!(
            "the kit ended with {status} and wrote no {}",
            report.display()
        );
    }
    Ok(report.to_owned())
}

/// A kit writes reports where it lies, which is not for us to do in somebody's checkout.
fn copy_of(kit: &Path, place: &Path) -> anyhow::Result<PathBuf> {
    if !kit.join("run_tck.py").is_file() {
        bail!("{} is no A2A kit: it has no run_tck.py", kit.display());
    }
    if place.exists() {
        fs::remove_dir_all(place)?;
    }
    copy(kit, place).with_context(|| format!("copy {} to {}", kit.display(), place.display()))?;
    Ok(place.to_owned())
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let hidden = name.to_string_lossy().starts_with('.');
        let (source, copied) = (entry.path(), to.join(&name));
        if entry.file_type()?.is_dir() && !hidden {
            copy(&source, &copied)?;
        } else if entry.file_type()?.is_file() {
            fs::copy(&source, &copied)?;
        }
    }
    Ok(())
}
