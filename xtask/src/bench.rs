//! `cargo xtask bench`: builds everything as it is installed, sets the pinned Codex up, and starts `bridge-bench`.
//!
//! What is measured, what must hold and how it is shown is in `crates/bench`.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::ci::{NOT_FOR_TESTS, cargo, clean, run_command};
use crate::cli::{Bench, Length};
use crate::tools;

/// npm's own `codex`, beside which the native one lies somewhere deeper.
const SHIM: &str = "node_modules/@openai/codex/bin/codex.js";

/// The part that starts a PostgreSQL.
const FLEET: &str = "fleet";
/// The part that drives a browser.
const CONSOLE: &str = "console";

/// Fails where a bar is missed.
///
/// # Errors
///
/// Where something cannot be built or set up, or the bench says so.
pub fn run(root: &Path, bench: &Bench) -> anyhow::Result<()> {
    let measures = |name: &str| {
        let only = bench.only.as_ref();
        only.is_none_or(|parts| parts.split(',').any(|part| part == name))
    };
    if measures(FLEET) {
        tools::packages(tools::FOR_FLEETS)?;
    }
    let kit = match measures(CONSOLE) {
        true => {
            tools::packages(tools::FOR_BROWSERS)?;
            Some(tools::console_kit(root)?)
        }
        false => None,
    };
    let codex = tools::codex(root)?;
    let shim = codex.ancestors().map(|above| above.join(SHIM));
    let shim = shim.into_iter().find(|path| path.is_file());
    let shim = shim.context("the pinned Codex has no npm shim")?;
    run_command(cargo(root).args([
        "build",
        "--profile=dist",
        "--package=codex-bridge",
        "--package=bridge-bench",
        "--bins",
    ]))?;
    let kept = root.join("target/bench");
    std::fs::create_dir_all(&kept)?;
    let built = root.join("target/dist");
    let mut command = clean(std::process::Command::new(built.join("bridge-bench")));
    command.arg("run");
    let places: [(&str, PathBuf); 5] = [
        ("--bridge", built.join("codex-bridge")),
        ("--codex", codex),
        ("--shim", shim),
        ("--docs", root.join("docs")),
        ("--figures", kept.join("figures.json")),
    ];
    for (flag, path) in places {
        command.arg(flag).arg(path);
    }
    if let Some(kit) = kit {
        command.arg("--console-kit").arg(kit);
    }
    if bench.length == Length::Quick {
        command.arg("--quick");
    }
    for (flag, value) in [("--only", &bench.only), ("--against", &bench.against)] {
        if let Some(value) = value {
            command.args([flag, value]);
        }
    }
    for name in NOT_FOR_TESTS {
        command.env_remove(name);
    }
    run_command(&mut command)
}
