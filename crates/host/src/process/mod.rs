//! Processes as the kernel reports them: who is who across restarts, and whose child is whose.
//!
//! Reading `/proc` only. Signals are sent by [`crate::keeper`] and [`crate::keeper::launch`], and only to a process
//! whose start time matches what was recorded: a pid alone may be a stranger's by now.

pub mod child;
pub(crate) mod cost;
pub mod env;
pub mod foreground;
pub(crate) mod notify_command;
pub(crate) mod oneshot;
pub mod peer;
pub mod reexec;
pub(crate) mod resident;
pub mod tree;

use bridge_core::value::{BootId, ProcessStamp};
use std::fs;
use std::io;

/// The machine's present boot.
pub fn boot_id() -> io::Result<BootId> {
    Ok(BootId::new(
        fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim(),
    ))
}

/// The stamp of a process that is alive now; `None` when there is none, or only its zombie.
#[must_use]
pub fn stamp(pid: i32) -> Option<ProcessStamp> {
    let stat = Stat::read(pid)?;
    (!stat.zombie).then_some(ProcessStamp {
        pid,
        start_ticks: stat.start_ticks,
    })
}

/// The stamp of a child of ours that nobody has waited for: its pid is its own even when it has ended.
pub(crate) fn child_stamp(pid: i32) -> Option<ProcessStamp> {
    Stat::read(pid).map(|stat| ProcessStamp {
        pid,
        start_ticks: stat.start_ticks,
    })
}

/// Whether exactly this process is alive.
#[must_use]
pub fn alive(process: &ProcessStamp) -> bool {
    stamp(process.pid).is_some_and(|now| now.start_ticks == process.start_ticks)
}

/// Pids of the living children of `parent`.
#[must_use]
pub fn children(parent: i32) -> Vec<i32> {
    all()
        .filter(|(_, stat)| stat.parent == parent && !stat.zombie)
        .map(|(pid, _)| pid)
        .collect()
}

/// All processes that can be seen, dead ones too.
pub(crate) fn all() -> impl Iterator<Item = (i32, Stat)> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| {
        let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
        Some((pid, Stat::read(pid)?))
    })
}

/// Pids of the living children of `ancestor`, of their children, and so on.
#[must_use]
pub fn descendants(ancestor: i32) -> Vec<i32> {
    let mut found = children(ancestor);
    let mut next = 0;
    // Each pid once: one that was given again meanwhile must not lead in a circle.
    while let Some(pid) = found.get(next).copied() {
        let more: Vec<i32> = children(pid)
            .into_iter()
            .filter(|child| !found.contains(child))
            .collect();
        found.extend(more);
        next += 1;
    }
    found
}

/// One reading of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) parent: i32,
    pub(crate) session: i32,
    /// The number of its controlling terminal; 0 where it has none.
    pub(crate) terminal: i32,
    pub(crate) start_ticks: u64,
    pub(crate) zombie: bool,
}

impl Stat {
    pub(crate) fn read(pid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name may hold spaces and brackets, so fields are counted from the last bracket.
    fn parse(text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let session = fields.nth(1)?.parse().ok()?;
        let terminal = fields.next()?.parse().ok()?;
        let start_ticks = fields.nth(14)?.parse().ok()?;
        Some(Self {
            parent,
            session,
            terminal,
            start_ticks,
            zombie: matches!(state, "Z" | "X"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_parses_names_with_parentheses() {
        let text = "42 (a) b (c)) S 7 42 43 34816 -1 4194560 1 0 0 0 1 2 3 4 20 0 1 0 987654 1 2";
        let stat = Stat::parse(text).unwrap();
        assert_eq!(
            (stat.parent, stat.session, stat.terminal, stat.start_ticks),
            (7, 43, 34816, 987_654)
        );
        assert!(!stat.zombie);
    }

    #[test]
    fn reused_pid_is_not_alive() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let ours = stamp(pid).unwrap();
        assert!(alive(&ours));
        assert!(!alive(&ProcessStamp {
            start_ticks: ours.start_ticks + 1,
            ..ours
        }));
    }
}
