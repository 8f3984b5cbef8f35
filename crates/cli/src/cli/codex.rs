//! `rehearse` and `upgrade-codex`: flags and help.

use super::OutputArgs;
use bridge_host::rehearsal::{CONVERSATIONS_DEFAULT, CONVERSATIONS_MAX};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    after_help = "It is checked by itself first, then the newest conversations are replayed on both: as many turns, commands and questions, texts of the same length without their words, and a scripted model. Each Codex has a CODEX_HOME of its own; no login is used. A version is installed with npm into the user's cache.\n\nExit codes: 0 nothing breaks; 1 something does, or it could not be tried\n\nExamples:\n  codex-bridge rehearse --codex 0.169.0\n  codex-bridge rehearse --codex ./codex --conversations 50 --json"
)]
pub(crate) struct RehearseArgs {
    /// The other Codex: its executable, or a version
    #[arg(long, value_name = "PATH|VERSION")]
    pub(crate) codex: String,
    /// The one to compare it with [default: the configured one]
    #[arg(long, value_name = "PATH")]
    pub(crate) old: Option<PathBuf>,
    /// How many conversations, the newest; 0 only checks
    #[arg(long, short = 'n', value_name = "N", default_value_t = CONVERSATIONS_DEFAULT, value_parser = clap::value_parser!(u32).range(0..=i64::from(CONVERSATIONS_MAX)))]
    pub(crate) conversations: u32,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "New turns go to the new Codex once it is checked; those that run end on the old one. When one of its first turns fails, the daemon goes back by itself. What was chosen here counts until another file lies at `codex.bin`."
)]
pub(crate) struct UpgradeCodexArgs {
    /// Which version, like 0.166.0; it is installed with npm into the state directory
    #[arg(
        value_name = "VERSION",
        required_unless_present = "rollback",
        conflicts_with = "rollback"
    )]
    pub(crate) codex_version: Option<String>,
    /// Go back to the Codex of before, of which a copy is kept
    #[arg(long)]
    pub(crate) rollback: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
