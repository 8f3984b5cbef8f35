//! Runs a program of the system for a person, on their own terminal (`systemctl`, `journalctl`), until it ends.

use std::io;
use std::process::{Command, ExitStatus};

/// Runs it to its end; signals of the terminal reach it too.
pub fn run(program: &str, args: &[String]) -> io::Result<ExitStatus> {
    Command::new(program).args(args).status()
}
