//! Migrations with a second version made up: the way every later one will go.

use super::*;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

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
    conn.execute_batch("INSERT INTO audit VALUES (1, 0, 'ann', 'did', 'it', '')")
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

#[test]
fn an_existing_ledger_is_backed_up_before_it_is_migrated() {
    let (mut conn, path, directory) = version_one();
    let path_of_backup = beside(&path, ".before-v2");
    bring_up(&mut conn, &path, &migrations(NEXT)).unwrap();
    assert_eq!(version(&conn), Ok(2));
    assert_eq!(names(&directory), ["ledger.db", "ledger.db.before-v2"]);
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
    let (mut conn, path, directory) = version_one();
    fs::write(beside(&path, ".before-v2"), "precious").unwrap();
    fs::write(beside(&path, ".backup-partial"), "left by a crash").unwrap();
    bring_up(&mut conn, &path, &migrations(NEXT)).unwrap();
    assert_eq!(
        names(&directory),
        ["ledger.db", "ledger.db.before-v2", "ledger.db.before-v2.1"]
    );
    let kept = fs::read_to_string(beside(&path, ".before-v2")).unwrap();
    assert_eq!(kept, "precious");
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
