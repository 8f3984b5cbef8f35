//! The last step before Codex runs: a process that sets itself up and becomes Codex.
//!
//! Done in a step of its own, and not between fork and exec, so that no unsafe code is needed.

use nix::sys::signal::{SigSet, Signal};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Becomes Codex. Returns only when that failed.
pub fn exec_codex(codex: &Path, args: &[String]) -> io::Error {
    match prepare() {
        Ok(()) => Command::new(codex).args(args).exec(),
        Err(error) => error,
    }
}

fn prepare() -> io::Result<()> {
    nix::unistd::setsid()?;
    // If the keeper is killed, nobody is left to end Codex: the kernel does it.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    if nix::unistd::getppid().as_raw() == 1 {
        return Err(io::Error::other("the keeper is already gone"));
    }
    SigSet::empty().thread_set_mask()?;
    Ok(())
}
