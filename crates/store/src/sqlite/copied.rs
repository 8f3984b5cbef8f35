//! A file that a ledger is copied from or to.
//!
//! The new file gets its name when it is whole, checked and on disk, so half of a copy is never taken for a ledger.

use super::check::{self, Depth, Inspection, Soundness, inspect};
use super::files::{beside, claim_scratch, is_link, log_of, name_new, remove_if_there};
use super::migrate::{self, MIGRATIONS};
use super::open::{OpenError, expect_released, for_check, recovered_place};
use crate::copy::{CopyError, CopyTable};
use crate::sql::{self, Conn};
use bridge_core::port::RowsError;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Page cache of the copy in KiB: its indexes are written in the order of other keys.
const CACHE_KIB: i64 = 64 * 1024;

/// Opens the ledger at `path` for reading, and begins a snapshot of it. Nobody else may write to it meanwhile.
pub(crate) fn source(path: &Path) -> Result<Connection, CopyError> {
    expect_released(path)?;
    match inspect(path, Depth::Quick)? {
        Inspection::Sound { .. } => {}
        Inspection::Missing => {
            let place = path.display().to_string();
            return Err(CopyError::Missing { place });
        }
        Inspection::Damaged { findings } => {
            let path = path.to_owned();
            return Err(OpenError::Damaged { path, findings }.into());
        }
        Inspection::RecoveryCut => {
            let path = path.to_owned();
            return Err(OpenError::RecoveryCut { path }.into());
        }
    }
    let sqlite = |source| OpenError::sqlite(path, source);
    let conn = for_check(path).map_err(sqlite)?;
    let version = conn.pragma_query_value(None, "user_version", |row| row.get(0));
    let (found, known): (i64, _) = (version.map_err(sqlite)?, MIGRATIONS.len());
    let known = i64::try_from(known).unwrap_or(i64::MAX);
    if found < known {
        return Err(CopyError::Older {
            place: path.display().to_string(),
            found,
            known,
        });
    }
    conn.execute_batch("BEGIN").map_err(sqlite)?;
    Ok(conn)
}

/// Passes the rows of a statement on.
pub(crate) fn each(
    conn: &Connection,
    sql: &str,
    mut take: impl FnMut(&Row<'_>) -> Result<(), RowsError>,
) -> Result<(), RowsError> {
    let mut statement = conn.prepare_cached(sql).map_err(sql::failed)?;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(sql::failed)? {
        take(row)?;
    }
    Ok(())
}

/// A file that is being made.
pub(crate) struct CopiedFile {
    path: PathBuf,
    partial: PathBuf,
    file: File,
    conn: Connection,
}

impl CopiedFile {
    /// Makes the tables in a file beside `path`, where nothing may be, and begins the one transaction of the copy.
    pub(crate) fn begin(path: &Path) -> Result<Self, CopyError> {
        expect_nothing(path)?;
        let partial = beside(path, ".copying");
        let file = claim_scratch(&partial).map_err(CopyError::disk("write", &partial))?;
        match tables_in(&partial) {
            Ok(conn) => Ok(Self {
                path: path.to_owned(),
                partial,
                file,
                conn,
            }),
            Err(error) => {
                // What remains is ours and useless; the error says what happened.
                let _left = remove_if_there(&partial);
                Err(error.into())
            }
        }
    }

    pub(crate) fn place(&self) -> String {
        self.path.display().to_string()
    }

    pub(crate) fn conn(&self) -> Conn<'_> {
        Conn::Sqlite(&self.conn)
    }

    /// Writes rows, each with a value for every column.
    pub(crate) fn write_rows(
        &self,
        table: &CopyTable,
        rows: Vec<Vec<Value>>,
    ) -> Result<(), RowsError> {
        let places: Vec<String> = (1..=table.columns.len())
            .map(|at| format!("?{at}"))
            .collect();
        let insert = format!(
            "INSERT INTO {} ({}) VALUES ({})",
            table.name,
            table.list(),
            places.join(", ")
        );
        let mut insert = self.conn.prepare_cached(&insert).map_err(sql::failed)?;
        for row in rows {
            insert.execute(params_from_iter(row)).map_err(sql::failed)?;
        }
        Ok(())
    }

    /// Commits, checks the whole file and gives it its name.
    pub(crate) fn commit(self) -> Result<(), CopyError> {
        let done = self.finish();
        let Self { partial, conn, .. } = self;
        drop(conn);
        if done.is_err() {
            let _left = remove_if_there(&partial);
        }
        done
    }

    fn finish(&self) -> Result<(), CopyError> {
        let sqlite = |source| OpenError::sqlite(&self.partial, source);
        self.conn.execute_batch("COMMIT").map_err(sqlite)?;
        let doing = || format!("check {}", self.partial.display());
        match check::thoroughly(&self.conn).map_err(CopyError::rows(doing()))? {
            Soundness::Sound => {}
            Soundness::Damaged { findings } => {
                let place = self.place();
                return Err(CopyError::Unsound { place, findings });
            }
        }
        self.file
            .sync_all()
            .map_err(CopyError::disk("sync", &self.partial))?;
        match name_new(&self.partial, &self.path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(taken(&self.path)),
            named => named.map_err(CopyError::disk("name", &self.path)),
        }
    }

    /// Removes what was written.
    pub(crate) fn roll_back(self) {
        let Self { partial, conn, .. } = self;
        drop(conn);
        let _left = remove_if_there(&partial);
    }
}

/// A new file with our tables, in which a transaction has begun. Nobody has it before it is whole, so it needs no journal.
fn tables_in(partial: &Path) -> Result<Connection, OpenError> {
    let sqlite = |source| OpenError::sqlite(partial, source);
    let mut conn = Connection::open(partial).map_err(sqlite)?;
    conn.execute_batch(&format!(
        "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA cache_size = -{CACHE_KIB}"
    ))
    .map_err(sqlite)?;
    migrate::bring_up(&mut conn, partial, MIGRATIONS)?;
    conn.execute_batch(
        "PRAGMA journal_mode = OFF; PRAGMA foreign_keys = ON; BEGIN; DELETE FROM instance",
    )
    .map_err(sqlite)?;
    Ok(conn)
}

/// The new ledger must find its name free, and nothing beside it that SQLite or a recovery would take for a part of it.
fn expect_nothing(path: &Path) -> Result<(), CopyError> {
    let there = |path: &Path| is_link(path) || path.exists();
    match [path.to_owned(), log_of(path), recovered_place(path)]
        .iter()
        .find(|path| there(path))
    {
        Some(path) => Err(taken(path)),
        None => Ok(()),
    }
}

fn taken(path: &Path) -> CopyError {
    CopyError::NotEmpty {
        place: path.display().to_string(),
        found: "exists already".to_owned(),
        then: "give another name, such as `ledger.db` in a new state directory (made by `mkdir -m 700`)",
    }
}
