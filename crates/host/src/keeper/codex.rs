//! The start and the end of Codex.
//!
//! A process of our own sets itself up and becomes Codex: that needs no unsafe code, which a step between fork and exec
//! would. The keeper is a subreaper: whatever Codex leaves behind, also in a session of its own, becomes the keeper's
//! child and is ended here.

use super::KeeperEvent;
use crate::locked;
use bridge_core::deadline::after;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long the sweep may take.
const SWEEP_DEADLINE: Duration = Duration::from_secs(5);
/// How often it looks again.
const SWEEP_PAUSE: Duration = Duration::from_millis(10);

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

/// The end of Codex and of the keeper's other children.
pub(super) struct Exit {
    code: Arc<Mutex<i32>>,
    /// Disconnects when the keeper has no child left.
    childless: mpsc::Receiver<()>,
}

impl Exit {
    pub(super) fn code(&self) -> i32 {
        *locked(&self.code)
    }
}

/// Reaps every child on a thread of its own, and reports when Codex is gone.
pub(super) fn watch(codex_pid: i32, events: SyncSender<KeeperEvent>) -> Exit {
    let code = Arc::new(Mutex::new(-1));
    let shared = Arc::clone(&code);
    let (alive, childless) = mpsc::sync_channel::<()>(1);
    std::thread::spawn(move || {
        let _alive = alive;
        loop {
            let (pid, exit) = match waitpid(None, None) {
                Ok(WaitStatus::Exited(pid, code)) => (pid, code),
                Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, 128 + signal as i32),
                Ok(_) | Err(Errno::EINTR) => continue,
                Err(_) => return,
            };
            if pid.as_raw() == codex_pid {
                *locked(&shared) = exit;
                // A closed inbox means the keeper is past caring.
                let _closed = events.send(KeeperEvent::Exited);
            }
        }
    });
    Exit { code, childless }
}

/// Sends a signal to Codex; it is our child, so its pid can't be a stranger's.
pub(super) fn signal(codex_pid: i32, signal: Signal) {
    let _gone = kill(Pid::from_raw(codex_pid), signal);
}

/// Kills Codex and everything below us, as far as it can be seen at once; [`sweep`] finds the rest.
pub(super) fn kill_all(codex_pid: i32) {
    let _gone = killpg(Pid::from_raw(codex_pid), Signal::SIGKILL);
    for below in crate::process::descendants(nix::unistd::getpid().as_raw()) {
        let _gone = kill(Pid::from_raw(below), Signal::SIGKILL);
    }
}

/// Ends whatever is left: Codex's group, and every child that the keeper has or inherits.
pub(super) fn sweep(codex_pid: i32, exit: &Exit) {
    let ours = nix::unistd::getpid().as_raw();
    let deadline = after(Instant::now(), SWEEP_DEADLINE);
    let _gone = killpg(Pid::from_raw(codex_pid), Signal::SIGKILL);
    while Instant::now() < deadline {
        for child in crate::process::children(ours) {
            let _gone = killpg(Pid::from_raw(child), Signal::SIGKILL);
            let _gone = kill(Pid::from_raw(child), Signal::SIGKILL);
        }
        match exit.childless.recv_timeout(SWEEP_PAUSE) {
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
            Ok(()) | Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
    }
}
