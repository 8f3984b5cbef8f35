//! What the kernel says of a process and everything below it: memory, descriptors, children; and its end, where it must
//! not be left behind. Which processes those are belongs to whoever started them.

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// How often and after which pauses it is looked whether what was killed is gone.
const GONE_LOOKS: u32 = 250;
const GONE_PAUSE: Duration = Duration::from_millis(20);

/// KiB in a MiB, as a number to divide by.
const KIB_PER_MIB: f64 = 1_024.0;

/// One process, or several together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Reading {
    /// Resident, shared pages counted for each process that has them.
    pub(crate) rss_mib: f64,
    /// Resident, shared pages divided between those that have them.
    pub(crate) pss_mib: f64,
    pub(crate) descriptors: usize,
    pub(crate) processes: usize,
}

impl Reading {
    pub(crate) fn of(pids: &[i32]) -> anyhow::Result<Self> {
        let mut sum = Self::default();
        for pid in pids {
            let path = format!("/proc/{pid}/smaps_rollup");
            let text = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
            sum.rss_mib += field(&text, "Rss:").context("no Rss")? / KIB_PER_MIB;
            sum.pss_mib += field(&text, "Pss:").context("no Pss")? / KIB_PER_MIB;
            sum.descriptors += std::fs::read_dir(format!("/proc/{pid}/fd"))?.count();
            sum.processes += 1;
        }
        Ok(sum)
    }
}

fn field(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// The most that a process ever had resident, or had since [`forget_peak`].
pub(crate) fn peak_mib(pid: i32) -> anyhow::Result<f64> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    Ok(field(&text, "VmHWM:").context("no VmHWM")? / KIB_PER_MIB)
}

/// Lets the peak of a process begin again at what it has now.
pub(crate) fn forget_peak(pid: i32) -> anyhow::Result<()> {
    let path = format!("/proc/{pid}/clear_refs");
    std::fs::write(&path, "5").with_context(|| format!("write {path}"))
}

/// The processor time that a process used so far, in clock ticks of the kernel.
pub(crate) fn ticks(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold anything, so what counts begins behind it.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// The processor time that this process used so far, all its threads together.
pub(crate) fn own_time() -> anyhow::Result<Duration> {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?;
    Ok(Duration::from(time))
}

/// Everything below a process, without itself.
pub(crate) fn below(pid: i32) -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for child in pids() {
        if let Some(parent) = parent(child) {
            children.entry(parent).or_default().push(child);
        }
    }
    let mut found = Vec::new();
    let mut next = vec![pid];
    while let Some(parent) = next.pop() {
        let below = children.remove(&parent).unwrap_or_default();
        found.extend(&below);
        next.extend(below);
    }
    found
}

/// Its own children.
pub(crate) fn children(pid: i32) -> Vec<i32> {
    let mut children = pids();
    children.retain(|child| parent(*child) == Some(pid));
    children
}

/// Processes whose working directory is in this one.
pub(crate) fn working_in(directory: &Path) -> Vec<i32> {
    let mut found = pids();
    found.retain(|pid| {
        let place = std::fs::read_link(format!("/proc/{pid}/cwd"));
        place.is_ok_and(|place| place.starts_with(directory))
    });
    found
}

/// The name of the program that a process runs.
pub(crate) fn program(pid: i32) -> Option<String> {
    let exe = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    Some(exe.file_name()?.to_string_lossy().into_owned())
}

/// Whether it is there and has not ended; one that only waits to be reaped has.
pub(crate) fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    let state = stat.ok().and_then(|stat| {
        let (_, rest) = stat.rsplit_once(") ")?;
        rest.chars().next()
    });
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Ends it without a warning; false when it was gone already.
pub(crate) fn end(pid: i32) -> bool {
    kill(Pid::from_raw(pid), Signal::SIGKILL).is_ok()
}

/// Ends all that `living` finds, until it finds none.
pub(crate) async fn end_all(living: impl Fn() -> Vec<i32>) -> anyhow::Result<()> {
    for _ in 0..GONE_LOOKS {
        let left = living();
        if left.is_empty() {
            return Ok(());
        }
        for pid in left {
            end(pid);
        }
        tokio::time::sleep(GONE_PAUSE).await;
    }
    bail!("processes do not end: {:?}", living())
}

fn pids() -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir(Path::new("/proc")) else {
        return Vec::new();
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    names
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect()
}

fn parent(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_descriptors() {
        let me = i32::try_from(std::process::id()).unwrap();
        let reading = Reading::of(&[me]).unwrap();
        assert!(reading.rss_mib > 0.5 && reading.pss_mib <= reading.rss_mib);
        assert!(reading.descriptors >= 3 && reading.processes == 1);
        assert!(ticks(me).is_some() && program(me).is_some());
        forget_peak(me).unwrap();
        assert!(peak_mib(me).unwrap() > 0.5);
    }

    #[tokio::test]
    async fn ended_process_is_dead_before_reaping() {
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert!(lives(pid));
        let living = || Vec::from_iter(lives(pid).then_some(pid));
        end_all(living).await.unwrap();
        assert!(!lives(pid));
        child.wait().unwrap();
        assert!(!lives(pid) && !end(pid));
    }
}
