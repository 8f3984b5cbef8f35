//! What the figures were measured on and of: one line, so that nobody compares two machines or two states of the code
//! by mistake. What was measured is not here.

use crate::ground::Ground;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for a program that only says what it is.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How often it is looked whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Cores, processor, memory, kernel, Codex, the commit and the day. `docs` lies in the repository.
pub(crate) fn read(ground: &Ground, docs: &Path) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let processor = line_of("/proc/cpuinfo", "model name");
    let memory = line_of("/proc/meminfo", "MemTotal");
    let memory = memory
        .split_whitespace()
        .next()
        .and_then(|kib| kib.parse::<u64>().ok());
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let codex = said(Command::new(&ground.codex).arg("--version"));
    let mut git = Command::new("git");
    git.arg("-C")
        .arg(docs)
        .args(["rev-parse", "--short", "HEAD"]);
    let commit = said(&mut git).map(|commit| format!(", commit {commit}"));
    format!(
        "{cores} cores of {processor}, {} GiB, Linux {}, {}{}, {}",
        memory.unwrap_or_default() / (1 << 20),
        kernel.trim(),
        codex.unwrap_or_else(|| "an unknown Codex".to_owned()),
        commit.unwrap_or_default(),
        jiff::Zoned::now().date(),
    )
}

/// What a program says of itself in a few words; nothing where it fails, says nothing, or takes too long.
fn said(command: &mut Command) -> Option<String> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let began = Instant::now();
    let ended = loop {
        if let Some(ended) = child.try_wait().ok()? {
            break ended;
        }
        if began.elapsed() > ANSWER_WITHIN {
            // One that cannot be ended is not waited for either.
            let _stuck = child.kill().and_then(|()| child.wait());
            return None;
        }
        std::thread::sleep(LOOK_EVERY);
    };
    let mut words = String::new();
    child.stdout.take()?.read_to_string(&mut words).ok()?;
    let words = words.trim();
    (ended.success() && !words.is_empty()).then(|| words.to_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_or_failed_program_is_omitted() {
        let shell = |script: &str| said(Command::new("sh").args(["-c", script]));
        assert_eq!(shell("echo ' abc '"), Some("abc".to_owned()));
        assert_eq!(shell("true"), None);
        assert_eq!(shell("echo abc; false"), None);
        assert_eq!(said(&mut Command::new("/no/such/program")), None);
    }
}
