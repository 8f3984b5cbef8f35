//! `cargo xtask dist --check`: installs what `dist` made on a Debian with nothing but Debian. What happens in there is in
//! `check.sh`; here are the system around it and the model outside.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};

use super::build::Platform;
use super::product::Product;
use super::{Dist, deb, epoch, release};
use crate::ci::{cargo, run_command};
use crate::tools;

const SCRIPT: &str = include_str!("check.sh");
/// Where the system has Codex.
const CODEX: &str = "usr/local/lib/codex";
/// One migration more, for a debug build that is told of it.
const NEXT_SCHEMA: &str = "CREATE TABLE upgraded (id INTEGER PRIMARY KEY) STRICT;\n";

/// Installs, uses, upgrades and purges.
///
/// # Errors
///
/// Something in there did not go as it should; it was printed.
pub fn check(root: &Path, wanted: &Dist) -> anyhow::Result<()> {
    tools::packages(tools::FOR_PACKAGES)?;
    let Platform { target, debian, .. } = Platform::here()?;
    let version = release::version(root)?;
    let made = root.join("target/dist");
    let system = root.join("target/dist-check");
    if system.exists() {
        fs::remove_dir_all(&system)?;
    }
    install_debian(root, &system)?;
    let place = system.join("check");
    fs::create_dir(&place)?;
    let copy = |from: PathBuf, to: &str| {
        let failed = || {
            format!(
                "{} is missing; run `cargo xtask dist` first",
                from.display()
            )
        };
        fs::copy(&from, place.join(to)).with_context(failed)
    };
    copy(
        made.join(format!("codex-bridge_{version}_{debian}.deb")),
        "first.deb",
    )?;
    copy(
        made.join(format!("codex-bridge-{version}-{target}.tar.gz")),
        "tarball.tar.gz",
    )?;
    let binary = match &wanted.binary {
        Some(binary) => binary.clone(),
        None => root.join("target/dist-build/service/codex-bridge"),
    };
    let mut next = Product::read(root, &binary, &version, epoch(root)?)?;
    next.version = format!("{version}+next");
    fs::write(place.join("next.deb"), deb::package(&next, debian)?)?;
    fs::write(place.join("next.sql"), NEXT_SCHEMA)?;
    fs::write(
        place.join("next-env"),
        "CODEX_BRIDGE_NEXT_SCHEMA=/check/next.sql",
    )?;
    fs::write(place.join("check.sh"), SCRIPT)?;
    let home = root.join("target/dist-check-model");
    let mut model = model(root, &home)?;
    let ended = fs::copy(home.join("config.toml"), place.join("codex.toml"))
        .context("the model wrote no configuration")
        .and_then(|_| run_command(&mut enter(&system)));
    // Its end is that of its input.
    drop(model.stdin.take());
    model.wait()?;
    ended
}

/// The smallest Debian, with the pinned Codex where npm would link it.
fn install_debian(root: &Path, system: &Path) -> anyhow::Result<()> {
    let mut command = Command::new("mmdebstrap");
    command.args([
        "--quiet",
        "--variant=minbase",
        "--format=directory",
        "bookworm",
    ]);
    run_command(command.arg(system))?;
    let program = tools::codex(root)?;
    let vendor = program.parent().and_then(Path::parent);
    let vendor = vendor.context("the pinned Codex lies elsewhere than npm puts it")?;
    let codex = system.join(CODEX);
    let mut copy = Command::new("cp");
    run_command(copy.args(["-r", "--preserve=mode"]).arg(vendor).arg(&codex))?;
    let link = system.join("usr/local/bin/codex");
    std::os::unix::fs::symlink("../lib/codex/bin/codex", link)?;
    Ok(())
}

/// The script in the system, as its root, by the bubblewrap that Codex brings; only the network is that of this machine,
/// for the model.
fn enter(system: &Path) -> Command {
    let mut command = Command::new(system.join(CODEX).join("codex-resources/bwrap"));
    command
        .args(["--unshare-pid", "--unshare-ipc", "--die-with-parent"])
        .args(["--cap-add", "ALL", "--clearenv"])
        .args([
            "--setenv",
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        ])
        .args(["--setenv", "LC_ALL", "C.UTF-8", "--bind"])
        .arg(system)
        .args([
            "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run", "--tmpfs", "/tmp",
        ])
        .args(["/bin/sh", "/check/check.sh"]);
    command
}

fn model(root: &Path, home: &Path) -> anyhow::Result<Child> {
    let mut build = cargo(root);
    build.args([
        "build",
        "--package",
        "bridge-sim",
        "--bin",
        "scripted-model",
    ]);
    run_command(&mut build)?;
    let mut model = Command::new(root.join("target/debug/scripted-model"))
        .arg("--home")
        .arg(home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the scripted model")?;
    let said = model.stdout.take().context("the model has no output")?;
    let mut line = String::new();
    BufReader::new(said).read_line(&mut line)?;
    if line.trim().is_empty() {
        bail!("the scripted model did not start");
    }
    Ok(model)
}
