//! What processes keep in memory, as the kernel counts it.

use super::all;
use std::collections::HashSet;
use std::fs;

/// Resident memory of Codex and of what it started, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resident {
    /// Codex itself, with the pages of its program.
    pub(crate) codex: u64,
    /// What its children have for themselves: MCP servers, and the commands of turns. The pages of programs are not
    /// counted, because children share them with each other and with Codex.
    pub(crate) children: u64,
}

impl Resident {
    /// Reads what is below a keeper: Codex is its child. `None` where there is none, or no `/proc`.
    pub(crate) fn below(keeper: i32) -> Option<Self> {
        let living = all().filter(|(_, stat)| !stat.zombie);
        let family = Family::of(
            keeper,
            living.map(|(pid, stat)| (pid, stat.parent)).collect(),
        );
        let mut resident = Self::default();
        for pid in &family.codex {
            resident.codex = resident.codex.saturating_add(Pages::of(*pid)?.all);
        }
        // One that has just ended has nothing any more.
        for pages in family.children.iter().filter_map(|pid| Pages::of(*pid)) {
            resident.children = resident.children.saturating_add(pages.own);
        }
        (!family.codex.is_empty()).then_some(resident)
    }

    pub(crate) fn total(self) -> u64 {
        self.codex.saturating_add(self.children)
    }
}

/// The processes below a keeper: those that it started, and those that they started, and so on.
#[derive(Debug, PartialEq, Eq)]
struct Family {
    codex: HashSet<i32>,
    children: HashSet<i32>,
}

impl Family {
    /// From processes with their parents. Each is taken out once: pids are given again, so they may say anything.
    fn of(keeper: i32, mut living: Vec<(i32, i32)>) -> Self {
        let codex = take_children(&mut living, &HashSet::from([keeper]));
        let mut children = HashSet::new();
        let mut newest = take_children(&mut living, &codex);
        while !newest.is_empty() {
            let next = take_children(&mut living, &newest);
            children.extend(newest);
            newest = next;
        }
        Self { codex, children }
    }
}

fn take_children(living: &mut Vec<(i32, i32)>, parents: &HashSet<i32>) -> HashSet<i32> {
    let mut children = HashSet::new();
    living.retain(|(pid, parent)| {
        let is_child = parents.contains(parent);
        if is_child {
            children.insert(*pid);
        }
        !is_child
    });
    children
}

struct Pages {
    all: u64,
    own: u64,
}

impl Pages {
    fn of(pid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
    }

    fn parse(status: &str) -> Option<Self> {
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
            kib.checked_mul(1024)
        };
        Some(Self {
            all: bytes("VmRSS:")?,
            own: bytes("RssAnon:")?.saturating_add(bytes("RssShmem:").unwrap_or(0)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_pages_are_told_from_shared_ones() {
        let status = "Name:\tcodex\nVmPeak:\t  900 kB\nVmRSS:\t  262144 kB\nRssAnon:\t  147456 kB\nRssFile:\t  114688 kB\nRssShmem:\t       4 kB\n";
        let pages = Pages::parse(status).unwrap();
        assert_eq!(pages.all, 256 * 1024 * 1024);
        assert_eq!(pages.own, 147_460 * 1024);
        assert!(Pages::parse("Name:\tkthreadd\n").is_none());
    }

    #[test]
    fn family_holds_each_process_once() {
        let living = vec![
            (9, 1),
            (20, 9),
            (22, 21),
            (21, 20),
            (30, 1),
            (31, 30),
            (40, 41),
            (41, 40),
        ];
        let family = Family::of(9, living);
        assert_eq!(family.codex, HashSet::from([20]));
        assert_eq!(family.children, HashSet::from([21, 22]));
        assert!(Resident::below(i32::MAX).is_none());
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(Pages::of(own).unwrap().all > 0);
    }
}
