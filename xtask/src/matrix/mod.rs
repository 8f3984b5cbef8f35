//! `cargo xtask matrix`: the same core of the suite on many versions of the real Codex, and the page that says how it
//! went. Which versions is `registry`, which tests is `core`, what is written is `page`.

mod core;
mod page;
mod registry;

use crate::ci::{NOT_FOR_TESTS, TEST_THREADS, cargo, run_command};
use crate::report::Report;
use anyhow::{Context, bail};
use bridge_host::binary::install;
use bridge_host::version::{FLOOR, Version};
use core::{CORE, Counts, Outcomes, TRAITS};
use page::Tested;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Names the Codex that the tests start.
pub(crate) const CODEX_BIN: &str = "CODEX_BRIDGE_CODEX_BIN";
/// The page, below the root.
const PAGE: &str = "docs/codex-versions.md";
/// The comparison of the schema.
const FITS: &str = "our_types_fit_the_installed_codex";
/// What begins a line of the schema test that names a difference.
const DIFFERS: &str = "differs: ";

/// What is run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matrix {
    /// These versions; those that the registry has unless told.
    pub versions: Vec<String>,
    /// The short core.
    pub short: bool,
}

/// Runs the core on each version. Only a run of the whole core on the versions that the registry has writes the page.
///
/// # Errors
///
/// Names the versions on which something failed.
pub fn run(root: &Path, wanted: &Matrix) -> anyhow::Result<()> {
    let (versions, released) = versions(wanted)?;
    build(root)?;
    let mut tested = Vec::new();
    for version in versions {
        let row = test(root, &version, wanted.short, &released)
            .with_context(|| format!("codex {version} could not be tested"))?;
        eprintln!("\n{}", page::row(&row));
        tested.push(row);
    }
    let text = page::page(&tested);
    if wanted.versions.is_empty() && !wanted.short {
        let path = root.join(PAGE);
        fs::write(&path, &text).with_context(|| format!("cannot write {}", path.display()))?;
    } else {
        println!("{text}");
    }
    let failed: Vec<String> = tested
        .iter()
        .filter(|row| !row.passed())
        .map(|row| row.version.to_string())
        .collect();
    if failed.is_empty() {
        return Ok(());
    }
    bail!("something failed on codex {}", failed.join(", "))
}

/// The step of CI: the short core on the oldest version that is supported.
///
/// # Errors
///
/// Names what failed.
pub(crate) fn floor(root: &Path, report: &mut Report, name: &str) -> anyhow::Result<()> {
    report.step("set up oldest codex", || install(root, &FLOOR))?;
    let floor = Matrix {
        versions: vec![FLOOR.to_string()],
        short: true,
    };
    report.step(name, || run(root, &floor))
}

fn versions(wanted: &Matrix) -> anyhow::Result<(Vec<Version>, BTreeMap<Version, String>)> {
    if wanted.versions.is_empty() {
        let released = registry::released()?;
        return Ok((registry::choose(released.keys().cloned())?, released));
    }
    let parsed = wanted.versions.iter().map(|text| {
        text.parse::<Version>()
            .with_context(|| format!("`{text}` is no version"))
    });
    let versions = parsed.collect::<anyhow::Result<_>>()?;
    Ok((versions, BTreeMap::new()))
}

/// Beside the pinned one, which plain `cargo test` finds as the newest in its directory.
fn install(root: &Path, version: &Version) -> anyhow::Result<PathBuf> {
    let tools = root.join("target/tools/matrix");
    let path = install::install(&tools, version, &[], &mut |line| eprintln!("{line}"))?;
    Ok(path)
}

/// Once, so that no version pays for it.
fn build(root: &Path) -> anyhow::Result<()> {
    run_command(cargo(root).args(["build", "--package", "bridge-sim", "--bins"]))?;
    run_command(cargo(root).args(SUITE).arg("--no-run"))?;
    run_command(cargo(root).args(SCHEMA).arg("--no-run"))
}

const SUITE: [&str; 5] = ["test", "--package", "codex-bridge", "--test", "suite"];
const SCHEMA: [&str; 5] = ["test", "--package", "bridge-codex", "--test", "schema"];

fn test(
    root: &Path,
    version: &Version,
    short: bool,
    released: &BTreeMap<Version, String>,
) -> anyhow::Result<Tested> {
    let codex = install(root, version)?;
    let logs = root.join("target/matrix");
    fs::create_dir_all(&logs)?;
    let run = Run {
        root,
        codex: &codex,
        log: logs.join(format!("{version}.log")),
    };
    fs::write(&run.log, "")?;
    let names = CORE.iter().flat_map(|group| group.tests(short));
    let names: Vec<&str> = names.copied().collect();
    let mut outcomes = Outcomes::of(&run.cargo_test(&SUITE, &names, None)?);
    // Other work on the machine must not decide: what failed is tried once more, alone.
    let failed = outcomes.failed(&names);
    if !failed.is_empty() {
        let again = Outcomes::of(&run.cargo_test(&SUITE, &failed, Some("1"))?);
        outcomes.try_again(&again);
    }
    let probes: Vec<&str> = TRAITS.iter().map(|one| one.test).collect();
    let probed = Outcomes::of(&run.cargo_test(&SUITE, &probes, Some("1"))?);
    let compared = run.cargo_test(&SCHEMA, &[FITS, "--nocapture"], None)?;
    let differences = compared
        .lines()
        .filter_map(|line| line.strip_prefix(DIFFERS));
    let differences = differences.map(str::to_owned).collect();
    Ok(Tested {
        version: version.clone(),
        released: released.get(version).cloned(),
        tested: jiff::Zoned::now().date().to_string(),
        counts: CORE
            .iter()
            .map(|group| Counts::of(&outcomes, group.tests(short)))
            .collect(),
        traits: probes
            .iter()
            .map(|probe| probed.failed(&[probe]).is_empty())
            .collect(),
        failed: outcomes
            .failed(&names)
            .into_iter()
            .map(str::to_owned)
            .collect(),
        fits: Outcomes::of(&compared).failed(&[FITS]).is_empty(),
        differences,
    })
}

/// The tests of one version.
struct Run<'a> {
    root: &'a Path,
    codex: &'a Path,
    log: PathBuf,
}

impl Run<'_> {
    /// Runs these tests and gives what they print. A failure is in the output; a test that does not exist is not.
    fn cargo_test(
        &self,
        what: &[&str],
        names: &[&str],
        threads: Option<&str>,
    ) -> anyhow::Result<String> {
        let mut command = cargo(self.root);
        command
            .args(what)
            .args(["--", "--exact"])
            .args(names)
            .env(CODEX_BIN, self.codex)
            .stderr(Stdio::null());
        for name in NOT_FOR_TESTS {
            command.env_remove(name);
        }
        let (variable, usual) = TEST_THREADS;
        match threads {
            Some(threads) => command.env(variable, threads),
            None if std::env::var_os(variable).is_none() => command.env(variable, usual),
            None => &mut command,
        };
        let output = command.output().context("cannot start cargo")?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut log = fs::read_to_string(&self.log)?;
        log.push_str(&said);
        fs::write(&self.log, log)?;
        Ok(said)
    }
}
