//! The few ways in which tables run SQL: cached statements, bound parameters, errors in the core's words.
//!
//! No SQL text lives here; each table's file has its own.

use super::engine::{Conn, Params, Row, StatementBinder};
use crate::page;
use crate::postgres::Expected;
use bridge_core::port::RowsError;
use rusqlite::{CachedStatement, Connection, Error, ErrorCode};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Reads one row into a value.
pub(crate) type ReadRow<T> = fn(&Row<'_>) -> Result<T, RowsError>;

/// Passes each row to `take` until it returns a value.
pub(crate) fn find<T>(
    conn: Conn<'_>,
    sql: &str,
    params: impl Params,
    mut take: impl FnMut(&Row<'_>) -> Result<Option<T>, RowsError>,
) -> Result<Option<T>, RowsError> {
    match conn {
        Conn::Sqlite(conn) => {
            let mut statement = bound(conn, sql, &params).map_err(failed)?;
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next().map_err(failed)? {
                if let Some(found) = take(&Row::Sqlite(row))? {
                    return Ok(Some(found));
                }
            }
            Ok(None)
        }
        Conn::Postgres(session) => {
            for row in session.query(sql, &params)?.iter() {
                if let Some(found) = take(&Row::Postgres(row))? {
                    return Ok(Some(found));
                }
            }
            Ok(None)
        }
    }
}

/// A statement with its values.
fn bound<'c>(
    conn: &'c Connection,
    sql: &str,
    params: &impl Params,
) -> Result<CachedStatement<'c>, Error> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut binder = StatementBinder {
        statement: &mut statement,
        bound: 0,
    };
    params.bind_all(&mut binder)?;
    let given = binder.bound;
    let wanted = statement.parameter_count();
    if given == wanted {
        return Ok(statement);
    }
    Err(Error::InvalidParameterCount(given, wanted))
}

/// A length or an offset as it is stored.
pub(crate) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The first row, if there is one.
pub(crate) fn one<T>(
    conn: Conn<'_>,
    sql: &str,
    params: impl Params,
    read: ReadRow<T>,
) -> Result<Option<T>, RowsError> {
    find(conn, sql, params, |row| read(row).map(Some).map_err(logged))
}

/// All rows. The statement bounds how many there can be.
pub(crate) fn many<T>(
    conn: Conn<'_>,
    sql: &str,
    params: impl Params,
    read: ReadRow<T>,
) -> Result<Vec<T>, RowsError> {
    let mut found = Vec::new();
    find(conn, sql, params, |row| {
        found.push(read(row).map_err(logged)?);
        Ok(None::<()>)
    })?;
    Ok(found)
}

/// Rows that a list goes past because they can't be read. With more of them the list fails.
const SKIPPED_MAX: u32 = 16;

/// The `LIMIT` of the statement of [`many_readable`]: those that are wanted, and those that it may have to go past.
pub(crate) fn reach(limit: u32) -> u32 {
    page(limit).saturating_add(SKIPPED_MAX)
}

/// At most `limit` rows, past those that can't be read, which are logged. Only for lists that nothing is concluded from
/// when a row is not among them: what a decision rests on is read with [`many`]. The statement's `LIMIT` is [`reach`].
pub(crate) fn many_readable<T>(
    conn: Conn<'_>,
    sql: &str,
    params: impl Params,
    limit: u32,
    read: ReadRow<T>,
) -> Result<Vec<T>, RowsError> {
    let wanted = usize::try_from(page(limit)).unwrap_or(usize::MAX);
    let (mut found, mut skipped) = (Vec::new(), 0);
    if wanted == 0 {
        return Ok(found);
    }
    find(conn, sql, params, |row| {
        match read(row) {
            Ok(value) => found.push(value),
            Err(error) => skip(error, &mut skipped)?,
        }
        Ok((found.len() == wanted).then_some(()))
    })?;
    Ok(found)
}

/// Goes past a row that can't be read, if that is what went wrong and there are not too many of them.
pub(crate) fn skip(error: RowsError, skipped: &mut u32) -> Result<(), RowsError> {
    if !matches!(error, RowsError::Unreadable { .. }) || *skipped == SKIPPED_MAX {
        return Err(error);
    }
    *skipped += 1;
    logged(error);
    Ok(())
}

/// Logs that a row can't be read, once: whoever asked may go past it.
fn logged(error: RowsError) -> RowsError {
    let text = error.to_string();
    if matches!(error, RowsError::Unreadable { .. }) && is_new(&text) {
        tracing::error!(
            error = text,
            "a row can't be read; lists leave it out, and what it is about waits"
        );
    }
    error
}

/// Rows whose error was logged already: a list is read often.
fn is_new(error: &str) -> bool {
    const REMEMBERED_MAX: usize = 256;
    static LOGGED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut logged = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
    logged.len() < REMEMBERED_MAX && logged.insert(error.to_owned())
}

/// A single number, such as a count.
pub(crate) fn number(
    conn: Conn<'_>,
    sql: &str,
    params: impl Params,
) -> Result<Option<i64>, RowsError> {
    one(conn, sql, params, |row| row.get(0).map_err(failed)).map(Option::flatten)
}

/// The result of `count(*)`.
pub(crate) fn count(conn: Conn<'_>, sql: &str, params: impl Params) -> Result<u64, RowsError> {
    let count = number(conn, sql, params)?.unwrap_or(0);
    Ok(u64::try_from(count).unwrap_or(0))
}

/// Writes exactly one row; anything else means that the guard did not hold. PostgreSQL says so at the next read of the
/// job, or at its end.
pub(crate) fn write(
    conn: Conn<'_>,
    sql: &str,
    params: impl Params,
    what: impl Fn() -> String,
) -> Result<(), RowsError> {
    let conn = match conn {
        Conn::Sqlite(conn) => conn,
        Conn::Postgres(session) => {
            return session.write(sql, &params, Expected::One { what: what() });
        }
    };
    let mut statement = bound(conn, sql, &params).map_err(failed)?;
    match statement.raw_execute() {
        Ok(1) => Ok(()),
        Ok(_) => Err(RowsError::Conflict { what: what() }),
        Err(error) if is_conflict(&error) => Err(RowsError::Conflict { what: what() }),
        Err(error) => Err(failed(error)),
    }
}

/// Writes any number of rows, none included.
pub(crate) fn run(conn: Conn<'_>, sql: &str, params: impl Params) -> Result<(), RowsError> {
    let conn = match conn {
        Conn::Sqlite(conn) => conn,
        Conn::Postgres(session) => return session.write(sql, &params, Expected::Any),
    };
    let mut statement = bound(conn, sql, &params).map_err(failed)?;
    statement.raw_execute().map_err(failed)?;
    Ok(())
}

/// Runs a statement that writes no rows and has no values: of a transaction, or of a savepoint in it.
pub(crate) fn control(conn: Conn<'_>, sql: &str) -> Result<(), RowsError> {
    match conn {
        Conn::Sqlite(_) => run(conn, sql, []),
        Conn::Postgres(session) => session.control(sql),
    }
}

/// A row that must be unique, or must belong to another one, is not.
fn is_conflict(error: &Error) -> bool {
    use rusqlite::ffi;
    error.sqlite_error().is_some_and(|error| {
        [
            ffi::SQLITE_CONSTRAINT_UNIQUE,
            ffi::SQLITE_CONSTRAINT_PRIMARYKEY,
            ffi::SQLITE_CONSTRAINT_FOREIGNKEY,
        ]
        .contains(&error.extended_code)
    })
}

/// A failure of the database as the core's error; damage and transient failures are different variants.
pub(crate) fn failed(error: Error) -> RowsError {
    match &error {
        Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::InvalidColumnType(..)
        | Error::Utf8Error(..) => RowsError::Unreadable {
            what: "a stored row".to_owned(),
            why: error.to_string(),
        },
        // Our own statements fit our own schema: where they do not, the schema is not what was written.
        Error::SqlInputError { .. } => RowsError::Damaged {
            what: "the database's schema".to_owned(),
            why: format!("{error}; run `codex-bridge doctor`, which looks at the whole file"),
        },
        _ => match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => RowsError::Damaged {
                what: "the database file".to_owned(),
                why: format!("{error}; stop the daemon and restore a backup"),
            },
            _ => RowsError::Backend {
                what: error.to_string(),
            },
        },
    }
}
