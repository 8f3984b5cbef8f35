//! What loses its keeper becomes a child of the daemon, so that a command that kills its keeper is still known to be
//! Codex's (see `process_tree`). The dead among them are laid to rest here, because nobody else waits for them.
//!
//! A keeper begins a session of its own before it starts Codex, and nobody can join a session that exists: whatever is
//! below the daemon in another session came from a keeper.

use crate::process::{self, Stat};
use bridge_core::value::ProcessStamp;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use std::io;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Whoever started a child waits for its end, within milliseconds. What is still dead after this was adopted; the dead
/// cost nothing but their pid meanwhile.
const REST: Duration = Duration::from_secs(60);

/// From now on processes below this one whose parent ends become its children.
pub fn adopt_all() -> io::Result<()> {
    Ok(nix::sys::prctl::set_child_subreaper(true)?)
}

/// Lays to rest what was adopted and has ended, for ever. Nothing is looked at while no child ends.
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

/// Lays to rest the dead that were seen before, and gives the others.
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
pub(crate) fn own() -> Option<(i32, i32)> {
    let pid = i32::try_from(std::process::id()).ok()?;
    Some((pid, Stat::read(pid)?.session))
}

/// Whether a process is a child of this one that a keeper started, or a keeper.
pub(crate) fn is_adopted(stat: &Stat, (pid, session): (i32, i32)) -> bool {
    stat.parent == pid && stat.session != session
}

#[cfg(test)]
mod tests {
    use super::*;

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
