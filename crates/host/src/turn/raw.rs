//! What a turn shows beside its own events where the operator wants it: lines of the protocol, and what Codex wrote to
//! its standard error meanwhile. Bounded: both may be endless.

use crate::keeper::STDERR_FILE;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Lines of the protocol that one turn shows.
const LINES_MAX: u32 = 100;
/// Longest part of a line that is kept.
const LINE_MAX_CHARS: usize = 2_000;
/// Lines of standard error that one turn shows, the newest ones.
const STDERR_LINES_MAX: usize = 20;
/// Bytes of standard error that are read for them.
const STDERR_MAX_BYTES: u64 = 16 * 1024;

/// What is left to show of one turn.
#[derive(Debug)]
pub(crate) struct RawLines {
    left: u32,
    stderr: PathBuf,
    /// How long the file was when the turn began to be followed.
    from: u64,
}

impl RawLines {
    /// From now on, of the Codex whose files are in this directory.
    pub(crate) fn start(directory: &Path) -> Self {
        let stderr = directory.join(STDERR_FILE);
        Self {
            left: LINES_MAX,
            from: std::fs::metadata(&stderr).map_or(0, |found| found.len()),
            stderr,
        }
    }

    /// A line of the protocol, if it is shown.
    pub(crate) fn line(&mut self, method: &str, text: &str) -> Option<String> {
        if is_part(method) || self.left == 0 {
            return None;
        }
        self.left = self.left.saturating_sub(1);
        Some(text.chars().take(LINE_MAX_CHARS).collect())
    }

    /// What Codex wrote to its standard error since the start, line by line.
    pub(crate) fn stderr(&self) -> Vec<String> {
        let text = self.read().unwrap_or_default();
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let lines = lines.map(|line| line.chars().take(LINE_MAX_CHARS).collect());
        let mut lines: Vec<String> = lines.collect();
        let surplus = lines.len().saturating_sub(STDERR_LINES_MAX);
        lines.drain(..surplus);
        lines
    }

    /// The file is cut to its end now and then; what is left of it is newer than the start then.
    fn read(&self) -> io::Result<String> {
        let mut file = File::open(&self.stderr)?;
        let length = file.metadata()?.len();
        let from = if length < self.from { 0 } else { self.from };
        let start = from.max(length.saturating_sub(STDERR_MAX_BYTES));
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(STDERR_MAX_BYTES).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        // Half a line may hold half a secret, which redaction would not know.
        let whole = text.split_once('\n').map_or("", |(_, rest)| rest);
        Ok(if start == self.from {
            text
        } else {
            whole.to_owned()
        })
    }
}

/// Whether a notification is a part of a text: those would be all there is.
pub(crate) fn is_part(method: &str) -> bool {
    method.ends_with("elta")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocol_lines_are_bounded_without_deltas() {
        let place = tempfile::tempdir().unwrap();
        let mut raw = RawLines::start(place.path());
        assert_eq!(raw.line("item/agentMessage/delta", "x"), None);
        assert_eq!(raw.line("item/reasoning/textDelta", "x"), None);
        let long = "y".repeat(3 * LINE_MAX_CHARS);
        let first = raw.line("turn/started", &long).unwrap();
        assert_eq!(first.len(), LINE_MAX_CHARS);
        let shown = (0..2 * LINES_MAX).filter_map(|_| raw.line("item/started", "x"));
        assert_eq!(shown.count(), LINES_MAX as usize - 1);
    }

    #[test]
    fn stderr_of_the_turn_is_shown() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(STDERR_FILE);
        std::fs::write(&path, "before\n").unwrap();
        let raw = RawLines::start(place.path());
        assert_eq!(raw.stderr(), [""; 0]);
        std::fs::write(&path, "before\nfirst\n\n  second\n").unwrap();
        assert_eq!(raw.stderr(), ["first", "second"]);
        // A file that was cut may begin within a line.
        std::fs::write(&path, "ut\nok\n").unwrap();
        assert_eq!(raw.stderr(), ["ok"]);
        std::fs::write(&path, format!("before\n{}", "many\n".repeat(9_999))).unwrap();
        assert_eq!(raw.stderr().len(), STDERR_LINES_MAX);
    }
}
