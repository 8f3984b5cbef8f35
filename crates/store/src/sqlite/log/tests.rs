//! A log that SQLite wrote, damaged byte by byte: what SQLite would drop in silence is found, a torn end is not.

use super::*;
use rusqlite::Connection;
use std::fs;
use tempfile::TempDir;

const COMMITS: i64 = 6;

/// A database whose rows are all in its log, as after a kill.
fn logged() -> (Vec<u8>, Vec<u8>, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (a, b)",
    )
    .unwrap();
    for n in 1..=COMMITS {
        let sql = "INSERT INTO t VALUES (?1, hex(zeroblob(3000)))";
        conn.execute(sql, [n]).unwrap();
    }
    let files = (
        fs::read(&path).unwrap(),
        fs::read(path.with_file_name("db-wal")).unwrap(),
    );
    (files.0, files.1, directory)
}

/// How many rows SQLite finds with this log, or none if it refuses.
fn rows(database: &[u8], log: &[u8]) -> Option<i64> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    fs::write(&path, database).unwrap();
    fs::write(path.with_file_name("db-wal"), log).unwrap();
    let conn = Connection::open(&path).unwrap();
    let count = conn.query_row("SELECT count(*) FROM t", [], |row| row.get(0));
    count.ok()
}

#[test]
fn absent_or_torn_log_is_whole() {
    let (database, log, directory) = logged();
    assert_eq!(rows(&database, &log), Some(COMMITS));
    assert_eq!(scan(log.as_slice()).unwrap(), Log::Whole);
    assert_eq!(examine(&directory.path().join("none")).unwrap(), Log::Whole);
    for end in (0..log.len()).step_by(97) {
        assert_eq!(scan(&log[..end]).unwrap(), Log::Whole, "cut at {end}");
    }
    let torn = [log.as_slice(), &[0xA5; 9_000]].concat();
    assert_eq!(scan(torn.as_slice()).unwrap(), Log::Whole);
    assert_eq!(scan([0; 40_000].as_slice()).unwrap(), Log::Whole);
    let zeroed = [log.as_slice(), &[0; 40_000]].concat();
    assert_eq!(scan(zeroed.as_slice()).unwrap(), Log::Whole);
}

/// Every flipped byte either changes nothing that was committed before the last commit, or is found.
#[test]
fn s3_detects_silently_dropped_commits() {
    let (database, log, _directory) = logged();
    let mut found = 0;
    for at in (0..log.len()).step_by(61) {
        let mut flipped = log.clone();
        flipped[at] ^= 0x10;
        let left = rows(&database, &flipped);
        match scan(flipped.as_slice()).unwrap() {
            Log::Broken { .. } => found += 1,
            Log::Whole => assert!(
                left.is_some_and(|left| left >= COMMITS - 2),
                "byte {at}: {left:?}"
            ),
        }
    }
    assert!(found > 50, "only {found}");
}

/// A log that was begun again has frames of the one before behind its own; they are not damage.
#[test]
fn stale_frames_are_not_damage() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (a, b)")
        .unwrap();
    let insert = "INSERT INTO t VALUES (1, hex(zeroblob(3000)))";
    for _ in 0..20 {
        conn.execute(insert, []).unwrap();
    }
    conn.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()))
        .unwrap();
    for _ in 0..5 {
        conn.execute(insert, []).unwrap();
    }
    assert_eq!(examine(&path.with_file_name("db-wal")).unwrap(), Log::Whole);
}
