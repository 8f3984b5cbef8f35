//! Copies of Codex's databases, made before a newer Codex migrates them. They are kept for people: every Codex that was
//! tried opens what a newer one migrated, and putting a copy back would forget the threads begun since.
//!
//! The projection of histories and the logs are left out: Codex makes the one again from its threads' files, and can do
//! without the other.

use super::record::make;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Copies a database into a new file, also while another program writes it.
pub type Snapshot = fn(&Path, &Path) -> io::Result<()>;

/// Copies that are kept of a home.
const COPIES_MAX: usize = 2;
/// A larger database is not copied.
const BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Databases in a home; Codex 0.166 has five.
const DATABASES_MAX: usize = 32;
const LEFT_OUT: [&str; 2] = ["logs_", "thread_history_"];

/// Copies what a newer Codex may migrate into a directory of this name below `directory`; each database is consistent,
/// also while Codex writes it.
pub(super) fn copy(
    home: &Path,
    directory: &Path,
    name: &str,
    snapshot: Snapshot,
) -> io::Result<PathBuf> {
    let place = directory.join(name);
    if place.exists() {
        fs::remove_dir_all(&place)?;
    }
    make(&place)?;
    for path in databases(home)? {
        let Some(file) = path.file_name() else {
            continue;
        };
        snapshot(&path, &place.join(file))?;
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
    fn copies_leave_out_and_are_bounded() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("home");
        fs::create_dir(&home).unwrap();
        for name in ["state_5.sqlite", "logs_2.sqlite", "config.toml"] {
            fs::write(home.join(name), name).unwrap();
        }
        let copies = root.path().join("copies");
        for name in ["a", "b", "c", "c"] {
            copy(&home, &copies, name, |from, to| {
                fs::copy(from, to).map(drop)
            })
            .unwrap();
        }
        let files = fs::read_dir(copies.join("c")).unwrap().flatten();
        let names: Vec<_> = files.map(|file| file.file_name()).collect();
        assert_eq!(names, ["state_5.sqlite"]);
        assert_eq!(fs::read_dir(&copies).unwrap().count(), COPIES_MAX);
    }
}
