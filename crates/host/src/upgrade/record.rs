//! What is remembered of changes to another Codex, in a directory that only we write: what the daemon saw (`record.json`)
//! and what the operator chose with `upgrade-codex` (`choice.json`). Both are replaced as a whole.

use crate::binary::stamp::BinaryStamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Copies of Codex that are kept, the newest first.
pub const KEPT_MAX: usize = 2;
/// Refused binaries that are remembered.
const REFUSED_MAX: usize = 16;

const RECORD: &str = "record.json";
const CHOICE: &str = "choice.json";

/// What the daemon saw.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// The Codex that was changed to last.
    pub running: Option<Running>,
    /// Copies of those that worked, newest first.
    pub kept: Vec<Kept>,
    /// Those that did not, newest last.
    pub refused: Vec<Refused>,
}

/// A Codex that was changed to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    pub version: String,
    pub digest: String,
    pub stage: Stage,
}

/// How far a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Its process is about to start.
    Starting,
    /// Its first turns have not all ended yet.
    OnProbation,
    Good,
}

/// Our own copy of a Codex.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    pub version: String,
    pub digest: String,
    /// Its native executable.
    pub codex: PathBuf,
}

/// A Codex that is not used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    pub version: String,
    pub digest: String,
    pub why: String,
    /// Milliseconds since 1970.
    pub at: i64,
}

/// What the operator chose with `upgrade-codex`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    pub version: String,
    /// Its native executable.
    pub codex: PathBuf,
    pub digest: String,
    /// The configured file at that time: another one there is a newer act of the operator, and counts instead.
    pub(super) instead_of: Option<BinaryStamp>,
    /// Milliseconds since 1970: what was refused before is tried again.
    pub at: i64,
}

impl Record {
    /// What is there; nothing where none was written, or it can't be read.
    #[must_use]
    pub fn read(directory: &Path) -> Self {
        read(&directory.join(RECORD)).unwrap_or_default()
    }

    /// # Errors
    ///
    /// The disk does not take it.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        replace(directory, RECORD, self)
    }

    /// Why a Codex is not used, unless the operator chose it since.
    #[must_use]
    pub fn refusal(&self, digest: &str, choice: Option<&Choice>) -> Option<&Refused> {
        let mut refused = self.refused.iter().rev();
        let refused = refused.find(|refused| refused.digest == digest)?;
        let again = choice.is_some_and(|it| it.digest == digest && it.at > refused.at);
        (!again).then_some(refused)
    }

    pub(super) fn refuse(&mut self, refused: Refused) {
        self.refused.retain(|known| known.digest != refused.digest);
        self.refused.push(refused);
        let too_many = self.refused.len().saturating_sub(REFUSED_MAX);
        self.refused.drain(..too_many);
    }

    /// Puts a copy in front; those that are too many are given back.
    pub(super) fn keep(&mut self, kept: Kept) -> Vec<Kept> {
        self.kept.retain(|known| known.digest != kept.digest);
        self.kept.insert(0, kept);
        let keep = KEPT_MAX.min(self.kept.len());
        self.kept.split_off(keep)
    }

    /// The newest copy that is still there, was not refused and is not this one.
    #[must_use]
    pub fn last_good(&self, but: Option<&str>) -> Option<&Kept> {
        self.kept.iter().find(|kept| {
            Some(kept.digest.as_str()) != but
                && self.refusal(&kept.digest, None).is_none()
                && kept.codex.is_file()
        })
    }
}

impl Choice {
    #[must_use]
    pub fn read(directory: &Path) -> Option<Self> {
        read(&directory.join(CHOICE))
    }

    /// # Errors
    ///
    /// The disk does not take it.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        replace(directory, CHOICE, self)
    }

    /// The file, to see when it changes.
    pub(super) fn file(directory: &Path) -> PathBuf {
        directory.join(CHOICE)
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(%error, path = %path.display(), "what is remembered of changes of codex can't be read");
            }
            return None;
        }
    };
    serde_json::from_slice(&text)
        .inspect_err(|error| tracing::warn!(%error, path = %path.display(), "what is remembered of changes of codex can't be read"))
        .ok()
}

/// Makes the directory, which holds programs that we start.
pub(super) fn make(directory: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
}

fn replace(directory: &Path, name: &str, value: &impl Serialize) -> io::Result<()> {
    make(directory)?;
    let text = serde_json::to_vec_pretty(value)?;
    let new = directory.join(format!(".{name}.{}", uuid::Uuid::new_v4().simple()));
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)?;
    let written = file
        .write_all(&text)
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&new, directory.join(name)));
    if written.is_err() {
        let _left = std::fs::remove_file(&new);
    }
    written?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(directory: &Path, digest: &str) -> Kept {
        let codex = directory.join(digest);
        std::fs::write(&codex, "codex").unwrap();
        Kept {
            version: "0.165.0".to_owned(),
            digest: digest.to_owned(),
            codex,
        }
    }

    fn refused(digest: &str, at: i64) -> Refused {
        Refused {
            version: "0.166.0".to_owned(),
            digest: digest.to_owned(),
            why: "it died".to_owned(),
            at,
        }
    }

    #[test]
    fn keeps_two_copies_newest_good_first() {
        let directory = tempfile::tempdir().unwrap();
        let mut record = Record::default();
        for digest in ["a", "b", "a"] {
            assert_eq!(record.keep(kept(directory.path(), digest)), []);
        }
        let gone = record.keep(kept(directory.path(), "c"));
        assert_eq!(gone[0].digest, "b");
        record.write(directory.path()).unwrap();
        let mut record = Record::read(directory.path());
        let good = |record: &Record, but| record.last_good(but).map(|kept| kept.digest.clone());
        assert_eq!(good(&record, None).as_deref(), Some("c"));
        assert_eq!(good(&record, Some("c")).as_deref(), Some("a"));
        record.refuse(refused("c", 1));
        assert_eq!(good(&record, None).as_deref(), Some("a"));
        std::fs::remove_file(directory.path().join("a")).unwrap();
        assert_eq!(good(&record, None), None);
    }

    #[test]
    fn later_choice_lifts_a_refusal() {
        let mut record = Record::default();
        for at in 0..30 {
            record.refuse(refused(&at.to_string(), at));
        }
        assert_eq!(record.refused.len(), REFUSED_MAX);
        let choice = |at| Choice {
            version: "0.166.0".to_owned(),
            codex: "/codex".into(),
            digest: "29".to_owned(),
            instead_of: None,
            at,
        };
        assert!(record.refusal("29", None).is_some());
        assert!(record.refusal("29", Some(&choice(28))).is_some());
        assert!(record.refusal("29", Some(&choice(30))).is_none());
        assert!(record.refusal("0", None).is_none(), "long ago");
    }

    #[test]
    fn damaged_record_is_as_none() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(RECORD), "{torn").unwrap();
        assert_eq!(Record::read(directory.path()), Record::default());
        assert_eq!(Choice::read(directory.path()), None);
    }
}
