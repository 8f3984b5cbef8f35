//! Where the kits of others are: `cargo xtask test` (or `cargo xtask mcp-kit`) installs them. Without them these tests
//! fail; a test that silently did not run proves nothing.

use crate::world::{Ended, Running};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::process::Command;

/// Names the kit to use instead of the installed one.
const VAR: &str = "CODEX_BRIDGE_MCP_KIT";

pub(crate) struct Kit(PathBuf);

impl Kit {
    pub(crate) fn find() -> Self {
        let named = std::env::var_os(VAR).filter(|value| !value.is_empty());
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let installed = here.ancestors().map(|dir| dir.join("target/tools/mcp-kit"));
        let found = named.map(PathBuf::from).into_iter().chain(installed);
        let found = found.into_iter().find(|kit| kit.join("kit.json").is_file());
        match found {
            Some(kit) => Self(kit),
            None => {
                panic!("no MCP kit ({VAR}, then target/tools/mcp-kit): run `cargo xtask mcp-kit`")
            }
        }
    }

    /// The Inspector on its command line. It writes into a home directory.
    pub(crate) async fn inspector(&self, home: &Path, args: &[&str]) -> Ended {
        let script = "@modelcontextprotocol/inspector/clients/launcher/build/index.js";
        let mut all = vec!["--cli"];
        all.extend(args);
        let mut command = self.node(home);
        command.arg(self.script(script)).args(&all);
        Running::of(command).ended().await
    }

    /// The conformance suite; `preload` puts the token on its requests.
    pub(crate) async fn conformance(
        &self,
        home: &Path,
        preload: &str,
        token: &str,
        args: &[&str],
    ) -> Ended {
        let script = "@modelcontextprotocol/conformance/dist/index.js";
        let mut command = self.node(home);
        command
            .args(["--import", preload])
            .arg(self.script(script))
            .args(args)
            .env("MCP_KIT", &self.0)
            .env("MCP_TOKEN", token);
        Running::of(command).ended().await
    }

    fn script(&self, name: &str) -> PathBuf {
        self.0.join("node_modules").join(name)
    }

    fn node(&self, home: &Path) -> Command {
        let mut command = Command::new(self.program());
        command
            .env("HOME", home)
            .current_dir(home)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// The only Node.js package in the kit.
    fn program(&self) -> PathBuf {
        let modules = self.0.join("node_modules");
        let names = std::fs::read_dir(&modules).unwrap().flatten();
        let mut node =
            names.filter(|entry| entry.file_name().to_string_lossy().starts_with("node-"));
        let found = node
            .find_map(|entry| Some(entry.path().join("bin/node")).filter(|path| path.is_file()));
        found.unwrap_or_else(|| panic!("no Node.js in {}", modules.display()))
    }
}
