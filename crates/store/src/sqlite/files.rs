//! The files around a ledger: their names, their privacy, and the few moves that survive a crash.
//!
//! No SQL here, and no file is deleted that could hold rows.

use nix::fcntl::OFlag;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Readable and writable by the owner alone. SQLite gives the log and its index the same mode.
pub(crate) const PRIVATE: u32 = 0o600;

/// `path` with something behind its name.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Whether a name is a symbolic link, wherever it points.
pub(super) fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_symlink())
}

/// SQLite's write-ahead log of a database.
pub(super) fn log_of(path: &Path) -> PathBuf {
    beside(path, "-wal")
}

/// The shared index of that log; it can be made again from the log.
pub(super) fn log_index_of(path: &Path) -> PathBuf {
    beside(path, "-shm")
}

/// A time as names have it: sortable, in UTC, without characters that a shell or another system minds.
pub(super) fn stamp(at: jiff::Timestamp) -> String {
    at.strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// Makes the names in a file's directory durable.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        Some(_) | None => File::open(".")?.sync_all(),
    }
}

/// A private file that is empty and locked for us. An existing file was left by a crash, because a living
/// owner holds the lock.
pub(super) fn claim_scratch(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(PRIVATE)
        // It is emptied below: a link that somebody planted there must not name what is.
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(path)?;
    file.try_lock().map_err(|error| match error {
        fs::TryLockError::WouldBlock => io::Error::new(
            io::ErrorKind::ResourceBusy,
            "another process is writing it now",
        ),
        fs::TryLockError::Error(error) => error,
    })?;
    file.set_len(0)?;
    file.set_permissions(Permissions::from_mode(PRIVATE))?;
    Ok(file)
}

/// Gives a whole file its name without ever taking the name of another one.
pub(super) fn name_new(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from)?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
        // Some file systems have no hard links: an empty file takes the name, and the whole one replaces it.
        Err(_) => {
            OpenOptions::new().write(true).create_new(true).open(to)?;
            fs::rename(from, to)?;
        }
    }
    sync_directory(to)
}

/// Removes a file that may be gone already.
pub(super) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
