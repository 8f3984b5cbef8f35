//! K15: the process is killed in the middle of a migration, for real and at every stage of it. What is left is the
//! old schema or the new one, never something between, and the backup is there.

use super::*;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tells the process that is going to be killed which file it migrates, and at which step it dies.
const VICTIM: &str = "CODEX_BRIDGE_TEST_K15";

/// How many places of a migration are tried.
const KILLS: u64 = 40;

/// A migration of the kind that needs care: it rebuilds a table and moves its rows.
const REBUILD: &str = "\
    CREATE TABLE audit_new (row INTEGER PRIMARY KEY, at INTEGER NOT NULL, trace TEXT) STRICT;
    INSERT INTO audit_new SELECT row, at, actor FROM audit;
    DROP TABLE audit;
    ALTER TABLE audit_new RENAME TO audit;
    CREATE INDEX audit_at ON audit (at);
    ALTER TABLE cursor ADD COLUMN note TEXT;";

const ROWS: i64 = 200;

/// A ledger of version 1 with rows, in the mode in which ledgers are used.
fn with_rows() -> (PathBuf, TempDir) {
    let (conn, path, directory) = version_one();
    conn.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))
        .unwrap();
    conn.execute_batch("BEGIN").unwrap();
    let row = "INSERT INTO audit VALUES (?1, ?1, 'ann', 'did', 'it', hex(zeroblob(300)), NULL)";
    for n in 2..=ROWS {
        conn.execute(row, [n]).unwrap();
    }
    conn.execute_batch("COMMIT").unwrap();
    (path, directory)
}

/// Migrates, and counts SQLite's steps; dies without a warning at the step `die_at`.
fn migrate_counting(path: &Path, die_at: Option<u64>) -> u64 {
    let mut conn = Connection::open(path).unwrap();
    let steps = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&steps);
    let step = move || {
        if Some(counted.fetch_add(1, Ordering::Relaxed) + 1) == die_at {
            nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::SIGKILL).unwrap();
        }
        false
    };
    conn.progress_handler(1, Some(step)).unwrap();
    bring_up(&mut conn, path, &migrations(REBUILD)).unwrap();
    steps.load(Ordering::Relaxed)
}

/// Old or new, with all rows; what a later start makes of it is the new one.
fn expect_old_or_new(path: &Path, directory: &TempDir) -> i64 {
    let conn = Connection::open(path).unwrap();
    let found = version(&conn).unwrap();
    let column = match found {
        1 => "actor",
        2 => "trace",
        other => panic!("version {other}"),
    };
    let count = format!("SELECT count(*) FROM audit WHERE {column} = 'ann'");
    let rows = conn.query_row(&count, [], |row| row.get::<_, i64>(0));
    assert_eq!(rows, Ok(ROWS), "version {found}");
    assert_eq!(soundness(&conn), Ok(Soundness::Sound));
    assert!(found == 1 || !backups(directory).is_empty());
    drop(conn);
    let mut conn = Connection::open(path).unwrap();
    bring_up(&mut conn, path, &migrations(REBUILD)).unwrap();
    assert_eq!(version(&conn), Ok(2));
    assert!(!backups(directory).is_empty());
    for backup in backups(directory) {
        let backup = Connection::open(backup).unwrap();
        assert_eq!(version(&backup), Ok(1));
        let rows = backup.query_row("SELECT count(*) FROM audit", [], |row| row.get(0));
        assert_eq!(rows, Ok(ROWS));
    }
    found
}

#[test]
fn k15_killed_migration_leaves_valid_schema() {
    if let Ok(victim) = std::env::var(VICTIM) {
        let (die_at, path) = victim.split_once(' ').unwrap();
        migrate_counting(Path::new(path), Some(die_at.parse().unwrap()));
        panic!("it should be dead");
    }
    let (path, _directory) = with_rows();
    let steps = migrate_counting(&path, None);
    assert!(steps > KILLS, "{steps}");
    let mut found = Vec::new();
    for kill in 0..KILLS {
        let (path, directory) = with_rows();
        // The last steps are where old becomes new.
        let at = match kill % 2 {
            0 => steps - kill / 2,
            _ => 1 + steps * kill / KILLS,
        };
        let test = std::thread::current().name().unwrap().to_owned();
        let victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "--test-threads=1", &test])
            .env(VICTIM, format!("{at} {}", path.display()))
            .output()
            .unwrap();
        assert_eq!(victim.status.signal(), Some(9), "step {at}: {victim:?}");
        found.push(expect_old_or_new(&path, &directory));
    }
    assert!(found.contains(&1) && found.contains(&2), "{found:?}");
}
