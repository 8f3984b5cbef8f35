//! A copy of the ledger while it is in use: one snapshot, checked before it gets its name.
//!
//! The copy is one private file without a log beside it. Which file is copied when is decided elsewhere: by the
//! operator, and by `migrate` before it changes anything.

use super::check::{self, Soundness};
use super::files::{beside, claim_scratch, name_new, remove_if_there, sync_directory};
use super::open::{APPLICATION_ID, for_check, read_only};
use bridge_core::port::RowsError;
use rusqlite::Connection;
use rusqlite::backup::Backup as Copying;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long to wait for a process that holds the ledger's lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// A backup that is whole, checked and on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// Where it is.
    pub path: PathBuf,
    /// How big it is.
    pub bytes: u64,
    /// How many messages it holds.
    pub messages: u64,
    /// The version of its schema.
    pub version: i64,
}

/// What happens to a file that has the backup's name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and there is no backup.
    Keep,
    /// The backup takes its place once it is whole.
    Replace,
}

/// Why there is no backup. The ledger is as it was, and so is every file that was there before.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// There is nothing to copy.
    #[error("there is no database at {}; nothing was backed up", path.display())]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The name is taken.
    #[error("{} exists already and was left as it is; give another name, or replace it with `--replace`", path.display())]
    Exists { path: PathBuf },
    /// The file system refused.
    #[error("cannot {doing} {}: {source}; check its owner, its permissions and free space", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// SQLite could not read the ledger or write the copy.
    #[error("cannot copy the database to {}: {source}", path.display())]
    Copy {
        /// Where to.
        path: PathBuf,
        /// SQLite's words.
        source: rusqlite::Error,
    },
    /// The copy is not what it should be, and was removed.
    #[error("the copy of {} is not sound ({}) and was not kept; run `codex-bridge doctor`: the database itself may be damaged", path.display(), findings.join("; "))]
    Unsound {
        /// The ledger.
        path: PathBuf,
        /// What is wrong.
        findings: Vec<String>,
    },
}

/// Copies the ledger at `ledger` to `to`, also while a daemon uses it. When this returns, the copy is complete,
/// checked and synced.
pub fn back_up(ledger: &Path, to: &Path, existing: Existing) -> Result<Backup, BackupError> {
    if !ledger.exists() {
        let path = ledger.to_owned();
        return Err(BackupError::Missing { path });
    }
    let source = read_only(ledger)
        .and_then(|conn| {
            conn.busy_timeout(BUSY_TIMEOUT)?;
            Ok(conn)
        })
        .map_err(|source| copy_error(to, source))?;
    copy(&source, ledger, to, existing)
}

/// The same over a connection that is open already.
pub(super) fn copy(
    source: &Connection,
    ledger: &Path,
    to: &Path,
    existing: Existing,
) -> Result<Backup, BackupError> {
    if existing == Existing::Keep && to.exists() {
        let path = to.to_owned();
        return Err(BackupError::Exists { path });
    }
    let partial = beside(to, ".partial");
    let file = claim_scratch(&partial).map_err(file_error("write the backup", &partial))?;
    let written = write(source, ledger, &partial).and_then(|backup| {
        file.sync_all()
            .map_err(file_error("sync the backup", &partial))?;
        name(&partial, to, existing)?;
        Ok(backup)
    });
    if written.is_err() {
        // What remains is ours and useless; the error says what happened.
        let _left = remove_if_there(&partial);
    }
    written.map(|backup| Backup {
        path: to.to_owned(),
        ..backup
    })
}

fn name(partial: &Path, to: &Path, existing: Existing) -> Result<(), BackupError> {
    match existing {
        Existing::Replace => fs::rename(partial, to)
            .and_then(|()| sync_directory(to))
            .map_err(file_error("name the backup", to)),
        Existing::Keep => name_new(partial, to).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => BackupError::Exists {
                path: to.to_owned(),
            },
            _ => file_error("name the backup", to)(source),
        }),
    }
}

/// Writes and checks the copy. Rows are counted in the snapshot that is copied.
fn write(source: &Connection, ledger: &Path, partial: &Path) -> Result<Backup, BackupError> {
    let failed = |source| copy_error(partial, source);
    let snapshot = source.unchecked_transaction().map_err(failed)?;
    let expected = count_rows(&snapshot).map_err(failed)?;
    let mut target = Connection::open(partial).map_err(failed)?;
    target
        .pragma_update(None, "synchronous", "OFF")
        .map_err(failed)?;
    Copying::new(&snapshot, &mut target)
        .and_then(|copying| copying.step(-1))
        .map_err(failed)?;
    drop(snapshot);
    // Without a log beside it a copy can be moved, and opened where nothing can be written.
    target
        .pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))
        .and_then(|()| target.close().map_err(|(_, error)| error))
        .map_err(failed)?;
    verify(ledger, partial, &expected)
}

fn verify(ledger: &Path, partial: &Path, expected: &[TableCount]) -> Result<Backup, BackupError> {
    let failed = |source| copy_error(partial, source);
    let unsound = |findings| BackupError::Unsound {
        path: ledger.to_owned(),
        findings,
    };
    let copy = for_check(partial).map_err(failed)?;
    match check::thoroughly(&copy) {
        Ok(Soundness::Sound) => {}
        Ok(Soundness::Damaged { findings }) => return Err(unsound(findings)),
        Err(
            error @ (RowsError::Backend { .. }
            | RowsError::Conflict { .. }
            | RowsError::Unreadable { .. }
            | RowsError::Damaged { .. }),
        ) => return Err(unsound(vec![error.to_string()])),
    }
    let found = count_rows(&copy).map_err(failed)?;
    if found != expected {
        let finding = "it holds another number of rows than the database".to_owned();
        return Err(unsound(vec![finding]));
    }
    let pragma = |name| copy.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    if pragma("application_id").map_err(failed)? != i64::from(APPLICATION_ID) {
        return Err(unsound(vec![
            "it is no database of codex-bridge".to_owned(),
        ]));
    }
    let messages = found.iter().find(|count| count.table == "message");
    Ok(Backup {
        path: partial.to_owned(),
        bytes: fs::metadata(partial)
            .map_err(file_error("look at the backup", partial))?
            .len(),
        messages: messages.map_or(0, |count| count.rows),
        version: pragma("user_version").map_err(failed)?,
    })
}

/// How many rows a table has.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TableCount {
    table: String,
    rows: u64,
}

fn count_rows(conn: &Connection) -> Result<Vec<TableCount>, rusqlite::Error> {
    let mut tables = conn.prepare(
        "SELECT name FROM sqlite_schema \
         WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
    )?;
    let tables: Vec<String> = tables
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    tables
        .into_iter()
        .map(|table| {
            let query = format!("SELECT count(*) FROM \"{}\"", table.replace('"', "\"\""));
            let rows: i64 = conn.query_row(&query, [], |row| row.get(0))?;
            let rows = u64::try_from(rows).unwrap_or(0);
            Ok(TableCount { table, rows })
        })
        .collect()
}

fn copy_error(path: &Path, source: rusqlite::Error) -> BackupError {
    BackupError::Copy {
        path: path.to_owned(),
        source,
    }
}

fn file_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BackupError + use<> {
    let path = path.to_owned();
    move |source| BackupError::File {
        doing,
        path,
        source,
    }
}
