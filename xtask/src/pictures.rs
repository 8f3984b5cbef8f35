//! `cargo xtask pictures`: the pictures of the console's guide, taken in a browser from what `demo --keep` leaves.

use std::path::Path;

use crate::ci::{cargo, clean, run_command};
use crate::{kits, tools};

const SCRIPT: &str = "crates/front/console-tests/screenshots.mjs";
const PLACE: &str = "docs/guides/console";

/// Replaces the pictures of every screen.
///
/// # Errors
///
/// Something cannot be built or set up, or a screen does not come.
pub fn run(root: &Path) -> anyhow::Result<()> {
    tools::packages(tools::FOR_BROWSERS)?;
    let kit = tools::console_kit(root)?;
    let codex = tools::codex(root)?;
    run_command(cargo(root).args(["build", "--package=codex-bridge"]))?;
    let mut node = clean(std::process::Command::new(kits::node_of(&kit)?));
    node.current_dir(root)
        .args([SCRIPT, PLACE])
        .env("CONSOLE_KIT", &kit)
        .env("CONSOLE_DEMO", root.join("target/debug/codex-bridge"))
        .env("CODEX_BRIDGE_CODEX_BIN", codex);
    run_command(&mut node)
}
