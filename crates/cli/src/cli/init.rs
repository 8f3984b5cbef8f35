//! The arguments of `init`.

use super::{CodexBinArg, WorkdirArg};
use clap::Args;

#[derive(Debug, Args)]
#[command(
    after_help = "A configuration that exists is never overwritten; --config FILE writes another one. With --yes the keys of codex-bridge.toml keep their defaults: no port, no platform, no service.\n\nExit codes: 0 it is written, and doctor found nothing wrong; 1 nothing was written, or doctor found something; 130 you left, and nothing was written\n\nExamples:\n  codex-bridge init\n  codex-bridge init --yes --workdir ~/project"
)]
pub(crate) struct InitArgs {
    /// Ask nothing; for scripts
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) codex: CodexBinArg,
    #[command(flatten)]
    pub(crate) workdir: WorkdirArg,
}
