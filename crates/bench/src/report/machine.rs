//! What the figures were measured on: one line, so that nobody compares two machines by mistake.

use crate::ground::Ground;
use std::process::Command;

/// Cores, processor, memory, kernel, Codex and the day.
pub(crate) fn read(ground: &Ground) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let processor = line_of("/proc/cpuinfo", "model name");
    let memory = line_of("/proc/meminfo", "MemTotal");
    let memory = memory
        .split_whitespace()
        .next()
        .and_then(|kib| kib.parse::<u64>().ok());
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let codex = Command::new(&ground.codex).arg("--version").output();
    let codex = codex.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    format!(
        "{cores} cores of {processor}, {} GiB, Linux {}, {}, {}",
        memory.unwrap_or_default() / (1 << 20),
        kernel.trim(),
        codex.unwrap_or_else(|_| "an unknown Codex".to_owned()),
        jiff::Zoned::now().date(),
    )
}

/// What stands behind the colon of the first line that begins so.
fn line_of(path: &str, begins: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(begins));
    let value = line.and_then(|line| line.split_once(':'));
    value
        .map_or("unknown", |(_, value)| value.trim())
        .to_owned()
}
