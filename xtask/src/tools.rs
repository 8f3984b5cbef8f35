//! Programs that the tests and checks need beside Rust and Node.js, and how each gets
//! onto this machine: into `target/tools`, never into the system where that can be
//! avoided.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use bridge_host::binary::install;
use bridge_host::version::{PINNED, Version};

use crate::ci::{cargo, clean, run_command};
use crate::{a2a, kits};

/// The cargo-deny that `deny.toml` is written for.
const CARGO_DENY: &str = "0.20.2";

/// The oldest minor version (of 0.x) that reads the same `deny.toml`.
const CARGO_DENY_MINOR: u32 = 20;

/// The linker for old systems, from PyPI.
const ZIG: &str = "cargo-zigbuild==0.24.0 ziglang==0.17.0";

/// A program that comes as a Debian package.
#[derive(Debug, Clone, Copy)]
pub struct Package {
    /// Looked for on `PATH`.
    pub program: &'static str,
    /// Looked for here too: the directory has one of each version, with a `bin`.
    pub versions: Option<&'static str>,
    /// Written before the package is installed, unless it is there.
    pub setting: Option<Setting>,
    /// Installed if the program is missing.
    pub package: &'static str,
    /// Shown to who has to install it by hand.
    pub why: &'static str,
}

/// A file that tells a Debian package what not to do.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    pub path: &'static str,
    pub text: &'static str,
}

/// Debian's `createcluster.conf` includes this directory. A file of our own in it leaves that one to its package,
/// which would ask about changes.
const NO_CLUSTER: Setting = Setting {
    path: "/etc/postgresql-common/createcluster.d/codex-bridge.conf",
    text: "create_main_cluster = false",
};

/// What some test starts that neither Rust nor Node.js nor Codex brings along.
pub const PACKAGES: &[Package] = &[
    Package {
        program: "curl",
        versions: None,
        setting: None,
        package: "curl",
        why: "the guides call the HTTP API with it, and the tests run their snippets",
    },
    POSTGRES,
    CHROMIUM,
    Package {
        program: "tmux",
        versions: None,
        setting: None,
        package: "tmux",
        why: "tests drive Codex's terminal in it",
    },
    Package {
        program: "firefox-esr",
        versions: None,
        setting: None,
        package: "firefox-esr",
        why: "a test signs in to the console with it",
    },
    Package {
        program: "promtool",
        versions: None,
        setting: None,
        package: "prometheus",
        why: "the tests check the metrics and the alert rules with it",
    },
];

const CHROMIUM: Package = Package {
    program: "chromium",
    versions: None,
    setting: None,
    package: "chromium",
    why: "tests, pictures and the bench of the console drive it",
};

const POSTGRES: Package = Package {
    program: "postgres",
    versions: Some("/usr/lib/postgresql"),
    setting: Some(NO_CLUSTER),
    package: "postgresql",
    why: "tests and the bench start servers of their own with it",
};

/// What drives the console.
pub const FOR_BROWSERS: &[Package] = &[CHROMIUM];
/// What the bench's part for fleets starts.
pub const FOR_FLEETS: &[Package] = &[POSTGRES];

/// What makes an image and a system to try packages in. Bubblewrap is not among it: Codex prefers one on `PATH` to its own,
/// and Debian 12's fails the isolated turns of the tests.
pub const FOR_PACKAGES: &[Package] = &[Package {
    program: "mmdebstrap",
    versions: None,
    setting: None,
    package: "mmdebstrap",
    why: "makes a Debian for the image, and one to try packages in",
}];

/// What counts instructions.
pub const FOR_COUNTING: &[Package] = &[Package {
    program: "valgrind",
    versions: None,
    setting: None,
    package: "valgrind",
    why: "counts the instructions of the hot paths",
}];

/// The pinned Codex, installed if need be; its native executable.
///
/// # Errors
///
/// See [`install::InstallError`].
pub fn codex(root: &Path) -> anyhow::Result<PathBuf> {
    let version: Version = PINNED.parse()?;
    let path = install::install(&tools(root), &version, &[], &mut |line| eprintln!("{line}"))?;
    Ok(path)
}

/// The kits of others that judge our MCP server, installed if need be; their directory.
///
/// # Errors
///
/// See [`kits::mcp`].
pub fn mcp_kit(root: &Path) -> anyhow::Result<PathBuf> {
    kits::mcp(&tools(root))
}

/// What drives a browser over the console and checks its types, installed if need be; its directory.
///
/// # Errors
///
/// See [`kits::console`].
pub fn console_kit(root: &Path) -> anyhow::Result<PathBuf> {
    kits::console(&tools(root))
}

/// A Python with the official A2A SDK, installed if need be.
///
/// # Errors
///
/// See [`a2a::sdk`].
pub fn a2a_sdk(root: &Path) -> anyhow::Result<PathBuf> {
    a2a::sdk(&tools(root))
}

/// The directory of cargo-zigbuild and zig's Python, installed if need be: they link for old systems.
///
/// # Errors
///
/// See [`a2a::sdk`].
pub fn zig(root: &Path) -> anyhow::Result<PathBuf> {
    let python = a2a::environment(&tools(root).join("zig"), ZIG)?;
    let directory = python.parent().context("Python lies in no directory")?;
    Ok(directory.to_owned())
}

/// A cargo-deny that reads our `deny.toml`: the one on `PATH`, or one of our own.
///
/// # Errors
///
/// The build failed.
pub fn cargo_deny(root: &Path) -> anyhow::Result<PathBuf> {
    let own = tools(root).join("bin").join("cargo-deny");
    let on_path = on_path("cargo-deny");
    if let Some(found) = on_path
        .into_iter()
        .chain([own.clone()])
        .find(|path| is_usable(path))
    {
        return Ok(found);
    }
    eprintln!("building cargo-deny {CARGO_DENY}, once (about a minute on 2 cores)");
    run_command(&mut cargo_deny_build(root))?;
    let _ = fs::remove_dir_all(deny_target(root));
    Ok(own)
}

/// Without optimisation, and without the features for things we do not check: it runs
/// for a second and is built for a minute.
fn cargo_deny_build(root: &Path) -> Command {
    let mut command = cargo(root);
    command
        .args(["install", "cargo-deny", "--version", CARGO_DENY])
        .args(["--locked", "--no-default-features", "--force", "--quiet"])
        .arg("--root")
        .arg(tools(root))
        .arg("--target-dir")
        .arg(deny_target(root))
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    command
}

fn is_usable(deny: &Path) -> bool {
    let said = clean(Command::new(deny)).arg("--version").output();
    said.is_ok_and(|said| reads_our_config(&String::from_utf8_lossy(&said.stdout)))
}

fn reads_our_config(version: &str) -> bool {
    version
        .trim()
        .strip_prefix("cargo-deny 0.")
        .and_then(|rest| rest.split('.').next())
        .and_then(|minor| minor.parse::<u32>().ok())
        .is_some_and(|minor| minor >= CARGO_DENY_MINOR)
}

/// Installs the Debian packages whose programs are missing.
///
/// # Errors
///
/// Says what to install by hand where we may not do it.
pub fn packages(table: &[Package]) -> anyhow::Result<()> {
    let missing: Vec<&Package> = table.iter().filter(|package| !package.is_there()).collect();
    match missing.as_slice() {
        [] => Ok(()),
        missing => install(missing),
    }
}

/// Installs these Debian packages.
///
/// # Errors
///
/// Says what to install by hand where we may not do it.
pub(crate) fn install(missing: &[&Package]) -> anyhow::Result<()> {
    let names: Vec<&str> = missing.iter().map(|package| package.package).collect();
    let by_hand = by_hand(missing);
    if !is_root()? || on_path("apt-get").is_none() {
        bail!("{by_hand}");
    }
    for setting in missing.iter().filter_map(|package| package.setting) {
        setting.write().context(by_hand.clone())?;
    }
    run_command(apt_get().arg("update")).context(by_hand.clone())?;
    run_command(
        apt_get()
            .args(["install", "--yes", "--no-install-recommends"])
            .args(names),
    )
    .context(by_hand)
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command
        .env("DEBIAN_FRONTEND", "noninteractive")
        .arg("--quiet");
    command
}

fn by_hand(missing: &[&Package]) -> String {
    let mut text = "these programs are missing; install them and run again:".to_owned();
    for Package {
        program,
        package,
        why,
        setting,
        ..
    } in missing
    {
        text += &format!("\n  {program} ({why}): apt-get install {package}");
        if let Some(Setting { path, text: line }) = setting {
            text += &format!("; write `{line}` into {path} before, or Debian starts a server");
        }
    }
    text
}

impl Package {
    fn is_there(&self) -> bool {
        on_path(self.program).is_some() || self.versions.is_some_and(|home| self.is_in(home))
    }

    /// Versions are not on `PATH`.
    fn is_in(&self, home: &str) -> bool {
        let versions = fs::read_dir(home).into_iter().flatten().flatten();
        versions
            .map(|version| version.path().join("bin").join(self.program))
            .any(|program| program.is_file())
    }
}

impl Setting {
    fn write(&self) -> anyhow::Result<()> {
        let path = Path::new(self.path);
        if path.exists() {
            return Ok(());
        }
        let failed = || format!("cannot write {}", self.path);
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).with_context(failed)?;
        }
        fs::write(path, format!("{}\n", self.text)).with_context(failed)
    }
}

fn is_root() -> anyhow::Result<bool> {
    let said = Command::new("id")
        .arg("-u")
        .output()
        .context("cannot run `id -u`")?;
    Ok(said.stdout.trim_ascii() == b"0")
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
}

fn tools(root: &Path) -> PathBuf {
    root.join("target").join("tools")
}

fn deny_target(root: &Path) -> PathBuf {
    tools(root).join("cargo-deny-build")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_cargo_deny_is_not_used() {
        assert!(reads_our_config("cargo-deny 0.20.2\n"));
        assert!(reads_our_config("cargo-deny 0.21.0"));
        assert!(!reads_our_config("cargo-deny 0.14.2"));
        assert!(!reads_our_config("error: no such command"));
    }

    #[test]
    fn missing_tools_are_listed_with_reason() {
        let package = Package {
            program: "no-such-program-here",
            versions: None,
            setting: Some(NO_CLUSTER),
            package: "no-such-package-here",
            why: "the test of this function",
        };
        let said = by_hand(&[&package]);
        assert!(
            said.contains("no-such-program-here (the test of this function)"),
            "{said}"
        );
        assert!(
            said.contains("apt-get install no-such-package-here"),
            "{said}"
        );
        assert!(said.contains("create_main_cluster = false"), "{said}");
    }

    #[test]
    fn a_version_off_the_path_is_found() {
        let home = tempfile::tempdir().unwrap();
        let home_text = home.path().to_str().unwrap();
        let package = Package {
            program: "no-such-program-here",
            versions: None,
            setting: None,
            package: "no-such-package-here",
            why: "the test of this function",
        };
        assert!(!package.is_in(home_text) && !package.is_there());
        let programs = home.path().join("15/bin");
        fs::create_dir_all(&programs).unwrap();
        fs::write(programs.join(package.program), "").unwrap();
        assert!(package.is_in(home_text));
    }

    #[test]
    fn a_setting_that_exists_is_kept() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("made/setting.conf");
        let path: &'static str = path.to_str().unwrap().to_owned().leak();
        let write = |text| Setting { path, text }.write().unwrap();
        write("first");
        write("second");
        assert_eq!(fs::read_to_string(path).unwrap(), "first\n");
    }

    #[test]
    fn nothing_is_done_for_what_is_there() {
        let shell = Package {
            program: "sh",
            versions: None,
            setting: None,
            package: "no-such-package-here",
            why: "it is always there",
        };
        packages(&[shell]).unwrap();
    }
}
