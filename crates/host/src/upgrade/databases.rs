//! Copies of Codex's databases, made before a newer Codex migrates them. They are kept for people: every Codex that was
//! tried opens what a newer one migrated, and putting a copy back would forget the threads begun since.
//!
//! The projection of histories and the logs are left out: Codex makes the one again from its threads' files, and can do
//! without the other.

use super::record::make;
use rusqlite::{Connection, OpenFlags};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Copies that are kept of a home.
const COPIES_MAX: usize = 2;
/// A larger database is not copied.
const BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Databases in a home; Codex 0.166 has five.
const DATABASES_MAX: usize = 32;
/// How long a writer may keep us from reading.
const PATIENCE: Duration = Duration::from_secs(5);
const LEFT_OUT: [&str; 2] = ["logs_", "thread_history_"];

/// Copies what a newer Codex may migrate into a directory of this name below `directory`; each database is consistent,
/// also while Codex writes it.
pub(super) fn copy(home: &Path, directory: &Path, name: &str) -> io::Result<PathBuf> {
    let place = directory.join(name);
    if place.exists() {
        fs::remove_dir_all(&place)?;
    }
    make(&place)?;
    for path in databases(home)? {
        let Some(file) = path.file_name() else {
            continue;
        };
        copy_one(&path, &place.join(file)).map_err(io::Error::other)?;
    }
    prune(directory, &place)?;
    Ok(place)
}

fn databases(home: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(home)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let wanted = name.ends_with(".sqlite") && !LEFT_OUT.iter().any(|out| name.starts_with(out));
        let bytes = entry.metadata().map_or(0, |found| found.len());
        if wanted && bytes > BYTES_MAX {
            tracing::warn!(name, bytes, "a database of codex is too large to be copied");
        } else if wanted && found.len() < DATABASES_MAX {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn copy_one(from: &Path, to: &Path) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let database = Connection::open_with_flags(from, flags)?;
    database.busy_timeout(PATIENCE)?;
    let to = to.display().to_string();
    database.execute("VACUUM INTO ?1", [to]).map(drop)
}

/// Removes older copies.
fn prune(directory: &Path, newest: &Path) -> io::Result<()> {
    let mut copies = Vec::new();
    for entry in fs::read_dir(directory)?.flatten() {
        let made = entry.metadata().and_then(|found| found.modified());
        if let Ok(made) = made
            && entry.path() != newest
        {
            copies.push((made, entry.path()));
        }
    }
    copies.sort_by(|one, other| other.cmp(one));
    for (_, path) in copies.into_iter().skip(COPIES_MAX.saturating_sub(1)) {
        fs::remove_dir_all(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_consistent_and_bounded() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("home");
        fs::create_dir(&home).unwrap();
        let state = Connection::open(home.join("state_5.sqlite")).unwrap();
        let setup = "PRAGMA journal_mode = WAL; CREATE TABLE t (x); INSERT INTO t VALUES (1);";
        state.execute_batch(setup).unwrap();
        fs::write(home.join("logs_2.sqlite"), "large").unwrap();
        fs::write(home.join("config.toml"), "").unwrap();
        // A transaction that is not committed is not in it.
        state.execute_batch("BEGIN; INSERT INTO t VALUES (2);").unwrap();
        let copies = root.path().join("copies");
        for name in ["a", "b", "c", "c"] {
            copy(&home, &copies, name).unwrap();
        }
        let files: Vec<_> = fs::read_dir(copies.join("c")).unwrap().flatten().collect();
        assert_eq!(files.len(), 1);
        let copied = Connection::open(files[0].path()).unwrap();
        let rows: i64 = copied.query_row("SELECT sum(x) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 1);
        assert_eq!(fs::read_dir(&copies).unwrap().count(), COPIES_MAX);
    }
}
