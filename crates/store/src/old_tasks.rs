//! Reads the database of the older `codex_bridge` tool (`codex_bridge.db`), which is never written.
//!
//! Older versions of the tool had fewer columns: what is missing is not known. Every text, the number of rows and the
//! time of the read are bounded, because the file is another program's.

use bridge_core::limits::{
    EVENT_TEXT_MAX_CHARS, IMPORTED_EVENTS_PER_TASK_MAX, IMPORTED_TASKS_MAX, REASON_MAX_CHARS,
};
use bridge_core::step::{OldEvent, OldTask};
use bridge_core::value::Timestamp;
use nix::fcntl::OFlag;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Row};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const TASKS: &str = "codex_bridge_tasks";
const EVENTS: &str = "codex_bridge_events";
/// How every SQLite database begins.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// Where its header says whether it has a write-ahead log, and the number that says so.
const JOURNAL_AT: usize = 18;
const WRITE_AHEAD: u8 = 2;
/// How long another process may hold the file.
const BUSY: Duration = Duration::from_secs(5);
/// How long the whole read may take.
const READ_MAX: Duration = Duration::from_secs(20);
/// SQLite's steps between two looks at the clock.
const STEPS_PER_LOOK: i32 = 10_000;
/// Longest id, path or word that is read.
const WORD_MAX_CHARS: usize = 4_096;

/// Why the tasks of a file can't be read. It is as it was.
#[derive(Debug, thiserror::Error)]
pub enum OldTasksError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it is no regular file")]
    NoFile,
    #[error("it belongs to another user")]
    Foreign,
    #[error("it is no SQLite database, or its beginning is destroyed")]
    NotADatabase,
    #[error("it has no table {TASKS}, so it is not the database of the codex_bridge tool")]
    NoTable,
    /// What it holds can only be known by writing to it.
    #[error("{} holds changes that are not in it yet: stop the program that uses it, or start and stop the older tool once", .0.display())]
    Unsettled(PathBuf),
    #[error("it can't be read: {0}")]
    Sqlite(#[from] rusqlite::Error),
}

/// The newest tasks of the file, oldest first; `None` if there is no file.
pub fn read_old_tasks(path: &Path) -> Result<Option<Vec<OldTask>>, OldTasksError> {
    let Some(header) = header(path)? else {
        return Ok(None);
    };
    let conn = open(path, header.get(JOURNAL_AT) == Some(&WRITE_AHEAD))?;
    let columns = columns(&conn, TASKS)?;
    if !columns.contains("hermes_task_id") || !columns.contains("status") {
        return Err(OldTasksError::NoTable);
    }
    let mut tasks = tasks(&conn, &columns)?;
    let known = self::columns(&conn, EVENTS)?;
    if known.contains("hermes_task_id") && known.contains("source_event_type") {
        for task in &mut tasks {
            task.events = events(&conn, &known, &task.task_id)?;
        }
    }
    Ok(Some(tasks))
}

/// The beginning of the file, once it is known to be a database of ours to read. A pipe would never end.
fn header(path: &Path) -> Result<Option<Vec<u8>>, OldTasksError> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path);
    let file: File = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(OldTasksError::NoFile);
    }
    let owner = metadata.uid();
    if owner != nix::unistd::geteuid().as_raw() && owner != 0 {
        return Err(OldTasksError::Foreign);
    }
    let mut header = Vec::new();
    file.take(100).read_to_end(&mut header)?;
    if header.starts_with(MAGIC) {
        Ok(Some(header))
    } else {
        Err(OldTasksError::NotADatabase)
    }
}

/// A connection that can't write. One with a write-ahead log would make files beside the database, so it is opened as
/// a file that nobody changes; that is true only while its log is empty.
fn open(path: &Path, write_ahead: bool) -> Result<Connection, OldTasksError> {
    for end in ["-journal", "-wal"] {
        let mut beside = OsString::from(path);
        beside.push(end);
        let beside = PathBuf::from(beside);
        if std::fs::metadata(&beside).is_ok_and(|found| found.len() > 0) {
            return Err(OldTasksError::Unsettled(beside));
        }
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let mut conn = Connection::open_with_flags(uri(path, write_ahead), flags)?;
    conn.busy_timeout(BUSY)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    conn.pragma_update(None, "query_only", true)?;
    let begun = Instant::now();
    conn.progress_handler(STEPS_PER_LOOK, Some(move || begun.elapsed() > READ_MAX))?;
    Ok(conn)
}

/// The file as SQLite names it: every byte that could mean something else is encoded.
fn uri(path: &Path, unchanged: bool) -> String {
    use std::fmt::Write as _;
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'-' | b'_') {
            uri.push(char::from(*byte));
        } else {
            let _infallible = write!(uri, "%{byte:02X}");
        }
    }
    uri.push_str("?mode=ro");
    if unchanged {
        uri.push_str("&immutable=1");
    }
    uri
}

/// The columns of a table; none if there is no such table. A view could run anything, so it is none.
fn columns(conn: &Connection, table: &str) -> Result<BTreeSet<String>, OldTasksError> {
    let mut query = conn.prepare(
        "SELECT name FROM pragma_table_info(?1) \
         WHERE EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1)",
    )?;
    let names = query.query_map([table], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

/// A text column, cut; NULL where the table has none.
fn text(columns: &BTreeSet<String>, name: &str, max: usize) -> String {
    if columns.contains(name) {
        format!("substr(CAST(\"{name}\" AS TEXT), 1, {max})")
    } else {
        "NULL".to_owned()
    }
}

/// A time column in milliseconds; NULL where the table has none. Beyond the year 9999 nothing happened.
fn time(columns: &BTreeSet<String>, name: &str) -> String {
    if columns.contains(name) {
        format!("CAST(min(max(CAST(\"{name}\" AS REAL), 0.0), 253402300799.0) * 1000 AS INTEGER)")
    } else {
        "NULL".to_owned()
    }
}

fn tasks(conn: &Connection, columns: &BTreeSet<String>) -> Result<Vec<OldTask>, OldTasksError> {
    let word = |name| text(columns, name, WORD_MAX_CHARS);
    let long = |name| text(columns, name, REASON_MAX_CHARS);
    let selected = [
        word("hermes_task_id"),
        word("status"),
        long("prompt_summary"),
        word("codex_thread_id"),
        word("codex_turn_id"),
        word("cwd"),
        word("model"),
        word("sandbox"),
        word("approval_policy"),
        long("last_progress_summary"),
        long("final_summary"),
        long("error_summary"),
        word("notify_target"),
        word("notification_status"),
        long("notification_error"),
        time(columns, "notified_at"),
        time(columns, "created_at"),
        time(columns, "updated_at"),
        time(columns, "completed_at"),
    ];
    let mut newest = ["updated_at", "created_at"].into_iter();
    let newest = newest.find(|name| columns.contains(*name));
    let query = format!(
        "SELECT {} FROM {TASKS} WHERE hermes_task_id <> '' ORDER BY {} DESC, rowid DESC LIMIT {IMPORTED_TASKS_MAX}",
        selected.join(", "),
        newest.unwrap_or("rowid"),
    );
    let mut query = conn.prepare(&query)?;
    let found = query.query_map([], read_task)?;
    let mut tasks = found.collect::<Result<Vec<_>, _>>()?;
    tasks.reverse();
    Ok(tasks)
}

fn read_task(row: &Row<'_>) -> rusqlite::Result<OldTask> {
    let time = |at: usize| row.get::<_, Option<i64>>(at).map(|ms| ms.map(Timestamp));
    let created_at = time(16)?.unwrap_or(Timestamp(0));
    Ok(OldTask {
        task_id: row.get(0)?,
        status: row.get::<_, Option<String>>(1)?.unwrap_or_default(),
        prompt_summary: row.get(2)?,
        thread: row.get(3)?,
        turn: row.get(4)?,
        cwd: row.get(5)?,
        model: row.get(6)?,
        sandbox: row.get(7)?,
        approval_policy: row.get(8)?,
        last_progress: row.get(9)?,
        final_summary: row.get(10)?,
        error_summary: row.get(11)?,
        notify_target: row.get(12)?,
        notification_status: row.get(13)?,
        notification_error: row.get(14)?,
        notified_at: time(15)?,
        created_at,
        updated_at: time(17)?.unwrap_or(created_at),
        completed_at: time(18)?,
        events: Vec::new(),
    })
}

fn events(
    conn: &Connection,
    columns: &BTreeSet<String>,
    task_id: &str,
) -> Result<Vec<OldEvent>, OldTasksError> {
    let query = format!(
        "SELECT {}, {}, {}, {} FROM {EVENTS} WHERE hermes_task_id = ?1 ORDER BY rowid DESC \
         LIMIT {IMPORTED_EVENTS_PER_TASK_MAX}",
        text(columns, "source_event_type", WORD_MAX_CHARS),
        text(columns, "normalized_status", WORD_MAX_CHARS),
        text(columns, "payload_summary", EVENT_TEXT_MAX_CHARS),
        time(columns, "created_at"),
    );
    let mut query = conn.prepare_cached(&query)?;
    let found = query.query_map([task_id], |row| {
        Ok(OldEvent {
            source: row.get::<_, Option<String>>(0)?.unwrap_or_default(),
            status: row.get(1)?,
            summary: row.get::<_, Option<String>>(2)?.unwrap_or_default(),
            at: Timestamp(row.get::<_, Option<i64>>(3)?.unwrap_or(0)),
        })
    })?;
    let mut events = found.collect::<Result<Vec<_>, _>>()?;
    events.reverse();
    Ok(events)
}

#[cfg(test)]
mod tests;
