//! Finds the rollout files of a thread in a CODEX_HOME. A link leads nowhere: nothing outside of the home is read.

use super::error::RolloutError;
use super::path::{self, ARCHIVED, RolloutPath, SESSIONS};
use bridge_core::value::ThreadId;
use nix::fcntl::OFlag;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// Entries that are looked at: a home with 1,000 threads a day for five years has as many.
const ENTRIES_MAX: usize = 2_000_000;
/// Files that one thread's history may go through.
const LINEAGE_MAX: usize = 64;
/// The first line of a file holds the instructions of its thread: 21 kB without any of the operator's.
const HEAD_MAX: u64 = 16 * 1024 * 1024;
/// Years, months, days.
const LEVELS: usize = 3;

/// A CODEX_HOME.
#[derive(Clone, Debug)]
pub struct CodexHome {
    root: PathBuf,
}

/// A file that a thread's history is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutFile {
    /// Which file.
    pub path: RolloutPath,
    /// How many of its bytes belong to the history, if not all: a fork takes what its parent had then.
    pub until: Option<u64>,
}

/// The part of a file's first line that is of interest.
#[derive(Debug, Default, Deserialize)]
struct FirstLine {
    payload: SessionMeta,
}

#[derive(Debug, Default, Deserialize)]
struct SessionMeta {
    history_base: Option<HistoryBase>,
    parent_thread_id: Option<String>,
}

/// Where the history before this file is. Codex calls it a thread; it is the id of a file.
#[derive(Debug, Deserialize)]
struct HistoryBase {
    thread_id: String,
    end_byte_offset: u64,
}

impl CodexHome {
    /// Opens a home that is there.
    pub fn open(root: &Path) -> Result<Self, RolloutError> {
        let root = fs::canonicalize(root).map_err(RolloutError::io("find CODEX_HOME", root))?;
        Ok(Self { root })
    }

    /// The files that hold the history of a thread, oldest first; the last one is its own, and grows. None if this home
    /// does not have it.
    pub fn lineage(&self, thread: &ThreadId) -> Result<Vec<RolloutFile>, RolloutError> {
        let id = path::thread_uuid(thread)?;
        let own = self.files(|path| path.thread_uuid() == id)?;
        // The ids of files are in the order of their beginnings, and the newest is in use.
        let Some(newest) = own.into_iter().max_by_key(RolloutPath::rollout) else {
            return Ok(Vec::new());
        };
        let mut files = vec![RolloutFile {
            path: newest,
            until: None,
        }];
        while let Some(oldest) = files.last().map(|file| file.path.clone()) {
            let Some(base) = self.meta(&oldest)?.history_base else {
                files.reverse();
                return Ok(files);
            };
            let path = self.base(thread, &base)?;
            if files.len() >= LINEAGE_MAX || files.iter().any(|file| file.path == path) {
                break;
            }
            let until = Some(base.end_byte_offset);
            files.push(RolloutFile { path, until });
        }
        Err(RolloutError::EndlessLineage(thread.as_str().to_owned()))
    }

    fn base(&self, thread: &ThreadId, base: &HistoryBase) -> Result<RolloutPath, RolloutError> {
        let id = path::id(&base.thread_id);
        let found = id.map_or(Ok(Vec::new()), |id| self.files(|path| path.rollout() == id));
        found?
            .into_iter()
            .next()
            .ok_or_else(|| RolloutError::NoBase {
                thread: thread.as_str().to_owned(),
                missing: base.thread_id.clone(),
            })
    }

    /// All files of a thread, its own and those it was reverted from.
    pub(super) fn files_of(&self, thread: Uuid) -> Result<Vec<RolloutPath>, RolloutError> {
        self.files(|path| path.thread_uuid() == thread)
    }

    /// The file with this id.
    pub(super) fn file(&self, rollout: Uuid) -> Result<Option<RolloutPath>, RolloutError> {
        Ok(self.files(|path| path.rollout() == rollout)?.pop())
    }

    /// The files of agents that these threads started, and that those started. Codex deletes them with their parent.
    pub(super) fn below(&self, threads: &[Uuid]) -> Result<Vec<RolloutPath>, RolloutError> {
        let mut children: BTreeMap<Uuid, Vec<RolloutPath>> = BTreeMap::new();
        for path in self.files(|path| !path.is_compressed())? {
            // One that can't be read is not known as a child of anybody, by Codex neither.
            let parent = self.meta(&path).ok().and_then(|meta| meta.parent_thread_id);
            if let Some(parent) = parent.as_deref().and_then(path::id) {
                children.entry(parent).or_default().push(path);
            }
        }
        let mut parents = threads.to_vec();
        let mut found = Vec::new();
        while let Some(parent) = parents.pop() {
            for child in children.remove(&parent).unwrap_or_default() {
                parents.push(child.thread_uuid());
                found.push(child);
            }
        }
        Ok(found)
    }

    fn meta(&self, path: &RolloutPath) -> Result<SessionMeta, RolloutError> {
        if path.is_compressed() {
            // Codex compresses no file that goes on from another one, and none that another one goes on from.
            return Ok(SessionMeta::default());
        }
        let mut line = Vec::new();
        let file = self.read(path)?.take(HEAD_MAX);
        let read = BufReader::new(file).read_until(b'\n', &mut line);
        read.map_err(RolloutError::io("read", &self.place(path)))?;
        // A first line that is not whole yet tells nothing; Codex writes it in one piece.
        let first = serde_json::from_slice::<FirstLine>(&line);
        Ok(first.map(|line| line.payload).unwrap_or_default())
    }

    pub(super) fn place(&self, path: &RolloutPath) -> PathBuf {
        self.root.join(path.as_str())
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Opens a file for reading.
    pub(super) fn read(&self, path: &RolloutPath) -> Result<File, RolloutError> {
        let place = self.place(path);
        self.check_directories(&place)?;
        open_ordinary(&place, OpenOptions::new().read(true))
    }

    /// No directory between the home and this place may be a link.
    pub(super) fn check_directories(&self, place: &Path) -> Result<(), RolloutError> {
        let between = place.ancestors().skip(1);
        for directory in between.take_while(|directory| *directory != self.root) {
            let found = fs::symlink_metadata(directory);
            let found = found.map_err(RolloutError::io("look at", directory))?;
            if !found.is_dir() {
                return Err(RolloutError::NotOrdinary(directory.to_owned()));
            }
        }
        Ok(())
    }

    /// The rollout files that are wanted, each in one form: Codex passes over a compressed one beside a plain one.
    fn files(
        &self,
        wanted: impl Fn(&RolloutPath) -> bool,
    ) -> Result<Vec<RolloutPath>, RolloutError> {
        let mut walk = Walk {
            root: &self.root,
            left: ENTRIES_MAX,
            found: BTreeMap::new(),
        };
        walk.directory(SESSIONS.to_owned(), LEVELS, &wanted)?;
        walk.directory(ARCHIVED.to_owned(), 0, &wanted)?;
        Ok(walk.found.into_values().collect())
    }
}

/// Opens an ordinary file; a link is not followed, and a pipe does not hold us up.
pub(super) fn open_ordinary(place: &Path, how: &mut OpenOptions) -> Result<File, RolloutError> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = match how.custom_flags(flags.bits()).open(place) {
        Ok(file) => file,
        Err(error) if error.raw_os_error() == Some(nix::libc::ELOOP) => {
            return Err(RolloutError::NotOrdinary(place.to_owned()));
        }
        Err(error) => return Err(RolloutError::io("open", place)(error)),
    };
    let found = file
        .metadata()
        .map_err(RolloutError::io("look at", place))?;
    if !found.is_file() {
        return Err(RolloutError::NotOrdinary(place.to_owned()));
    }
    Ok(file)
}

struct Walk<'a> {
    root: &'a Path,
    left: usize,
    found: BTreeMap<Uuid, RolloutPath>,
}

impl Walk<'_> {
    /// Files are in the directories so many levels below.
    fn directory(
        &mut self,
        relative: String,
        levels: usize,
        wanted: &impl Fn(&RolloutPath) -> bool,
    ) -> Result<(), RolloutError> {
        let place = self.root.join(&relative);
        match fs::symlink_metadata(&place) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(RolloutError::NotOrdinary(place)),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(RolloutError::io("look at", &place)(error)),
        }
        for entry in fs::read_dir(&place).map_err(RolloutError::io("list", &place))? {
            let entry = entry.map_err(RolloutError::io("list", &place))?;
            self.left = self
                .left
                .checked_sub(1)
                .ok_or_else(|| RolloutError::TooMany(self.root.to_owned()))?;
            let name = entry.file_name();
            let (Some(name), Ok(kind)) = (name.to_str(), entry.file_type()) else {
                continue;
            };
            let relative = format!("{relative}/{name}");
            if kind.is_dir() && levels > 0 {
                self.directory(relative, levels.saturating_sub(1), wanted)?;
            } else if kind.is_file()
                && let Ok(path) = RolloutPath::parse(&relative)
                && wanted(&path)
            {
                self.keep(path);
            }
        }
        Ok(())
    }

    fn keep(&mut self, path: RolloutPath) {
        let known = self.found.get(&path.rollout());
        if known.is_none_or(|known| known.is_compressed()) {
            self.found.insert(path.rollout(), path);
        }
    }
}
