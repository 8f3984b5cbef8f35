//! Changing to another Codex while turns run.
//!
//! The file that the operator configured changes (npm replaced it), or `upgrade-codex` chose another one. The new Codex is
//! checked, a copy of the old one is kept, and a process of the new one takes new turns beside the old process, which ends
//! those that it has. Until its first turns have ended well the new one is on probation: at the first that it can't read
//! or do, or when it dies, new turns go back to the old one, and the new one is refused by its digest.
//!
//! What must outlive the daemon is in [`record`]; which process takes turns is in the rows of incarnations.

mod change;
mod copies;
mod databases;
pub mod record;

use self::record::{Choice, Record};
use crate::binary::stamp::BinaryStamp;
use crate::binary::{self, Binary, BinaryError, Vars, launcher};
use crate::locked;
pub use databases::Snapshot;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tokio::sync::Notify;

pub(crate) use self::change::Upgrader;

/// Where the Codex that is to run is found.
#[derive(Clone, Debug)]
pub struct UpgradeOptions {
    /// Ours alone: copies of Codex, what was refused and what was chosen.
    pub directory: PathBuf,
    /// What the operator named in the configuration; without it `codex` is looked up.
    pub configured: Option<PathBuf>,
    pub search_path: Option<OsString>,
    /// Codex's environment.
    pub env: Vec<(OsString, OsString)>,
    /// Copies a database of Codex.
    pub snapshot: Snapshot,
}

impl UpgradeOptions {
    /// The configured Codex.
    ///
    /// # Errors
    ///
    /// See [`BinaryError`].
    pub fn configured(&self) -> Result<Binary, BinaryError> {
        self.find(self.configured.as_deref())
    }

    fn find(&self, explicit: Option<&Path>) -> Result<Binary, BinaryError> {
        let vars = Vars {
            path: self.search_path.as_deref(),
            ..Vars::of(&self.env)
        };
        binary::find(explicit, vars)
    }

    /// The native executable, or why it is not known.
    fn executable_of(&self, binary: &Binary) -> Result<PathBuf, String> {
        let scratch = self.directory.join(".launcher");
        record::make(&self.directory).map_err(|error| error.to_string())?;
        let native = launcher::native_of(&binary.path, &self.env, &scratch);
        native.map_err(|error| error.to_string())
    }

    /// The Codex that is to run: what was chosen, unless another file was configured since; otherwise the configured one.
    fn wanted(&self, choice: Option<&Choice>) -> Result<Binary, BinaryError> {
        let configured = self.configured();
        let Some(choice) = choice else {
            return configured;
        };
        let stamp = configured
            .as_ref()
            .ok()
            .and_then(|it| BinaryStamp::of(&it.path).ok());
        if stamp.is_some() && stamp != choice.instead_of {
            return configured;
        }
        self.find(Some(&choice.codex)).or(configured)
    }

    /// The Codex to start with: where that is refused or missing, the copy of the last one that worked.
    ///
    /// # Errors
    ///
    /// There is none, and no copy either.
    pub fn at_start(&self) -> Result<Binary, BinaryError> {
        let record = Record::read(&self.directory);
        let choice = Choice::read(&self.directory);
        let wanted = self.wanted(choice.as_ref());
        let refused = |binary: &Binary| {
            let native = self.executable_of(binary);
            let digest = copies::digest(native.as_ref().unwrap_or(&binary.path)).ok()?;
            let refused = record.refusal(&digest, choice.as_ref())?;
            Some((digest, refused.why.clone()))
        };
        let (but, why) = match &wanted {
            // Most have never refused one, and a digest takes a second.
            Ok(_) if record.refused.is_empty() => return wanted,
            Ok(binary) => match refused(binary) {
                None => return wanted,
                Some((digest, why)) => (Some(digest), why),
            },
            Err(error) => (None, error.to_string()),
        };
        let kept = record.last_good(but.as_deref());
        let Some(kept) = kept.filter(|kept| copies::is_whole(kept)) else {
            return wanted;
        };
        match self.find(Some(&kept.codex)) {
            Ok(binary) => {
                tracing::warn!(why, codex = %binary.path.display(), version = %binary.version, "the codex that is wanted is not used; the copy of the last one that worked is");
                Ok(binary)
            }
            Err(_) => wanted,
        }
    }

    /// Writes down which Codex is to run from now on, until another file is configured.
    ///
    /// # Errors
    ///
    /// The file can't be read, or the disk does not take it.
    pub fn choose(&self, version: &str, codex: &Path, at: i64) -> io::Result<Choice> {
        let configured = self.configured().ok();
        let choice = Choice {
            version: version.to_owned(),
            codex: codex.to_owned(),
            digest: copies::digest(codex)?,
            instead_of: configured.and_then(|it| BinaryStamp::of(&it.path).ok()),
            at,
        };
        choice.write(&self.directory)?;
        Ok(choice)
    }
}

/// What is under way, for whoever starts turns and whoever asks how Codex is.
#[derive(Debug, Default)]
pub(crate) struct Upgrades {
    note: Mutex<Option<String>>,
    watched: Mutex<Vec<(PathBuf, Option<BinaryStamp>)>>,
    wake: Notify,
}

impl Upgrades {
    /// Looks whether one of the watched files is another one: a few calls of the kernel.
    pub(crate) fn look(&self) {
        if self.is_changed() {
            self.wake.notify_one();
        }
    }

    fn is_changed(&self) -> bool {
        let watched = locked(&self.watched);
        let mut watched = watched.iter();
        watched.any(|(path, stamp)| BinaryStamp::of(path).ok() != *stamp)
    }

    fn watch(&self, files: Vec<(PathBuf, Option<BinaryStamp>)>) {
        *locked(&self.watched) = files;
    }

    /// A line about a change, for `status`.
    pub(crate) fn note(&self) -> Option<String> {
        locked(&self.note).clone()
    }

    fn say(&self, note: Option<String>) {
        *locked(&self.note) = note;
    }
}
