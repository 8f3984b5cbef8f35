//! The command `cargo xtask`: reads the arguments, runs one chore, says how it went.
//!
//! The chores themselves are in the library beside it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use xtask::cli::{self, Command};
use xtask::{a2a, bench, ci, dist, matrix, pictures, tidy, tools};

fn main() -> ExitCode {
    let command = match cli::parse(env::args().skip(1)) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("error: {error}\n\n{}", cli::HELP);
            return ExitCode::from(2);
        }
    };
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    let root = root()?;
    match command {
        Command::Help => {
            println!("{}", cli::HELP);
            Ok(())
        }
        Command::Test(plan) => ci::run(&root, &plan),
        Command::Tidy => tidy::run(&root),
        Command::Simulate(schedules) => ci::simulate(&root, schedules),
        Command::Fuzz(wanted) => ci::fuzz(&root, &wanted),
        Command::Bench(wanted) => bench::run(&root, &wanted),
        Command::Matrix(wanted) => matrix::run(&root, &wanted),
        Command::Dist(wanted) if wanted.check => dist::check(&root, &wanted),
        Command::Dist(wanted) => dist::run(&root, &wanted),
        Command::McpKit => {
            println!("{}", tools::mcp_kit(&root)?.display());
            Ok(())
        }
        Command::ConsoleKit => {
            println!("{}", tools::console_kit(&root)?.display());
            Ok(())
        }
        Command::Pictures => pictures::run(&root),
        Command::A2aKit(kits) => a2a::run(&root, &kits),
        Command::A2aSdk => {
            println!("{}", tools::a2a_sdk(&root)?.display());
            Ok(())
        }
        Command::Codex => {
            println!("{}", tools::codex(&root)?.display());
            Ok(())
        }
    }
}

/// The workspace we were built in: `cargo xtask` works from any directory below it.
fn root() -> anyhow::Result<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = own.parent().context("xtask has no parent directory")?;
    Ok(root.to_owned())
}
