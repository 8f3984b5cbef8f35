//! Brings stored rollout files back into a CODEX_HOME.
//!
//! The stored bytes first go into files beside their places. Then they are compared with what is there, what differs is
//! moved aside, Codex forgets the thread, and at last the new files take their places. A crash in between leaves a home
//! without the thread, or with the old file; the next try finds either. Codex must forget before the file is there,
//! because forgetting is deleting: of the projection, of what it has loaded, and of the file.

use super::error::RolloutError;
use super::home::{CodexHome, open_ordinary};
use super::path::RolloutPath;
use bridge_core::value::ThreadId;
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// Compared at a time.
const BLOCK: usize = 64 * 1024;
/// Files of the same name that may lie aside.
const ASIDE_MAX: usize = 10_000;

/// What was done with one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreOutcome {
    /// Nothing was there.
    Written,
    /// The beginning was there; it is so much longer now.
    Extended { by: u64 },
    /// All of it was there, and so much more, which stays.
    Kept { longer_by: u64 },
    /// Something else was there, which lies in this place now.
    Replaced { aside: PathBuf },
}

/// Stored files on their way into a home.
#[derive(Debug)]
pub struct RolloutRestore {
    home: CodexHome,
    aside: PathBuf,
    arriving: Vec<Arriving>,
}

#[derive(Debug)]
struct Arriving {
    path: RolloutPath,
    file: File,
    length: u64,
}

/// How a stored file and the one in the home differ.
#[derive(Debug)]
enum Difference {
    Absent,
    /// The one there is a beginning of the stored one.
    Shorter {
        there: RolloutPath,
        by: u64,
    },
    /// The stored one is a beginning of the one there.
    Longer {
        by: u64,
    },
    Other {
        there: RolloutPath,
    },
}

/// What will be done; the files are compared and nothing is touched yet.
#[derive(Debug)]
pub(crate) struct RestorePlan {
    home: CodexHome,
    aside: PathBuf,
    files: Vec<(Arriving, Difference)>,
    /// Files that come back to their places after Codex has forgotten their thread.
    returning: Vec<(PathBuf, PathBuf)>,
    moved: Vec<(RolloutPath, PathBuf)>,
}

impl RolloutRestore {
    /// Into this home; what differs there is moved into the directory `aside`, which is made when it is needed.
    #[must_use]
    pub fn new(home: CodexHome, aside: PathBuf) -> Self {
        Self {
            home,
            aside,
            arriving: Vec::new(),
        }
    }

    /// Begins a file. Those that others go on from come first, as [`CodexHome::lineage`] has them.
    pub fn file(&mut self, path: RolloutPath) -> Result<(), RolloutError> {
        let place = self.home.root().join(path.arriving());
        if let Some(directory) = place.parent() {
            make_directory(directory)?;
        }
        self.home.check_directories(&place)?;
        let mut how = OpenOptions::new();
        // Codex itself writes 0644; a thread holds what its commands read.
        how.read(true).write(true).create(true).mode(0o600);
        let file = open_ordinary(&place, &mut how)?;
        // An earlier try may have left something.
        file.set_len(0).map_err(RolloutError::io("empty", &place))?;
        self.arriving.push(Arriving {
            path,
            file,
            length: 0,
        });
        Ok(())
    }

    /// Adds stored bytes to the file that was begun last. They begin where the last ones ended.
    pub fn append(&mut self, offset: u64, bytes: &[u8]) -> Result<(), RolloutError> {
        let arriving = self.arriving.last_mut().ok_or(RolloutError::NothingBegun)?;
        if offset != arriving.length {
            return Err(RolloutError::Gap {
                path: arriving.path.as_str().to_owned(),
                expected: arriving.length,
                found: offset,
            });
        }
        let place = self.home.root().join(arriving.path.arriving());
        let written = arriving.file.write_all(bytes);
        written.map_err(RolloutError::io("write", &place))?;
        let added = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        arriving.length = arriving.length.saturating_add(added);
        Ok(())
    }

    /// Compares everything with what the home has.
    pub(crate) fn compare(self) -> Result<RestorePlan, RolloutError> {
        let mut files = Vec::new();
        for arriving in self.arriving {
            let place = self.home.root().join(arriving.path.arriving());
            let synced = arriving.file.sync_all();
            synced.map_err(RolloutError::io("sync", &place))?;
            let difference = difference(&self.home, &arriving)?;
            files.push((arriving, difference));
        }
        Ok(RestorePlan {
            home: self.home,
            aside: self.aside,
            files,
            returning: Vec::new(),
            moved: Vec::new(),
        })
    }
}

fn difference(home: &CodexHome, arriving: &Arriving) -> Result<Difference, RolloutError> {
    let Some(there) = home.file(arriving.path.rollout())? else {
        return Ok(Difference::Absent);
    };
    if there.is_compressed() != arriving.path.is_compressed() {
        return Ok(Difference::Other { there });
    }
    let place = home.place(&there);
    let failed = |error| RolloutError::io("read", &place)(error);
    let file = home.read(&there)?;
    let length = file.metadata().map_err(failed)?.len();
    let shared = length.min(arriving.length);
    if !is_equal(&file, &arriving.file, shared).map_err(failed)? {
        return Ok(Difference::Other { there });
    }
    Ok(if length < arriving.length {
        let by = arriving.length.saturating_sub(length);
        Difference::Shorter { there, by }
    } else {
        let by = length.saturating_sub(arriving.length);
        Difference::Longer { by }
    })
}

/// Whether two files begin with the same bytes.
fn is_equal(one: &File, other: &File, length: u64) -> io::Result<bool> {
    let (mut first, mut second) = (vec![0; BLOCK], vec![0; BLOCK]);
    let mut at = 0;
    while at < length {
        let part = usize::try_from(length.saturating_sub(at)).map_or(BLOCK, |left| left.min(BLOCK));
        let (Some(first), Some(second)) = (first.get_mut(..part), second.get_mut(..part)) else {
            return Ok(false);
        };
        one.read_exact_at(first, at)?;
        other.read_exact_at(second, at)?;
        if first != second {
            return Ok(false);
        }
        at = at.saturating_add(u64::try_from(part).unwrap_or(u64::MAX));
    }
    Ok(true)
}

impl RestorePlan {
    /// The threads whose files change: whatever Codex knows of them is old.
    fn changing(&self) -> BTreeSet<Uuid> {
        let changes = self
            .files
            .iter()
            .filter(|(_, difference)| !matches!(difference, Difference::Longer { .. }));
        changes
            .map(|(arriving, _)| arriving.path.thread_uuid())
            .collect()
    }

    /// The same, for Codex.
    pub(crate) fn to_forget(&self) -> Vec<ThreadId> {
        let changing = self.changing();
        let ids = changing.iter().map(|id| ThreadId::new(id.to_string()));
        ids.collect()
    }

    /// Moves out of Codex's reach what it would delete with the threads.
    pub(crate) fn set_aside(&mut self) -> Result<(), RolloutError> {
        let changing: Vec<Uuid> = self.changing().into_iter().collect();
        for thread in &changing {
            for there in self.home.files_of(*thread)? {
                self.set_file_aside(there)?;
            }
        }
        let found = self
            .files
            .iter()
            .any(|(_, difference)| !matches!(difference, Difference::Absent));
        for below in if found {
            self.home.below(&changing)?
        } else {
            Vec::new()
        } {
            copy_aside(&self.home.place(&below), &self.aside)?;
        }
        Ok(())
    }

    fn set_file_aside(&mut self, there: RolloutPath) -> Result<(), RolloutError> {
        let place = self.home.place(&there);
        let of_this = self
            .files
            .iter()
            .find(|(arriving, _)| arriving.path.rollout() == there.rollout());
        match of_this {
            // All of it is in the stored one.
            Some((_, Difference::Shorter { .. })) => {}
            Some((_, Difference::Longer { .. })) => {
                let aside = move_aside(&place, &self.aside)?;
                self.returning.push((aside, place));
            }
            Some((_, Difference::Absent | Difference::Other { .. })) | None => {
                let aside = move_aside(&place, &self.aside)?;
                self.moved.push((there, aside));
            }
        }
        Ok(())
    }

    /// Puts everything into its place.
    pub(crate) fn place(self) -> Result<Vec<RestoreOutcome>, RolloutError> {
        let Self {
            home,
            files,
            returning,
            moved,
            ..
        } = self;
        for (aside, place) in returning {
            if let Some(directory) = place.parent() {
                make_directory(directory)?;
            }
            move_file(&aside, &place)?;
        }
        let mut outcomes = Vec::new();
        for (arriving, difference) in files {
            let from = home.root().join(arriving.path.arriving());
            outcomes.push(match difference {
                Difference::Longer { by } => {
                    remove(&from)?;
                    RestoreOutcome::Kept { longer_by: by }
                }
                Difference::Absent => {
                    put(&home, &arriving.path)?;
                    RestoreOutcome::Written
                }
                Difference::Shorter { there, by } => {
                    put(&home, &arriving.path)?;
                    if there != arriving.path {
                        remove(&home.place(&there))?;
                    }
                    RestoreOutcome::Extended { by }
                }
                Difference::Other { there } => {
                    put(&home, &arriving.path)?;
                    let aside = moved.iter().find(|(path, _)| *path == there);
                    let aside = aside.map_or_else(PathBuf::new, |(_, aside)| aside.clone());
                    RestoreOutcome::Replaced { aside }
                }
            });
        }
        Ok(outcomes)
    }
}

/// The file that has arrived takes its place, for good.
fn put(home: &CodexHome, path: &RolloutPath) -> Result<(), RolloutError> {
    let (from, to) = (home.root().join(path.arriving()), home.place(path));
    home.check_directories(&to)?;
    fs::rename(&from, &to).map_err(RolloutError::io("put in its place", &to))?;
    sync_directory(&to)
}

/// A name in a directory lasts when the directory was synced.
fn sync_directory(place: &Path) -> Result<(), RolloutError> {
    let Some(directory) = place.parent() else {
        return Ok(());
    };
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(RolloutError::io("sync", directory))
}

fn make_directory(directory: &Path) -> Result<(), RolloutError> {
    let made = DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(directory);
    made.map_err(RolloutError::io("make", directory))
}

fn remove(place: &Path) -> Result<(), RolloutError> {
    match fs::remove_file(place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(RolloutError::io("remove", place)(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Moves a file into a directory, under a name that is free there.
fn move_aside(place: &Path, directory: &Path) -> Result<PathBuf, RolloutError> {
    let aside = copy_aside(place, directory)?;
    remove(place)?;
    sync_directory(place)?;
    Ok(aside)
}

/// The same file, or a copy of it, in a directory, under a name that is free there.
fn copy_aside(place: &Path, directory: &Path) -> Result<PathBuf, RolloutError> {
    make_directory(directory)?;
    let name = place.file_name().unwrap_or_default();
    for number in 0..ASIDE_MAX {
        let mut name = name.to_owned();
        if number > 0 {
            name.push(format!(".{number}"));
        }
        let aside = directory.join(name);
        match fs::hard_link(place, &aside).or_else(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Err(error),
            // Another file system.
            _ => copy(place, &aside),
        }) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(RolloutError::io("move aside", place)(error)),
            Ok(()) => {
                sync_directory(&aside)?;
                return Ok(aside);
            }
        }
    }
    Err(RolloutError::TooMany(directory.to_owned()))
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = File::open(from)?;
    let mut target = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(to)?;
    io::copy(&mut source, &mut target)?;
    target.sync_all()
}

/// Moves a file to a place where nothing is.
fn move_file(from: &Path, to: &Path) -> Result<(), RolloutError> {
    let moved = fs::hard_link(from, to).or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Err(error),
        _ => copy(from, to),
    });
    moved.map_err(RolloutError::io("bring back", to))?;
    sync_directory(to)?;
    remove(from)
}
