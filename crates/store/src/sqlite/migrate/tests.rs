//! Migrations with a second version made up: the way every later one will go.

use super::*;
use crate::sqlite::files::PRIVATE;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use tempfile::TempDir;

mod killed;
mod rebuild;

const NEXT: &str = "ALTER TABLE audit ADD COLUMN trace TEXT";

fn migrations(next: &'static str) -> [&'static str; 2] {
    [MIGRATIONS[0], next]
}

/// A ledger of version 1 with one row.
fn version_one() -> (Connection, PathBuf, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger.db");
    let mut conn = Connection::open(&path).unwrap();
    bring_up(&mut conn, &path, &MIGRATIONS[..1]).unwrap();
    conn.execute_batch("INSERT INTO audit VALUES (1, 0, 'ann', 'did', 'it', '', NULL)")
        .unwrap();
    (conn, path, directory)
}

fn names(directory: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(directory.path()).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_new_ledger_needs_no_backup() {
    let (conn, path, directory) = version_one();
    assert_eq!(version(&conn), Ok(1));
    check_ours(&conn, &path, MIGRATIONS).unwrap();
    assert_eq!(names(&directory), ["ledger.db"]);
}

/// The backups that migrations made, oldest first.
fn backups(directory: &TempDir) -> Vec<PathBuf> {
    let mut names = names(directory);
    names.retain(|name| name.starts_with("ledger.db.before-v") && !name.ends_with(".partial"));
    let at = |name: &String| directory.path().join(name);
    names.iter().map(at).collect()
}

#[test]
fn backs_up_ledger_before_migration() {
    let (mut conn, path, directory) = version_one();
    bring_up(&mut conn, &path, &migrations(NEXT)).unwrap();
    assert_eq!(version(&conn), Ok(2));
    let [path_of_backup] = backups(&directory).try_into().unwrap();
    let name = path_of_backup.file_name().unwrap().to_str().unwrap();
    assert!(
        name.starts_with("ledger.db.before-v2-20") && name.ends_with('Z'),
        "{name}"
    );
    assert_eq!(names(&directory), ["ledger.db", name]);
    let mode = fs::metadata(&path_of_backup).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, PRIVATE);
    let backup = Connection::open(&path_of_backup).unwrap();
    assert_eq!(version(&backup), Ok(1));
    assert_eq!(soundness(&backup), Ok(Soundness::Sound));
    let rows = backup.query_row("SELECT count(*) FROM audit", [], |row| row.get(0));
    assert_eq!(rows, Ok(1));
}

#[test]
fn an_older_backup_is_never_overwritten() {
    let (conn, path, directory) = version_one();
    let first = back_up(&conn, &path, 2).unwrap();
    fs::write(&first.path, "precious").unwrap();
    let second = back_up(&conn, &path, 2).unwrap();
    assert_ne!(first.path, second.path);
    assert_eq!(fs::read_to_string(&first.path).unwrap(), "precious");
    assert_eq!(backups(&directory).len(), 2);
}

#[test]
fn prunes_only_old_migration_backups() {
    let (mut conn, path, directory) = version_one();
    for name in [
        ".before-v2",
        ".before-v2-mine",
        ".before-v2-20990101T000000Z.old",
        ".before-v1-20200101T000000Z",
        ".before-v2-20190101T000000Z",
        ".before-v2-20200101T000000Z",
        ".before-v2-20200101T000000Z.1",
    ] {
        fs::write(beside(&path, name), "").unwrap();
    }
    bring_up(&mut conn, &path, &migrations(NEXT)).unwrap();
    let kept = backups(&directory);
    let mut kept: Vec<_> = kept.iter().map(|path| path.to_str().unwrap()).collect();
    let newest = kept.iter().position(|name| {
        name.contains("-v2-20") && !name.contains("-20200101") && !name.ends_with(".old")
    });
    kept.remove(newest.unwrap());
    let kept: Vec<_> = kept
        .iter()
        .map(|name| name.split_once(".before-").unwrap().1)
        .collect();
    assert_eq!(
        kept,
        [
            "v2",
            "v2-20200101T000000Z",
            "v2-20200101T000000Z.1",
            "v2-20990101T000000Z.old",
            "v2-mine"
        ]
    );
}

#[test]
fn a_failing_migration_changes_nothing() {
    let (mut conn, path, _directory) = version_one();
    let broken = "DROP TABLE audit; CREATE TABLE audit (this is not sql";
    let error = bring_up(&mut conn, &path, &migrations(broken)).unwrap_err();
    assert!(
        matches!(error, OpenError::Migrate { version: 2, .. }),
        "{error}"
    );
    assert_eq!(version(&conn), Ok(1));
    let rows = conn.query_row("SELECT count(*) FROM audit", [], |row| row.get(0));
    assert_eq!(rows, Ok(1));
}

#[test]
fn a_damaged_ledger_is_not_migrated() {
    let (conn, path, directory) = version_one();
    drop(conn);
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 4096;
    bytes[last..].fill(0xA5);
    fs::write(&path, bytes).unwrap();
    let mut conn = Connection::open(&path).unwrap();
    let error = bring_up(&mut conn, &path, &migrations(NEXT)).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    assert_eq!(names(&directory), ["ledger.db"]);
}

#[test]
fn a_newer_ledger_is_refused() {
    let (mut conn, path, _directory) = version_one();
    bring_up(&mut conn, &path, &migrations(NEXT)).unwrap();
    let error = check_ours(&conn, &path, &MIGRATIONS[..1]).unwrap_err();
    let newer = matches!(
        error,
        OpenError::Newer {
            found: 2,
            known: 1,
            ..
        }
    );
    assert!(newer, "{error}");
}
