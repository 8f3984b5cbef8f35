//! Names of rollout files: `sessions/Y/M/D/rollout-TIME-THREAD.jsonl`, or the same name in `archived_sessions`.
//!
//! After `thread/revert` a thread goes on in a new file, `rollout-TIME-THREAD_ROLLOUT.jsonl`. Codex may compress a file
//! that was not used for a week (`.jsonl.zst`), and unpacks it when the thread is resumed.

use super::error::RolloutError;
use bridge_core::value::ThreadId;
use std::path::{Path, PathBuf};
use uuid::Uuid;

pub(super) const SESSIONS: &str = "sessions";
pub(super) const ARCHIVED: &str = "archived_sessions";
const PREFIX: &str = "rollout-";
const PLAIN: &str = ".jsonl";
const COMPRESSED: &str = ".jsonl.zst";
/// How Codex writes the time there, with a digit for each `0`.
const TIME: &str = "0000-00-00T00-00-00";

/// Where a rollout file is in its CODEX_HOME. Only what Codex itself would write is one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RolloutPath {
    relative: String,
    name_at: usize,
    thread: Uuid,
    rollout: Uuid,
    compressed: bool,
}

impl RolloutPath {
    /// Reads a path that is relative to CODEX_HOME.
    pub fn parse(relative: &str) -> Result<Self, RolloutError> {
        let found = Self::read(relative);
        found.ok_or_else(|| RolloutError::NoRolloutPath(relative.to_owned()))
    }

    fn read(relative: &str) -> Option<Self> {
        let (directory, name) = relative.rsplit_once('/')?;
        if directory != ARCHIVED {
            let day = directory.strip_prefix(SESSIONS)?.strip_prefix('/')?;
            has_form(day, "0000/00/00").then_some(())?;
        }
        let (stem, compressed) = match name.strip_suffix(COMPRESSED) {
            Some(stem) => (stem, true),
            None => (name.strip_suffix(PLAIN)?, false),
        };
        let (time, ids) = stem.strip_prefix(PREFIX)?.split_at_checked(TIME.len())?;
        has_form(time, TIME).then_some(())?;
        let ids = ids.strip_prefix('-')?;
        let (thread, rollout) = ids.split_once('_').unwrap_or((ids, ids));
        Some(Self {
            relative: relative.to_owned(),
            name_at: directory.len().saturating_add(1),
            thread: id(thread)?,
            rollout: id(rollout)?,
            compressed,
        })
    }

    /// Relative to CODEX_HOME, as it is stored.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.relative
    }

    /// Its thread.
    #[must_use]
    pub fn thread(&self) -> ThreadId {
        ThreadId::new(self.thread.to_string())
    }

    /// Whether only Codex can read it.
    #[must_use]
    pub fn is_compressed(&self) -> bool {
        self.compressed
    }

    /// The id of this file; that of the thread unless it was reverted. It says when the file was begun.
    pub(super) fn rollout(&self) -> Uuid {
        self.rollout
    }

    pub(super) fn thread_uuid(&self) -> Uuid {
        self.thread
    }

    pub(super) fn name(&self) -> &str {
        self.relative.get(self.name_at..).unwrap_or_default()
    }

    /// Where it is while it is written. Codex passes over such a name.
    pub(super) fn arriving(&self) -> PathBuf {
        let name = format!(".{}.arriving", self.name());
        Path::new(&self.relative).with_file_name(name)
    }
}

/// The id of a thread as Codex makes them; nothing else becomes part of a path.
pub(super) fn thread_uuid(thread: &ThreadId) -> Result<Uuid, RolloutError> {
    id(thread.as_str()).ok_or_else(|| RolloutError::NoThreadId(thread.as_str().to_owned()))
}

pub(super) fn id(text: &str) -> Option<Uuid> {
    let id = Uuid::try_parse(text).ok()?;
    (id.hyphenated().to_string() == text).then_some(id)
}

/// Whether a text is like the pattern, with any digit for each `0`.
fn has_form(text: &str, pattern: &str) -> bool {
    let fits = |(byte, wanted): (u8, u8)| match wanted {
        b'0' => byte.is_ascii_digit(),
        other => byte == other,
    };
    text.len() == pattern.len() && text.bytes().zip(pattern.bytes()).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01a1f044-a1d7-7d91-b1a7-c8366516aec5";
    const OTHER: &str = "01a1f04a-1343-7a93-ab9f-d5cf370fbceb";

    #[test]
    fn rollout_paths_are_read_whole() {
        let plain = format!("sessions/2026/11/18/rollout-2026-11-18T20-06-32-{ID}.jsonl");
        let path = RolloutPath::parse(&plain).unwrap();
        assert_eq!(path.as_str(), plain);
        assert_eq!(path.thread(), ThreadId::new(ID));
        assert_eq!(path.rollout().to_string(), ID);
        assert!(!path.is_compressed());
        let arriving = path.arriving();
        assert!(arriving.starts_with("sessions/2026/11/18"));
        assert!(RolloutPath::parse(arriving.to_str().unwrap()).is_err());
        let archived =
            format!("archived_sessions/rollout-2026-11-18T20-06-32-{ID}_{OTHER}.jsonl.zst");
        let path = RolloutPath::parse(&archived).unwrap();
        assert_eq!(path.thread(), ThreadId::new(ID));
        assert_eq!(path.rollout().to_string(), OTHER);
        assert!(path.is_compressed());
    }

    #[test]
    fn other_paths_are_refused() {
        let day = "sessions/2026/11/18";
        let name = format!("rollout-2026-11-18T20-06-32-{ID}.jsonl");
        for path in [
            format!("/{day}/{name}"),
            format!("{day}/../{name}"),
            format!("sessions/../11/18/{name}"),
            format!("sessions/2026/11/{name}"),
            format!("skills/2026/11/18/{name}"),
            format!("archived_sessions/2026/{name}"),
            format!("{day}/rollout-2026-11-18T20-06-32-{ID}.json"),
            format!(
                "{day}/rollout-2026-11-18T20-06-32-{}.jsonl",
                ID.to_uppercase()
            ),
            format!("{day}/rollout-2026-11-18T20-06-3x-{ID}.jsonl"),
            format!("{day}/rollout-2026-11-18T20-06-32-{ID}_.jsonl"),
            name.clone(),
            String::new(),
        ] {
            assert!(RolloutPath::parse(&path).is_err(), "{path}");
        }
        for thread in ["", "..", "../../etc/passwd", "*", &ID.replace('-', "")] {
            assert!(thread_uuid(&ThreadId::new(thread)).is_err(), "{thread}");
        }
    }
}
