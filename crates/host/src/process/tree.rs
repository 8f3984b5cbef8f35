//! Whether a process was started by a Codex of ours: such a process must not control the bridge that controls it.
//!
//! A keeper is a subreaper, so nothing that Codex starts gets out from under it by forking. The daemon is one, too: the
//! children of a killed keeper become the daemon's ([`adopt_all`]), and [`reap`] waits for the dead among them, because
//! nobody else does. A keeper begins a session of its own before it starts Codex, and nobody can join a session that
//! exists: whatever is below the daemon in another session came from a keeper.
//!
//! An ancestor that can't be read never counts as a stranger.

use crate::process::{self, Stat};
use bridge_core::value::ProcessStamp;
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Ancestors that are looked at; nobody nests processes deeper.
const ANCESTORS_MAX: usize = 256;
/// Bytes of an argument vector that are read; a keeper's flags come first.
const ARGS_MAX_BYTES: usize = 8 * 1024;
/// How often the ancestors are read when one of them ends meanwhile. A busy shell needs two readings at most.
const WALKS_MAX: usize = 4;

/// The program that lends a thread to Codex's terminal, and its commands that do.
const PROGRAM: &[u8] = b"codex-bridge";
const LEND_COMMANDS: [&[u8]; 2] = [b"lend", b"open"];

/// Ancestors of a process ended or changed each time they were read, or can't be read at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ancestors of the process can't be read")]
pub struct AncestryUnreadable;

/// Whether `pid` or one of its ancestors is a keeper whose directory is below `run_dir`, or was below one that ended. What
/// runs below `codex-bridge lend` is Codex's as well: the terminal that it started.
pub fn is_kept(pid: i32, run_dir: &Path) -> Result<bool, AncestryUnreadable> {
    (0..WALKS_MAX)
        .find_map(|_| walk(pid, run_dir))
        .ok_or(AncestryUnreadable)
}

/// One walk up the ancestors; `None` when one of them ended or changed while it was read.
fn walk(pid: i32, run_dir: &Path) -> Option<bool> {
    let own = own()?;
    let (asked, mut pid) = (pid, pid);
    let mut stat = living(pid)?;
    for _ in 0..ANCESTORS_MAX {
        let args = arguments(pid)?;
        let keeper = keeps(&args, run_dir) || pid != asked && lends(&args);
        let parent = match stat.parent {
            // Process 1 is no keeper, and 0 is outside of our namespace.
            i32::MIN..=1 => None,
            parent => Some((parent, living(parent))),
        };
        // Pids are used again: only if the process is still the same and has the same parent, the arguments were its
        // own and `parent` is its parent.
        let again = living(pid)?;
        if again != stat {
            return None;
        }
        if keeper || is_adopted(&stat, own) {
            return Some(true);
        }
        (pid, stat) = match parent {
            None => return Some(false),
            Some((parent, Some(stat))) => (parent, stat),
            Some((parent, None)) => return Hidden::look(parent, pid).is_strangers(),
        };
    }
    // No operator has so many ancestors.
    Some(true)
}

fn living(pid: i32) -> Option<Stat> {
    Stat::read(pid).filter(|stat| !stat.zombie)
}

/// A parent that can't be read: where `/proc` is mounted with `hidepid`, processes of other users are hidden. A keeper
/// runs as we do; but a set-uid program that Codex runs does not, and a keeper may be above it.
struct Hidden {
    is_of_another_user: bool,
    /// Its child is in another control group than the daemon, where only the system's login puts it: what the daemon
    /// starts stays in its own.
    is_in_another_group: bool,
    /// It is above the daemon too: both are of the same login.
    is_above_us: bool,
}

impl Hidden {
    fn look(pid: i32, child: i32) -> Self {
        let group = |of: &str| fs::read(format!("/proc/{of}/cgroup")).ok();
        let (own, theirs) = (group("self"), group(&child.to_string()));
        Self {
            is_of_another_user: kill(Pid::from_raw(pid), None) == Err(Errno::EPERM),
            is_in_another_group: own.is_some() && theirs.is_some() && own != theirs,
            is_above_us: hidden_above_us() == Some(pid),
        }
    }

    /// `Some(false)` where no keeper can be above it; `None` where nobody knows.
    fn is_strangers(&self) -> Option<bool> {
        let is_login = self.is_in_another_group || self.is_above_us;
        (self.is_of_another_user && is_login).then_some(false)
    }
}

/// The first ancestor of this process that can't be read.
fn hidden_above_us() -> Option<i32> {
    let mut pid = i32::try_from(std::process::id()).ok()?;
    for _ in 0..ANCESTORS_MAX {
        match living(pid) {
            None => return Some(pid),
            Some(stat) if stat.parent <= 1 => return None,
            Some(stat) => pid = stat.parent,
        }
    }
    None
}

fn arguments(pid: i32) -> Option<Vec<u8>> {
    let mut args = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    args.truncate(ARGS_MAX_BYTES);
    // A process that is being killed has none any more, and still has its children for a moment.
    (!args.is_empty()).then_some(args)
}

/// As a person starts it: `codex-bridge … lend …`, or by its other name.
fn lends(args: &[u8]) -> bool {
    let mut args = args.split(|byte| *byte == 0);
    let program = args.next().unwrap_or_default();
    program.ends_with(PROGRAM) && args.any(|arg| LEND_COMMANDS.contains(&arg))
}

/// As `keeper::launch` starts it: `PROGRAM keeper --directory DIR …`.
fn keeps(args: &[u8], run_dir: &Path) -> bool {
    let mut args = args.split(|byte| *byte == 0).skip(1);
    let (mode, flag, directory) = (args.next(), args.next(), args.next());
    mode == Some(b"keeper")
        && flag == Some(b"--directory")
        && directory.is_some_and(|directory| {
            Path::new(std::ffi::OsStr::from_bytes(directory)).starts_with(run_dir)
        })
}

/// The parent of a child waits for its end within milliseconds. A child that is still dead after this was adopted; it
/// costs nothing but its pid meanwhile.
const REST: Duration = Duration::from_secs(60);

/// From now on processes below this one whose parent ends become its children.
pub fn adopt_all() -> io::Result<()> {
    Ok(nix::sys::prctl::set_child_subreaper(true)?)
}

/// Reaps adopted children that have ended, for ever. Sleeps while no child ends.
pub async fn reap() -> io::Result<()> {
    let mut ended = signal(SignalKind::child())?;
    let mut dead = Vec::new();
    loop {
        if dead.is_empty() && ended.recv().await.is_none() {
            return Ok(());
        }
        tokio::time::sleep(REST).await;
        dead = reap_known(&dead);
    }
}

/// Reaps the dead that were seen before, and returns the others.
fn reap_known(seen: &[ProcessStamp]) -> Vec<ProcessStamp> {
    let (known, new): (Vec<_>, Vec<_>) = dead().into_iter().partition(|one| seen.contains(one));
    for one in known {
        // It is dead and our child, so its pid is its own. Should its starter have waited meanwhile, nothing is left.
        let _gone = waitpid(Pid::from_raw(one.pid), Some(WaitPidFlag::WNOHANG));
    }
    new
}

/// Our dead children: adopted ones, and those that ended just now.
fn dead() -> Vec<ProcessStamp> {
    let own = std::process::id();
    let ours = |(pid, stat): (i32, Stat)| {
        let start_ticks = stat.start_ticks;
        let is_ours = u32::try_from(stat.parent) == Ok(own);
        (stat.zombie && is_ours).then_some(ProcessStamp { pid, start_ticks })
    };
    process::all().filter_map(ours).collect()
}

/// This process and its session.
fn own() -> Option<(i32, i32)> {
    let pid = i32::try_from(std::process::id()).ok()?;
    Some((pid, Stat::read(pid)?.session))
}

/// Whether a process is a child of this one that a keeper started, or a keeper.
fn is_adopted(stat: &Stat, (pid, session): (i32, i32)) -> bool {
    stat.parent == pid && stat.session != session
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threat_25_recognizes_keeper_by_arguments() {
        let ours = Path::new("/state/run");
        let line = |text: &str| text.replace(' ', "\0").into_bytes();
        assert!(keeps(
            &line("/usr/bin/codex-bridge keeper --directory /state/run/x -- codex"),
            ours
        ));
        for other in [
            "codex-bridge keeper --directory /other/run/x",
            "codex-bridge keeper --directory /state/running",
            "codex-bridge run --directory /state/run/x",
            "codex-bridge",
            "",
        ] {
            assert!(!keeps(&line(other), ours), "{other}");
        }
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(is_kept(own, ours), Ok(false));
    }

    #[test]
    fn threat_25_recognizes_lender_by_arguments() {
        let line = |text: &str| text.replace(' ', "\0").into_bytes();
        for lender in [
            "/usr/bin/codex-bridge open review",
            "codex-bridge --state-dir /s lend x",
        ] {
            assert!(lends(&line(lender)), "{lender}");
        }
        for other in ["codex-bridge send hello", "vim open", "codex-bridge", ""] {
            assert!(!lends(&line(other)), "{other}");
        }
    }

    #[test]
    fn f2_hidden_parents_pass_as_logins_only() {
        let hidden = |is_of_another_user, is_in_another_group, is_above_us| {
            let hidden = Hidden {
                is_of_another_user,
                is_in_another_group,
                is_above_us,
            };
            hidden.is_strangers()
        };
        assert_eq!(hidden(true, true, false), Some(false), "another login");
        assert_eq!(hidden(true, false, true), Some(false), "our own login");
        assert_eq!(hidden(true, false, false), None, "below us, by set-uid");
        assert_eq!(hidden(false, true, true), None, "gone");
        let own = i32::try_from(std::process::id()).unwrap();
        let found = Hidden::look(i32::MAX, own);
        assert!(!found.is_of_another_user && !found.is_in_another_group);
    }

    #[test]
    fn f2_an_unreadable_process_is_no_stranger() {
        let ours = Path::new("/state/run");
        assert_eq!(is_kept(i32::MAX, ours), Err(AncestryUnreadable));
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        let pid = i32::try_from(ended.id()).unwrap();
        nix::sys::wait::waitid(
            nix::sys::wait::Id::Pid(Pid::from_raw(pid)),
            nix::sys::wait::WaitPidFlag::WEXITED | nix::sys::wait::WaitPidFlag::WNOWAIT,
        )
        .unwrap();
        assert_eq!(is_kept(pid, ours), Err(AncestryUnreadable), "a zombie");
        ended.wait().unwrap();
        assert_eq!(is_kept(pid, ours), Err(AncestryUnreadable), "gone");
    }

    #[test]
    fn f2_children_of_other_sessions_are_adopted() {
        let mut own_child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let (pid, session) = own().unwrap();
        let stat = Stat::read(i32::try_from(own_child.id()).unwrap()).unwrap();
        assert!(!is_adopted(&stat, (pid, session)));
        let elsewhere = Stat {
            session: session + 1,
            ..stat
        };
        assert!(is_adopted(&elsewhere, (pid, session)));
        let of_another = Stat {
            parent: 1,
            ..elsewhere
        };
        assert!(!is_adopted(&of_another, (pid, session)));
        drop(own_child.stdin.take());
        own_child.wait().unwrap();
    }

    /// Somebody may still wait for one that ended just now.
    #[test]
    fn f2_adopted_dead_rest_at_second_look() {
        let mut child = std::process::Command::new("setsid")
            .arg("true")
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let ended = nix::sys::wait::WaitPidFlag::WEXITED | nix::sys::wait::WaitPidFlag::WNOWAIT;
        nix::sys::wait::waitid(nix::sys::wait::Id::Pid(Pid::from_raw(pid)), ended).unwrap();
        let mut first = reap_known(&[]);
        // Others have tests with dead children.
        first.retain(|one| one.pid == pid);
        assert_eq!(first.len(), 1);
        let second = reap_known(&first);
        assert!(!second.iter().any(|one| one.pid == pid), "{second:?}");
        assert_eq!(Stat::read(pid), None);
        assert!(child.wait().is_err(), "nothing is left to wait for");
    }
}
