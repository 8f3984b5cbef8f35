//! The schema's versions: forward only, one transaction each, with a check and a backup before.
//!
//! The SQL is in `schema/`, one numbered file per version; a file that has shipped is never edited.

use super::check::{Soundness, soundness};
use super::open::{APPLICATION_ID, OpenError, PRIVATE, sync_directory};
use bridge_core::port::RowsError;
use rusqlite::backup::Backup;
use rusqlite::{Connection, TransactionBehavior};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The SQL that leads to version 1, 2, and so on.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("../../schema/0001_ledger.sql"),
    include_str!("../../schema/0002_whole_life.sql"),
];

/// Backups of one version that may lie beside the ledger before a person must tidy up.
const BACKUPS_MAX: u32 = 100;

/// Refuses a file that is not ours or is newer than we are, before anything is written to it.
pub(super) fn check_ours(
    conn: &Connection,
    path: &Path,
    migrations: &[&str],
) -> Result<(), OpenError> {
    let sqlite = |source| OpenError::sqlite(path, source);
    let found = version(conn).map_err(sqlite)?;
    let owner: i32 = conn
        .pragma_query_value(None, "application_id", |row| row.get(0))
        .map_err(sqlite)?;
    let tables: i64 = conn
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(sqlite)?;
    let empty = tables == 0 && found == 0 && owner == 0;
    if !empty && owner != APPLICATION_ID {
        return Err(OpenError::Foreign {
            path: path.to_owned(),
        });
    }
    let known = i64::try_from(migrations.len()).unwrap_or(i64::MAX);
    if found > known {
        return Err(OpenError::Newer {
            path: path.to_owned(),
            found,
            known,
        });
    }
    Ok(())
}

/// Brings the schema to the newest version. An existing ledger is checked and backed up before each step.
pub(super) fn bring_up(
    conn: &mut Connection,
    path: &Path,
    migrations: &[&str],
) -> Result<(), OpenError> {
    let found = version(conn).map_err(|source| OpenError::sqlite(path, source))?;
    for (migration, version) in migrations.iter().zip(1_i64..) {
        if version <= found {
            continue;
        }
        if version > 1 {
            require_sound(conn, path)?;
            let backup = back_up(conn, path, version)?;
            tracing::info!(version, backup = %backup.display(), "ledger is backed up before a migration");
        }
        migrate(conn, migration, version).map_err(|source| OpenError::Migrate {
            path: path.to_owned(),
            version,
            source,
        })?;
        tracing::info!(version, path = %path.display(), "ledger schema is up to date");
    }
    Ok(())
}

fn version(conn: &Connection) -> Result<i64, rusqlite::Error> {
    conn.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn require_sound(conn: &Connection, path: &Path) -> Result<(), OpenError> {
    let findings = match soundness(conn) {
        Ok(Soundness::Sound) => return Ok(()),
        Ok(Soundness::Damaged { findings }) => findings,
        Err(
            error @ (RowsError::Backend { .. }
            | RowsError::Conflict { .. }
            | RowsError::Damaged { .. }),
        ) => vec![error.to_string()],
    };
    Err(OpenError::Damaged {
        path: path.to_owned(),
        findings,
    })
}

/// References are not followed while tables are made anew, and checked before the commit instead.
fn migrate(conn: &mut Connection, migration: &str, version: i64) -> Result<(), rusqlite::Error> {
    conn.pragma_update(None, "foreign_keys", false)?;
    let migrated = migrate_unreferenced(conn, migration, version);
    conn.pragma_update(None, "foreign_keys", true)?;
    migrated
}

fn migrate_unreferenced(
    conn: &mut Connection,
    migration: &str,
    version: i64,
) -> Result<(), rusqlite::Error> {
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(migration)?;
    let dangling: i64 =
        transaction.query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |row| {
            row.get(0)
        })?;
    if dangling > 0 {
        let broken = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CONSTRAINT_FOREIGNKEY);
        let what = format!("{dangling} rows refer to rows that are gone");
        return Err(rusqlite::Error::SqliteFailure(broken, Some(what)));
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", version)?;
    transaction.commit()
}

/// Copies the ledger to `<path>.before-v<N>`, or the next free name after it. A copy gets its name only when
/// it is whole, and never takes the name of another.
fn back_up(conn: &Connection, path: &Path, version: i64) -> Result<PathBuf, OpenError> {
    let failed = |doing, path: &Path| {
        let path = path.to_owned();
        move |source| OpenError::File {
            doing,
            path,
            source,
        }
    };
    let partial = beside(path, ".backup-partial");
    copy(conn, &partial).map_err(|error| match error {
        CopyError::File(source) => failed("write the backup", &partial)(source),
        CopyError::Sqlite(source) => OpenError::sqlite(&partial, source),
    })?;
    for number in 0..BACKUPS_MAX {
        let name = match number {
            0 => beside(path, &format!(".before-v{version}")),
            number => beside(path, &format!(".before-v{version}.{number}")),
        };
        match fs::hard_link(&partial, &name) {
            Ok(()) => {
                fs::remove_file(&partial).map_err(failed("remove", &partial))?;
                sync_directory(path).map_err(failed("sync the directory of", path))?;
                return Ok(name);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed("name the backup", &name)(error)),
        }
    }
    Err(OpenError::BackupsFull {
        path: path.to_owned(),
        version,
    })
}

enum CopyError {
    File(io::Error),
    Sqlite(rusqlite::Error),
}

/// A whole copy under a name that only a crashed copy can have taken before.
fn copy(conn: &Connection, to: &Path) -> Result<(), CopyError> {
    match fs::remove_file(to) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(CopyError::File(error)),
    }
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(PRIVATE)
        .open(to)
        .map_err(CopyError::File)?;
    let mut target = Connection::open(to).map_err(CopyError::Sqlite)?;
    let backup = Backup::new(conn, &mut target).map_err(CopyError::Sqlite)?;
    backup.step(-1).map_err(CopyError::Sqlite)?;
    drop(backup);
    target
        .close()
        .map_err(|(_, error)| CopyError::Sqlite(error))?;
    file.sync_all().map_err(CopyError::File)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests;
