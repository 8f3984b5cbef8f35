//! A copy of a database that is not ours, also while its program writes it: nothing of its schema is known here.

use rusqlite::{Connection, OpenFlags};
use std::io;
use std::path::Path;
use std::time::Duration;

/// How long a writer may keep us from reading.
const PATIENCE: Duration = Duration::from_secs(5);

/// Copies what is committed into a new file.
///
/// # Errors
///
/// The one can't be read, or the other exists or can't be written.
pub fn snapshot(from: &Path, to: &Path) -> io::Result<()> {
    copy(from, to).map_err(io::Error::other)
}

fn copy(from: &Path, to: &Path) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let database = Connection::open_with_flags(from, flags)?;
    database.busy_timeout(PATIENCE)?;
    let to = to.display().to_string();
    database.execute("VACUUM INTO ?1", [to]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshot_holds_what_is_committed() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("from"), root.path().join("to"));
        let writer = Connection::open(&from).unwrap();
        let begun = "PRAGMA journal_mode = WAL; CREATE TABLE t (x); INSERT INTO t VALUES (1);
            BEGIN; INSERT INTO t VALUES (2);";
        writer.execute_batch(begun).unwrap();
        snapshot(&from, &to).unwrap();
        let copied = Connection::open(&to).unwrap();
        let sum = copied.query_row("SELECT sum(x) FROM t", [], |row| row.get::<_, i64>(0));
        assert_eq!(sum.unwrap(), 1);
        assert!(snapshot(&from, &to).is_err(), "nothing is overwritten");
    }
}
