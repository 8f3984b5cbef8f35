//! Which session a conversation has: one JSON file, written whole with every change, read at the start.

use anyhow::Context;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Debug)]
pub(super) struct Sessions {
    path: PathBuf,
    known: BTreeMap<String, String>,
}

impl Sessions {
    pub(super) fn read(path: PathBuf) -> anyhow::Result<Self> {
        let known = match std::fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).context("understand the sessions")?,
            Err(_) => BTreeMap::new(),
        };
        Ok(Self { path, known })
    }

    pub(super) fn get(&self, conversation: &str) -> Option<&str> {
        self.known.get(conversation).map(String::as_str)
    }

    pub(super) fn set(&mut self, conversation: &str, session: &str) -> anyhow::Result<()> {
        self.known
            .insert(conversation.to_owned(), session.to_owned());
        self.keep()
    }

    pub(super) fn forget(&mut self, conversation: &str) -> anyhow::Result<()> {
        self.known.remove(conversation);
        self.keep()
    }

    /// Half a file would lose all of them, so it is put in place whole.
    fn keep(&self) -> anyhow::Result<()> {
        let fresh = self.path.with_extension("new");
        std::fs::write(&fresh, serde_json::to_string(&self.known)?)?;
        std::fs::rename(&fresh, &self.path).context("keep the sessions")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_known_again_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sessions.json");
        let mut sessions = Sessions::read(path.clone()).unwrap();
        assert_eq!(sessions.get("a"), None);
        sessions.set("a", "one").unwrap();
        sessions.set("b", "two").unwrap();
        let again = Sessions::read(path).unwrap();
        assert_eq!((again.get("a"), again.get("b")), (Some("one"), Some("two")));
        sessions.forget("a").unwrap();
        assert_eq!(sessions.get("a"), None);
    }
}
