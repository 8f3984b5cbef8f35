//! The process at the other end of a local socket: whether it still lives, whether Codex started it, and which program
//! it is.
//!
//! The kernel says who called `connect()`. A socket outlives that process where it was inherited or passed on, and a pid
//! is used again. So a pidfd proves at the start whose pid and start time these are, and the process is looked at again
//! whenever something depends on it.

use crate::process::tree;
use crate::process::{self, Stat};
use bridge_core::value::ProcessStamp;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Appended by the kernel to the path of a program whose file was replaced, by an upgrade for example.
const DELETED: &str = " (deleted)";

/// Why nothing is taken from the process at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// It ended; somebody else may hold its socket.
    #[error(
        "the process that opened this connection has ended, so nobody knows who uses it now: open a connection from the process that makes the request, and keep that process alive"
    )]
    Gone,
    /// It has no pid here.
    #[error(
        "the process that opened this connection is in another pid namespace (a container, for example) and can't be looked at: use TCP with a token (`--listen`, `codex-bridge token add`)"
    )]
    NotVisible,
    /// The system does not say enough about it.
    #[error(
        "the process that opened this connection, or one above it, can't be looked at in /proc: call again, and if that does not help use TCP with a token (`--listen`, `codex-bridge token add`)"
    )]
    Unreadable,
    /// Codex started it.
    #[error(
        "this process was started by a Codex that this daemon runs, and what Codex runs does not control the bridge"
    )]
    Kept,
}

/// The process that opened a connection. It holds no descriptor, so that connections cost only their own.
#[derive(Debug)]
pub struct PeerProcess {
    stamp: ProcessStamp,
}

/// Which program a process runs. By its own account: a program can take any name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerProgram {
    /// The short name that the kernel keeps, at most 15 bytes of anything.
    pub name: String,
    /// Whether it is the program that we are.
    pub ours: Ours,
    /// Whether it has a controlling terminal.
    pub has_terminal: bool,
}

/// How a program is known to be ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ours {
    /// By its file.
    ByFile,
    /// By its name alone: its file can't be looked at, as that of our own daemon and `mcp`, which are not dumpable. Any
    /// program can do the same.
    ByName,
    /// It is another one.
    No,
}

impl PeerProcess {
    /// The process that called `connect()` for the other end of this socket.
    pub fn of(socket: &impl AsFd) -> Result<Self, PeerError> {
        let credentials = getsockopt(socket, sockopt::PeerCredentials);
        let pid = credentials.map_err(|_| PeerError::Unreadable)?.pid();
        if pid <= 0 {
            return Err(PeerError::NotVisible);
        }
        let pidfd = match getsockopt(socket, sockopt::PeerPidfd) {
            Ok(pidfd) => Some(pidfd),
            // A kernel before 6.5.
            Err(Errno::ENOPROTOOPT) => None,
            Err(Errno::ESRCH | Errno::EINVAL | Errno::ENODATA) => return Err(PeerError::Gone),
            Err(_) => return Err(PeerError::Unreadable),
        };
        let stamp = process::stamp(pid).ok_or(PeerError::Gone)?;
        // Last: while the process lives its pid is its own, so that the start time read before is its own too.
        if pidfd.is_none_or(|pidfd| is_alive(&pidfd)) {
            Ok(Self { stamp })
        } else {
            Err(PeerError::Gone)
        }
    }

    /// Looks at it now. An error unless it lives and no keeper below `run_dir` is above it.
    pub fn inspect(&self, run_dir: &Path) -> Result<PeerProgram, PeerError> {
        let kept = tree::is_kept(self.stamp.pid, run_dir);
        let program = PeerProgram::of(self.stamp.pid);
        // Last, for the same reason as above. No pid comes round again within one tick of the clock.
        if !process::alive(&self.stamp) {
            return Err(PeerError::Gone);
        }
        match (kept, program) {
            (Ok(true), _) => Err(PeerError::Kept),
            (Ok(false), Some(program)) => Ok(program),
            (Ok(false), None) | (Err(_), _) => Err(PeerError::Unreadable),
        }
    }
}

/// A pidfd can be read from when its process has ended.
fn is_alive(pidfd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::ZERO) == Ok(0)
}

impl PeerProgram {
    fn of(pid: i32) -> Option<Self> {
        let stat = Stat::read(pid)?;
        let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
        let name = String::from_utf8_lossy(&name).trim_end().to_owned();
        Some(Self {
            ours: Ours::of(pid, &name),
            has_terminal: stat.terminal != 0,
            name,
        })
    }
}

impl Ours {
    fn of(pid: i32, name: &str) -> Self {
        let own_name = fs::read_to_string("/proc/self/comm");
        let is_namesake = own_name.is_ok_and(|own| own.trim_end() == name);
        let file = program_of(&pid.to_string());
        Self::judge(program_of("self").as_deref(), file.as_deref(), is_namesake)
    }

    fn judge(own: Option<&Path>, file: Option<&Path>, is_namesake: bool) -> Self {
        match file {
            Some(_) if file == own => Self::ByFile,
            None if is_namesake => Self::ByName,
            Some(_) | None => Self::No,
        }
    }
}

fn program_of(pid: &str) -> Option<PathBuf> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let replaced = path.to_str().and_then(|path| path.strip_suffix(DELETED));
    Some(replaced.map_or_else(|| path.clone(), PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::{Command, Stdio};

    const NO_KEEPERS: &str = "/nonexistent/run";

    fn listener() -> (tempfile::TempDir, PathBuf, UnixListener) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        (dir, path, listener)
    }

    /// A process that connects and lives until its stdin ends.
    const CONNECTS: &str = "require('net').connect(process.argv[1]); process.stdin.on('end', () => process.exit()).resume()";

    #[test]
    fn f2_our_own_process_is_known() {
        let (_dir, path, listener) = listener();
        let _near = UnixStream::connect(&path).unwrap();
        let (far, _) = listener.accept().unwrap();
        let program = PeerProcess::of(&far)
            .unwrap()
            .inspect(Path::new(NO_KEEPERS));
        assert_eq!(program.unwrap().ours, Ours::ByFile);
    }

    #[test]
    fn f2_a_peer_that_ended_is_gone() {
        let (_dir, path, listener) = listener();
        let mut child = Command::new("node")
            .args(["-e", CONNECTS])
            .arg(&path)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let (far, _) = listener.accept().unwrap();
        let peer = PeerProcess::of(&far).unwrap();
        let program = peer.inspect(Path::new(NO_KEEPERS)).unwrap();
        assert_eq!((program.name.as_str(), program.ours), ("node", Ours::No));
        drop(child.stdin.take());
        child.wait().unwrap();
        let refused = peer.inspect(Path::new(NO_KEEPERS));
        assert_eq!(refused, Err(PeerError::Gone));
        let late = PeerProcess::of(&far).and_then(|peer| peer.inspect(Path::new(NO_KEEPERS)));
        assert_eq!(late, Err(PeerError::Gone), "also when it is asked for late");
    }

    /// A process that hides its file and takes our name is not recognised by its file.
    #[test]
    fn f2_hidden_executable_matches_by_name_only() {
        let (ours, other) = (Path::new("/bin/codex-bridge"), Path::new("/bin/sh"));
        let judge = |file, is_namesake| Ours::judge(Some(ours), file, is_namesake);
        assert_eq!(judge(Some(ours), true), Ours::ByFile);
        assert_eq!(judge(Some(other), true), Ours::No);
        assert_eq!(judge(None, true), Ours::ByName);
        assert_eq!(judge(None, false), Ours::No);
        assert_eq!(Ours::judge(None, None, true), Ours::ByName);
    }

    #[test]
    fn f2_a_reused_pid_is_another_process() {
        let own = i32::try_from(std::process::id()).unwrap();
        let mut stamp = process::stamp(own).unwrap();
        stamp.start_ticks += 1;
        let peer = PeerProcess { stamp };
        assert_eq!(peer.inspect(Path::new(NO_KEEPERS)), Err(PeerError::Gone));
    }
}
