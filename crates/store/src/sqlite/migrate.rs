//! The schema's versions: forward only, one transaction each, with a check and a backup before.
//!
//! The SQL is in `schema/`, one numbered file per version; a file that has shipped is never edited.

use super::backup::{self, Backup, BackupError, Existing};
use super::check::{Soundness, soundness};
use super::files::{beside, claim_scratch, name_new, remove_if_there, stamp};
use super::open::{APPLICATION_ID, OpenError, UNRELEASED_APPLICATION_IDS};
use bridge_core::port::RowsError;
use rusqlite::{Connection, TransactionBehavior};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

pub(super) use crate::sql::schema::MIGRATIONS;

/// Backups before migrations that are kept beside the ledger: the newest ones, so that a bad release can be undone
/// and the disk does not fill.
const BACKUPS_KEPT: usize = 3;

/// Names that are tried for a backup: more than one only if one was made within the same second.
const NAMES_MAX: u32 = 100;

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
    match owner {
        APPLICATION_ID => {}
        _ if empty => {}
        id if UNRELEASED_APPLICATION_IDS.contains(&id) => {
            return Err(OpenError::Unreleased {
                path: path.to_owned(),
            });
        }
        _ => {
            return Err(OpenError::Foreign {
                path: path.to_owned(),
            });
        }
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

/// Brings the schema to the newest version. A ledger that has one already is checked and backed up before the first
/// step: that copy is what the program of before can open.
pub(super) fn bring_up(
    conn: &mut Connection,
    path: &Path,
    migrations: &[&str],
) -> Result<(), OpenError> {
    let found = version(conn).map_err(|source| OpenError::sqlite(path, source))?;
    let steps = migrations.iter().zip(1_i64..);
    let newest = i64::try_from(migrations.len()).unwrap_or(i64::MAX);
    for (migration, version) in steps.filter(|(_, version)| *version > found) {
        if found > 0 && version == found + 1 {
            require_sound(conn, path)?;
            let backup = back_up(conn, path, version)?;
            let messages = backup.messages;
            tracing::info!(version, backup = %backup.path.display(), messages, "the database is backed up before its schema changes");
        }
        migrate(conn, migration, version).map_err(|source| OpenError::Migrate {
            path: path.to_owned(),
            version,
            source,
        })?;
        tracing::debug!(version, path = %path.display(), "the database has this schema now");
    }
    if found > 0 && found < newest {
        tracing::info!(from = found, to = newest, path = %path.display(), "the database's schema is brought up to date");
    }
    if let Err(error) = prune(path) {
        tracing::warn!(%error, "old backups of the database could not be removed");
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
            | RowsError::Unreadable { .. }
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

/// Copies the ledger to `<path>.before-v<N>-<time>`, or to the next free name after it.
fn back_up(conn: &Connection, path: &Path, version: i64) -> Result<Backup, OpenError> {
    let stamp = stamp(jiff::Timestamp::now());
    let mut taken = None;
    for number in 0..NAMES_MAX {
        let suffix = match number {
            0 => format!(".before-v{version}-{stamp}"),
            number => format!(".before-v{version}-{stamp}.{number}"),
        };
        match backup::copy(conn, path, &beside(path, &suffix), Existing::Keep) {
            Err(error @ BackupError::Exists { .. }) => taken = Some(error),
            made => return Ok(made?),
        }
    }
    let path = path.to_owned();
    Err(taken.unwrap_or(BackupError::Exists { path }).into())
}

/// Removes the oldest backups that migrations made, once the newest migration is on disk. Files with other names
/// are not ours to remove.
fn prune(path: &Path) -> io::Result<()> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str))
    else {
        return Ok(());
    };
    let prefix = format!("{name}.before-v");
    let mut made = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let order = name.to_str().and_then(|name| name.strip_prefix(&prefix));
        if let Some(order) = order.and_then(made_before) {
            made.push((order, entry.path()));
        }
    }
    made.sort();
    let surplus = made.len().saturating_sub(BACKUPS_KEPT);
    for (_, path) in made.into_iter().take(surplus) {
        fs::remove_file(&path)?;
        tracing::info!(backup = %path.display(), kept = BACKUPS_KEPT, "an old backup of the database is removed");
    }
    Ok(())
}

/// The version and the time in a backup's name, if it is one of ours.
fn made_before(rest: &str) -> Option<(i64, String)> {
    let (version, when) = rest.split_once('-')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (time, number) = when.split_once('.').unwrap_or((when, "0"));
    let (day, hour) = time.strip_suffix('Z')?.split_once('T')?;
    let ours = digits(version) && digits(number) && digits(day) && digits(hour);
    ours.then_some((version.parse().ok()?, when.to_owned()))
}

/// Makes a new ledger of the newest of `migrations` at `path`, where nothing may be. It gets its name when it is
/// whole, so that an empty or half-made file is never taken for a ledger; `finish` makes it so.
pub(super) fn create(
    path: &Path,
    migrations: &[&str],
    finish: impl FnOnce(&mut Connection) -> Result<(), OpenError>,
) -> Result<(), OpenError> {
    let partial = beside(path, ".new");
    let failed = |doing, path: &Path| {
        let path = path.to_owned();
        move |source| OpenError::File {
            doing,
            path,
            source,
        }
    };
    let file = claim_scratch(&partial).map_err(failed("create", &partial))?;
    let sqlite = |source| OpenError::sqlite(&partial, source);
    let mut conn = Connection::open(&partial).map_err(sqlite)?;
    // Nobody has it before it is synced as a whole.
    conn.execute_batch("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF")
        .map_err(sqlite)?;
    bring_up(&mut conn, &partial, migrations)?;
    finish(&mut conn)?;
    conn.close().map_err(|(_, source)| sqlite(source))?;
    file.sync_all().map_err(failed("sync", &partial))?;
    match name_new(&partial, path) {
        // Somebody else was faster, and theirs is as good.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            remove_if_there(&partial).map_err(failed("remove", &partial))
        }
        named => named.map_err(failed("name", path)),
    }
}

#[cfg(test)]
mod tests;
