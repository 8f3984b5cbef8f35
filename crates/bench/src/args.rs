//! The command line. `cargo xtask bench` writes it; people see only `--quick`, `--only` and `--against` of it.

use crate::cost::ancestor::Served;
use crate::plan::Part;
use clap::{Parser, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Parser)]
#[command(name = "bridge-bench", about)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) task: Task,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Measure, print the table, write the page
    Run(Measure),
    /// One message after the other through `codex exec`, as the ancestor did it
    #[command(hide = true)]
    Ancestor(Ancestor),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Measure {
    /// Small numbers, to see that it works; bars are shown and not judged, nothing is written
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these parts; their pictures are drawn beside the figures, and nothing else is written
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<Part>,
    /// Figures of an earlier run (JSON) that this one must agree with
    #[arg(long)]
    pub(crate) against: Option<PathBuf>,
    /// codex-bridge as it is installed
    #[arg(long)]
    pub(crate) bridge: PathBuf,
    /// The native Codex
    #[arg(long)]
    pub(crate) codex: PathBuf,
    /// npm's shim around it
    #[arg(long)]
    pub(crate) shim: PathBuf,
    /// Where the browser's tools were installed, for the part `console`
    #[arg(long)]
    pub(crate) console_kit: Option<PathBuf>,
    /// Where `benchmarks.md` and its plots are written
    #[arg(long)]
    pub(crate) docs: PathBuf,
    /// Where the figures are kept as JSON
    #[arg(long)]
    pub(crate) figures: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Ancestor {
    /// Where its sessions file and its working directory are
    #[arg(long)]
    pub(crate) state: PathBuf,
    /// The platform it reads
    #[arg(long)]
    pub(crate) platform: String,
    /// The workspaces that it serves, as ID:TOKEN
    #[arg(long)]
    pub(crate) workspace: Vec<Served>,
    #[arg(long)]
    pub(crate) codex: PathBuf,
}
