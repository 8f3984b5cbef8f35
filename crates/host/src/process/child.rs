//! Our own binary as a child process that can be killed: `drill` runs the daemon so. Codex is not started here; see
//! `keeper::launch`.

use crate::process;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::{Child, Command};

/// How our own binary is started.
#[derive(Debug)]
pub struct ChildOptions {
    /// The binary.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables that it gets beside ours.
    pub env: Vec<(OsString, OsString)>,
    /// Variables of ours that it must not get.
    pub without: Vec<OsString>,
    /// Where its log goes.
    pub log: File,
}

/// A child that runs our own binary. It is killed when it is dropped.
#[derive(Debug)]
pub struct ChildProcess {
    child: Child,
    pid: i32,
}

impl ChildProcess {
    /// Starts it.
    pub fn start(options: ChildOptions) -> io::Result<Self> {
        let mut command = Command::new(options.program);
        command
            .args(options.args)
            .envs(options.env)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(options.log)
            .kill_on_drop(true)
            // A Ctrl-C at the terminal is for its starter, which ends it in order.
            .process_group(0);
        for name in options.without {
            command.env_remove(name);
        }
        let child = command.spawn()?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.ok_or_else(|| io::Error::other("it ended at once"))?;
        Ok(Self { child, pid })
    }

    /// Its pid, its own until it was waited for.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Waits for its end.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Ends it without a warning, and waits until it is gone.
    pub async fn kill(&mut self) -> io::Result<()> {
        self.child.kill().await
    }

    /// Asks it to stop; kills it when it takes longer than `patience`. Gives how it ended, if by itself.
    pub async fn stop(&mut self, patience: Duration) -> io::Result<Option<ExitStatus>> {
        if self.child.id().is_some() {
            kill(Pid::from_raw(self.pid), Signal::SIGTERM)?;
        }
        match tokio::time::timeout(patience, self.child.wait()).await {
            Ok(ended) => ended.map(Some),
            Err(_elapsed) => {
                self.child.kill().await?;
                Ok(None)
            }
        }
    }
}

/// Adopts the processes of children that ended: while it lives, none escapes.
#[derive(Debug, Default)]
pub struct Orphans {
    known: BTreeSet<i32>,
}

impl Orphans {
    /// Takes in every process below this one whose parent ends.
    pub fn adopt_all() -> io::Result<Self> {
        nix::sys::prctl::set_child_subreaper(true)?;
        Ok(Self::default())
    }

    /// Our living children other than `own`, whom somebody else waits for. The dead among those seen before are laid to rest.
    pub fn living(&mut self, own: &[i32]) -> Vec<i32> {
        self.known.retain(|pid| {
            let rest = waitpid(Pid::from_raw(*pid), Some(WaitPidFlag::WNOHANG));
            rest.is_ok_and(|status| status == nix::sys::wait::WaitStatus::StillAlive)
        });
        let ours = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
        let found: Vec<i32> = process::children(ours)
            .into_iter()
            .filter(|pid| !own.contains(pid))
            .collect();
        self.known.extend(&found);
        found
    }
}

/// Kills a process that was alive a moment ago, without a warning; false when it was gone already.
pub fn kill_now(stamp: &bridge_core::value::ProcessStamp) -> bool {
    process::alive(stamp) && kill(Pid::from_raw(stamp.pid), Signal::SIGKILL).is_ok()
}
