//! Builds the program for old systems, and takes its symbols into a file of their own.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::ci::{cargo, run_command};
use crate::tools;

/// A kind of machine, as everybody calls it who must.
#[derive(Debug, Clone, Copy)]
pub(super) struct Platform {
    /// Rust.
    pub(super) target: &'static str,
    /// Debian, and OCI.
    pub(super) debian: &'static str,
    /// Node.js.
    pub(super) node: &'static str,
}

impl Platform {
    /// This machine: the program is run to make its manual pages. aarch64 was never tried.
    pub(super) fn here() -> anyhow::Result<Self> {
        match env::consts::ARCH {
            "x86_64" => Ok(Self {
                target: "x86_64-unknown-linux-gnu",
                debian: "amd64",
                node: "x64",
            }),
            "aarch64" => Ok(Self {
                target: "aarch64-unknown-linux-gnu",
                debian: "arm64",
                node: "arm64",
            }),
            other => bail!("packages are made on x86_64 and aarch64, and this is {other}"),
        }
    }
}

/// The oldest glibc that the program runs on: that of RHEL 7. Without Rust's musl target this is what zig links against.
const GLIBC: &str = "2.17";
/// What cargo calls the features of a service: without `demo` and its simulators.
pub(super) const SERVICE: [&str; 2] = ["--no-default-features", "--features=console"];

/// A stripped program and its symbols.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) symbols: Option<PathBuf>,
}

/// Builds with these features, as optimized as it gets.
pub(super) fn program(
    root: &Path,
    name: &str,
    features: &[&str],
    epoch: u64,
) -> anyhow::Result<Program> {
    let zig = tools::zig(root)?;
    let rust_target = Platform::here()?.target;
    let target = root.join("target/dist-build");
    // Programs of the virtual environment: cargo-zigbuild, and the zig that it finds as a Python module.
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([zig].into_iter().chain(env::split_paths(&path)))?;
    let mut command = cargo(root);
    command
        .args([
            "zigbuild",
            "--locked",
            "--profile",
            "dist",
            "--package",
            "codex-bridge",
        ])
        .arg(format!("--target={rust_target}.{GLIBC}"))
        .arg("--target-dir")
        .arg(&target)
        .args(features)
        .env("PATH", path)
        .env("SOURCE_DATE_EPOCH", epoch.to_string())
        .env("CARGO_INCREMENTAL", "0")
        .env("RUSTFLAGS", remapped(root, "--remap-path-prefix="))
        .env("CFLAGS", remapped(root, "-ffile-prefix-map="));
    run_command(&mut command)?;
    split(
        &target.join(rust_target).join("dist/codex-bridge"),
        &target.join(name),
    )
}

/// Neither the checkout's place nor the builder's home is in the program: it is the same wherever it is built.
fn remapped(root: &Path, flag: &str) -> String {
    let cargo_home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo_home =
        cargo_home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let mut flags = vec![format!("{flag}{}=/codex-bridge", root.display())];
    flags.extend(cargo_home.map(|home| format!("{flag}{}=/cargo", home.display())));
    flags.join(" ")
}

/// Leaves the program without symbols and puts them beside it, where debuggers find them by its name.
fn split(built: &Path, to: &Path) -> anyhow::Result<Program> {
    fs::create_dir_all(to)?;
    let (path, symbols) = (to.join("codex-bridge"), to.join("codex-bridge.debug"));
    let mut objcopy = Command::new("objcopy");
    objcopy.args(["--only-keep-debug", "--compress-debug-sections"]);
    run_command(objcopy.arg(built).arg(&symbols))?;
    let mut strip = Command::new("strip");
    run_command(strip.arg("--strip-all").arg("-o").arg(&path).arg(built))?;
    let mut link = Command::new("objcopy");
    link.arg("--add-gnu-debuglink=codex-bridge.debug")
        .arg(&path)
        .current_dir(to);
    run_command(&mut link)?;
    Ok(Program {
        path,
        symbols: Some(symbols),
    })
}

/// The newest glibc that a program names a symbol of: on an older one it does not start.
pub(super) fn needs_glibc(program: &[u8]) -> anyhow::Result<String> {
    const MARK: &[u8] = b"GLIBC_2.";
    let minor = |at: usize| {
        let digits = program.get(at + MARK.len()..)?;
        let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
        std::str::from_utf8(&digits[..end])
            .ok()?
            .parse::<u32>()
            .ok()
    };
    let marks = program.windows(MARK.len()).enumerate();
    let found = marks.filter(|(_, window)| *window == MARK);
    let newest = found.filter_map(|(at, _)| minor(at)).max();
    let newest = newest.context("the program names no glibc")?;
    Ok(format!("2.{newest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_named_glibc_counts() {
        let program = b"\0GLIBC_2.2.5\0GLIBC_2.17\0GLIBC_2.9\0GLIBC_PRIVATE\0";
        assert_eq!(needs_glibc(program).unwrap(), "2.17");
        assert!(needs_glibc(b"static").is_err());
    }
}
