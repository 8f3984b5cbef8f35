//! What a process has cost so far, as the kernel counts it.

use std::fs;

/// The kernel counts processor time in hundredths of a second, on every architecture that Codex is built for.
const TICK_MS: u64 = 10;
/// Fields of `/proc/PID/stat` between the last bracket and the processor time.
const BEFORE_TIME: usize = 11;

/// Processor time and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessCost {
    /// Its own, and of its children that have ended.
    pub(crate) cpu_ms: u64,
    /// The most that it had at once.
    pub(crate) peak_kib: u64,
}

impl ProcessCost {
    /// Nothing for a process that is gone.
    pub(crate) fn of(pid: i32) -> Self {
        let read =
            |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        Self {
            cpu_ms: ticks(&read("stat")).saturating_mul(TICK_MS),
            peak_kib: peak(&read("status")),
        }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            cpu_ms: self.cpu_ms.saturating_add(other.cpu_ms),
            peak_kib: self.peak_kib.saturating_add(other.peak_kib),
        }
    }
}

/// User and system time, its own and that of children that were waited for.
fn ticks(stat: &str) -> u64 {
    let Some((_, rest)) = stat.rsplit_once(')') else {
        return 0;
    };
    let fields = rest.split_ascii_whitespace().skip(BEFORE_TIME).take(4);
    let fields = fields.filter_map(|field| field.parse::<u64>().ok());
    fields.fold(0, u64::saturating_add)
}

fn peak(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_process_costs_something() {
        let ours = i32::try_from(std::process::id()).unwrap();
        assert!(ProcessCost::of(ours).peak_kib > 1_000);
        assert_eq!(ProcessCost::of(-1), ProcessCost::default());
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0";
        assert_eq!(ticks(stat), 5 + 6 + 7 + 8);
    }
}
