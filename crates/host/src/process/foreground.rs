//! Runs a program of the system for a person, on their own terminal (`systemctl`, `journalctl`), until it ends.

use crate::process::tree;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus};
use tokio::signal::unix::{SignalKind, signal};

/// Runs it to its end; signals of the terminal reach it too.
pub fn run(program: &str, args: &[String]) -> io::Result<ExitStatus> {
    Command::new(program).args(args).status()
}

/// Runs a program that owns the terminal until it ends, in this directory and with this environment. A terminal that is
/// closed ends the program and not us: whoever started it has something left to do.
pub async fn run_attended(
    (program, args): (&Path, &[String]),
    directory: &Path,
    env: &[(OsString, OsString)],
) -> io::Result<ExitStatus> {
    // What the program starts stays below us, and is known as its work (`tree::is_kept`).
    tree::adopt_all()?;
    // Handlers, because a signal that is ignored stays ignored in the child.
    let mut closed = signal(SignalKind::hangup())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut quit = signal(SignalKind::quit())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let mut child = tokio::process::Command::new(program)
        .args(args)
        .current_dir(directory)
        .env_clear()
        .envs(env.iter().cloned())
        .spawn()?;
    loop {
        let passed_on = tokio::select! {
            ended = child.wait() => return ended,
            _ = interrupted.recv() => None,
            _ = quit.recv() => None,
            _ = closed.recv() => Some(Signal::SIGHUP),
            _ = terminated.recv() => Some(Signal::SIGTERM),
        };
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        if let (Some(signal), Some(pid)) = (passed_on, pid) {
            // It may have ended just now.
            let _gone = kill(Pid::from_raw(pid), signal);
        }
    }
}
