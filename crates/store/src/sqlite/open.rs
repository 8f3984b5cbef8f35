//! Opening the file: private to its owner, known to be ours, migrated, and taken over by a new epoch.
//!
//! Nothing is ever deleted or overwritten here: a file that can't be used is refused with what to do.

use super::backup::BackupError;
use super::files::{PRIVATE, beside, is_link, log_index_of, log_of, sync_directory};
use super::gauge::Limits;
use super::log::{self, Log};
use super::migrate::{self, MIGRATIONS};
use crate::key::LedgerKey;
use crate::sql::audit;
use bridge_core::port::RowsError;
use bridge_core::value::{Epoch, Timestamp};
use nix::fcntl::OFlag;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// "cxbd": tells our files from other SQLite databases.
pub(super) const APPLICATION_ID: i32 = 0x6378_6264;

/// "cxbr" and "cxbl": ledgers of builds before the first release. Their schemas had versions of their own, so the version
/// number alone would not tell them from ours.
pub(super) const UNRELEASED_APPLICATION_IDS: [i32; 2] = [0x6378_6272, 0x6378_626C];

/// Where SQLite's header has that number.
const APPLICATION_ID_AT: u64 = 68;

/// Statements kept compiled per connection; more than the crate has.
const STATEMENTS_MAX: usize = 128;

/// Page cache of the writer in KiB: index leaves of recent rows stay in memory.
const WRITER_CACHE_KIB: i64 = 8 * 1024;

/// Pages in the log before a commit moves them into the database: 16 MiB, so that under load the move is
/// shared by many commits.
const CHECKPOINT_PAGES: i64 = 4_000;

/// The log is cut back to this size when it is begun again: a reader that was held open may have made it grow.
pub(super) const LOG_KEPT_BYTES: i64 = 32 * 1024 * 1024;

/// How a ledger is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Threads that read beside the writer; at least one is started.
    pub readers: u8,
    /// How long to wait for another process that holds the file's lock, such as a backup tool.
    pub busy_timeout: Duration,
    /// How long one question may hold its snapshot; a longer one is ended with an error, because the log can't be
    /// emptied behind it.
    pub read_max: Duration,
    /// Limits beyond which nothing more should be taken in.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            readers: 2,
            busy_timeout: Duration::from_secs(5),
            read_max: Duration::from_secs(30),
            limits: Limits::default(),
        }
    }
}

/// Why the ledger could not be opened. The file is as it was.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file system refused.
    #[error("cannot {doing} {}; check its owner, its permissions and free space", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// It is a symbolic link: the file may be elsewhere and belong to another user.
    #[error("{} is a symbolic link, and was left as it is, like the file that it names; put the file itself there, or name its directory with --state-dir", path.display())]
    Link {
        /// Which file.
        path: PathBuf,
    },
    /// It is some other file.
    #[error("{} is not a SQLite database, or its header is destroyed; nothing was changed. {RECOVER}", path.display())]
    NotADatabase {
        /// Which file.
        path: PathBuf,
    },
    /// It is the database of another program.
    #[error("{} is a SQLite database of another program; name another state directory", path.display())]
    Foreign {
        /// Which file.
        path: PathBuf,
    },
    /// A build from before the first release wrote it.
    #[error("{} was written by a codex-bridge from before the first release, and this one can't read it; nothing was changed. Move `ledger.db*` out of the state directory and start again with a new database, or name another directory with --state-dir", path.display())]
    Unreleased { path: PathBuf },
    /// A newer codex-bridge wrote it.
    #[error(
        "{} has schema version {found}, and this codex-bridge knows versions up to {known}; run the newer codex-bridge, or restore a backup that an older one made",
        path.display()
    )]
    Newer {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// Newest version of this program.
        known: i64,
    },
    /// It is damaged.
    #[error("{} is damaged ({}); nothing was changed. {RECOVER}", path.display(), findings.join("; "))]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// SQLite's own words.
        findings: Vec<String>,
    },
    /// A recovery was cut while it put the new ledger in place.
    #[error("a recovery of {} was cut before its end; run `codex-bridge recover` again, it goes on from there", path.display())]
    RecoveryCut {
        /// Of which file.
        path: PathBuf,
    },
    /// There is no backup, so there is no migration.
    #[error("the database must be backed up before it is migrated, and was left as it is: {0}")]
    Backup(#[from] BackupError),
    /// A migration failed and was undone.
    #[error("cannot migrate {} to schema version {version}; nothing was changed", path.display())]
    Migrate {
        /// Which file.
        path: PathBuf,
        /// To which version.
        version: i64,
        /// SQLite's words.
        source: rusqlite::Error,
    },
    /// The file system can't share memory between processes.
    #[error("{} can't use a write-ahead log here (it stays in mode {mode}); put the state directory on a local file system", path.display())]
    NoLog {
        /// Which file.
        path: PathBuf,
        /// The mode it stays in.
        mode: String,
    },
    /// SQLite refused.
    #[error("cannot open the database {}", path.display())]
    Sqlite {
        /// Which file.
        path: PathBuf,
        /// Its words.
        source: rusqlite::Error,
    },
    /// The system gives no threads.
    #[error("cannot start the database's threads; check the limits of this user")]
    Threads {
        /// The system's words.
        source: io::Error,
    },
}

/// What to do about a damaged ledger. A backup that is only copied back would run again what ran since.
const RECOVER: &str = "`codex-bridge recover` brings over what can be read and keeps this file; with `--from BACKUP` it fills the holes from a backup (they are in `backups` in the state directory, and beside the database)";

impl OpenError {
    /// Whether the file is damaged, so that starting again can't help.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            Self::NotADatabase { .. } | Self::Damaged { .. } | Self::RecoveryCut { .. } => true,
            Self::File { .. }
            | Self::Link { .. }
            | Self::Foreign { .. }
            | Self::Unreleased { .. }
            | Self::Newer { .. }
            | Self::Backup(_)
            | Self::Migrate { .. }
            | Self::NoLog { .. }
            | Self::Sqlite { .. }
            | Self::Threads { .. } => false,
        }
    }

    /// What `path` holds is not what was written.
    pub(super) fn damaged(path: &Path, finding: String) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            findings: vec![finding],
        }
    }

    /// SQLite's error about `path`; the two that need a person have variants of their own.
    pub(super) fn sqlite(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Self::NotADatabase { path },
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged {
                path,
                findings: vec![source.to_string()],
            },
            Some(_) | None => Self::Sqlite { path, source },
        }
    }
}

/// A ledger that is open but has no threads yet.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) writer: Connection,
    pub(super) readers: Vec<Connection>,
    pub(super) epoch: Epoch,
}

pub(super) fn open(path: &Path, key: &LedgerKey, options: Options) -> Result<Opened, OpenError> {
    expect_usable(path, key)?;
    let sqlite = |source| OpenError::sqlite(path, source);
    let mut writer = connect(path).map_err(sqlite)?;
    // A file that is refused stays as it is: closing would move the log into it.
    let no_move = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    writer.set_db_config(no_move, true).map_err(sqlite)?;
    writer.busy_timeout(options.busy_timeout).map_err(sqlite)?;
    migrate::check_ours(&writer, path, MIGRATIONS)?;
    set_up_log(&writer, path)?;
    migrate::bring_up(&mut writer, path, MIGRATIONS)?;
    writer
        .pragma_update(None, "foreign_keys", true)
        .map_err(sqlite)?;
    adopt(&mut writer, path, key)?;
    tell_where_record_ends(&writer, key).map_err(sqlite)?;
    let epoch = next_epoch(&mut writer).map_err(sqlite)?;
    let readers = (0..options.readers.max(1))
        .map(|_| {
            let reader = read_only(path)?;
            reader.busy_timeout(options.busy_timeout)?;
            Ok(reader)
        })
        .collect::<Result<_, _>>()
        .map_err(sqlite)?;
    writer.set_db_config(no_move, false).map_err(sqlite)?;
    Ok(Opened {
        writer,
        readers,
        epoch,
    })
}

/// Creates the ledger if there is none, takes everybody else's access to it away, and looks for damage that
/// SQLite would not tell of: it takes an empty file for a new database and removes the log beside it, and it ends
/// a damaged log at its last good entry.
fn expect_usable(path: &Path, key: &LedgerKey) -> Result<(), OpenError> {
    let failed = |doing| {
        move |source| OpenError::File {
            doing,
            path: path.to_owned(),
            source,
        }
    };
    let log = log_of(path);
    expect_no_link(path)?;
    if recovered_place(path).exists() {
        let path = path.to_owned();
        return Err(OpenError::RecoveryCut { path });
    }
    if !path.exists() {
        if log.exists() {
            return Err(damaged(path, "it is gone, and its log is there"));
        }
        // Signed before it has its name: a check beside this never meets an unsigned record.
        migrate::create(path, MIGRATIONS, |conn| adopt(conn, path, key))?;
    }
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(path)
        .map_err(failed("open the database"))?;
    // What is refused below stays as it is, and its mode too.
    if application_id(&file).map_err(failed("read"))? == Some(APPLICATION_ID) {
        file.set_permissions(Permissions::from_mode(PRIVATE))
            .map_err(failed("make private"))?;
    }
    if file.metadata().map_err(failed("look at"))?.len() == 0 {
        return Err(damaged(path, "it is empty"));
    }
    match log::examine(&log).map_err(failed("read the log of"))? {
        Log::Whole => {}
        Log::Broken { what } => return Err(damaged(path, &what)),
    }
    sync_directory(path).map_err(failed("sync the directory of"))
}

/// Refuses a ledger that is a link, or has one beside it that SQLite would write through.
pub(super) fn expect_no_link(path: &Path) -> Result<(), OpenError> {
    let files = [
        path.to_owned(),
        log_of(path),
        log_index_of(path),
        recovered_place(path),
    ];
    match files.into_iter().find(|file| is_link(file)) {
        Some(path) => Err(OpenError::Link { path }),
        None => Ok(()),
    }
}

/// The application id in the header, where the file has one.
fn application_id(file: &File) -> io::Result<Option<i32>> {
    let mut id = [0; size_of::<i32>()];
    match file.read_exact_at(&mut id, APPLICATION_ID_AT) {
        Ok(()) => Ok(Some(i32::from_be_bytes(id))),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Refuses a ledger from before the first release, by its header alone: it may be damaged.
pub(super) fn expect_released(path: &Path) -> Result<(), OpenError> {
    let id = File::open(path).and_then(|file| application_id(&file));
    // A file that can't be read is somebody else's finding.
    if id.is_ok_and(|id| id.is_some_and(|id| UNRELEASED_APPLICATION_IDS.contains(&id))) {
        let path = path.to_owned();
        return Err(OpenError::Unreleased { path });
    }
    Ok(())
}

/// Where a recovery leaves a whole new ledger until it has taken the old one's place.
pub(super) fn recovered_place(path: &Path) -> PathBuf {
    beside(path, ".recovered")
}

fn damaged(path: &Path, finding: &str) -> OpenError {
    OpenError::damaged(path, finding.to_owned())
}

fn connect(path: &Path) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    connect_with(path, flags)
}

/// Plans must not depend on bound values: without the guarantee SQLite compiles a statement anew whenever a
/// value is bound that the plan could use, such as every `LIMIT`.
fn connect_with(path: &Path, flags: OpenFlags) -> Result<Connection, rusqlite::Error> {
    let conn = Connection::open_with_flags(path, flags)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(conn)
}

/// A connection that can't write.
pub(super) fn read_only(path: &Path) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = connect_with(path, flags)?;
    conn.pragma_update(None, "query_only", true)?;
    Ok(conn)
}

/// A connection for a check of the whole file. It could write and does not: without that SQLite forgets the
/// constraints of the tables, and finds every word sound. The file stays as it is, also on closing.
pub(super) fn for_check(path: &Path) -> Result<Connection, rusqlite::Error> {
    let conn = connect(path)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    conn.pragma_update(None, "query_only", true)?;
    Ok(conn)
}

/// Accepted means on disk: every commit is synced, not only every checkpoint.
fn set_up_log(conn: &Connection, path: &Path) -> Result<(), OpenError> {
    let sqlite = |source| OpenError::sqlite(path, source);
    let mode: String = conn
        .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))
        .map_err(sqlite)?;
    if mode != "wal" {
        return Err(OpenError::NoLog {
            path: path.to_owned(),
            mode,
        });
    }
    for (pragma, value) in [
        ("synchronous", "FULL"),
        ("temp_store", "MEMORY"),
        ("cache_size", &(-WRITER_CACHE_KIB).to_string()),
    ] {
        conn.pragma_update(None, pragma, value).map_err(sqlite)?;
    }
    for (pragma, value) in [
        ("wal_autocheckpoint", CHECKPOINT_PAGES),
        ("journal_size_limit", LOG_KEPT_BYTES),
    ] {
        conn.pragma_update_and_check(None, pragma, value, |_| Ok(()))
            .map_err(sqlite)?;
    }
    Ok(())
}

/// Signs the record of acts with this key.
fn adopt(conn: &mut Connection, path: &Path, key: &LedgerKey) -> Result<(), OpenError> {
    let sqlite = |source| OpenError::sqlite(path, source);
    let failed = |error: RowsError| match error {
        RowsError::Damaged { .. } | RowsError::Unreadable { .. } => {
            damaged(path, &error.to_string())
        }
        RowsError::Backend { .. } | RowsError::Conflict { .. } => {
            sqlite(rusqlite::Error::ToSqlConversionFailure(error.into()))
        }
    };
    let now = Timestamp(jiff::Timestamp::now().as_millisecond());
    let transaction = conn
        .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
        .map_err(sqlite)?;
    let adopted = audit::adopt((&*transaction).into(), key, now).map_err(failed)?;
    let (row, _) = audit::head((&*transaction).into()).map_err(failed)?;
    transaction.commit().map_err(sqlite)?;
    if adopted && row > 0 {
        tracing::warn!(
            row,
            "the audit goes on under another key than before, and its newest entries say why; push notifications whose credentials the key can't decrypt are given up"
        );
    }
    Ok(())
}

/// Whoever puts an older ledger in place can't take this line back.
fn tell_where_record_ends(conn: &Connection, key: &LedgerKey) -> Result<(), rusqlite::Error> {
    let head = audit::head(conn.into());
    let head = head.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()));
    let (row, sum) = head?;
    if row > 0 {
        tracing::info!(row, sum, key = %key.public(), "the audit record ends here");
    }
    Ok(())
}

fn next_epoch(conn: &mut Connection) -> Result<Epoch, rusqlite::Error> {
    let transaction = conn.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let epoch = transaction.query_row(
        "UPDATE instance SET epoch = epoch + 1 WHERE id = 1 RETURNING epoch",
        [],
        |row| row.get(0),
    )?;
    transaction.commit()?;
    Ok(Epoch(epoch))
}
