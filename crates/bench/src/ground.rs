//! What every part stands on: the programs that are measured, and how much of each is measured.

use crate::plan::Plan;
use std::path::PathBuf;

#[derive(Clone, Debug)]
pub(crate) struct Ground {
    pub(crate) plan: Plan,
    /// codex-bridge as it is installed.
    pub(crate) bridge: PathBuf,
    /// The native Codex.
    pub(crate) codex: PathBuf,
    /// npm's shim around it.
    pub(crate) shim: PathBuf,
    /// The browser's tools.
    pub(crate) console_kit: Option<PathBuf>,
}
