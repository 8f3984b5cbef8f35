//! The few ways in which tables run SQL: cached statements, bound parameters, errors in the core's words.
//!
//! No SQL text lives here; each table's file has its own.

use bridge_core::port::RowsError;
use rusqlite::{Connection, Error, ErrorCode, Params, Row};

/// Reads one row into a value.
pub(super) type ReadRow<T> = fn(&Row<'_>) -> Result<T, RowsError>;

/// The first row, if there is one.
pub(super) fn one<T>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    read: ReadRow<T>,
) -> Result<Option<T>, RowsError> {
    let mut statement = conn.prepare_cached(sql).map_err(failed)?;
    let mut rows = statement.query(params).map_err(failed)?;
    rows.next().map_err(failed)?.map(read).transpose()
}

/// All rows. The statement bounds how many there can be.
pub(super) fn many<T>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    read: ReadRow<T>,
) -> Result<Vec<T>, RowsError> {
    let mut statement = conn.prepare_cached(sql).map_err(failed)?;
    let mut rows = statement.query(params).map_err(failed)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        found.push(read(row)?);
    }
    Ok(found)
}

/// A single number, such as a count.
pub(super) fn number(
    conn: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<Option<i64>, RowsError> {
    one(conn, sql, params, |row| row.get(0).map_err(failed)).map(Option::flatten)
}

/// The result of `count(*)`.
pub(super) fn count(conn: &Connection, sql: &str, params: impl Params) -> Result<u64, RowsError> {
    let count = number(conn, sql, params)?.unwrap_or(0);
    Ok(u64::try_from(count).unwrap_or(0))
}

/// Writes exactly one row; anything else means that the guard did not hold.
pub(super) fn write(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    what: impl Fn() -> String,
) -> Result<(), RowsError> {
    let mut statement = conn.prepare_cached(sql).map_err(failed)?;
    match statement.execute(params) {
        Ok(1) => Ok(()),
        Ok(_) => Err(RowsError::Conflict { what: what() }),
        Err(error) if is_conflict(&error) => Err(RowsError::Conflict { what: what() }),
        Err(error) => Err(failed(error)),
    }
}

/// Writes any number of rows, none included.
pub(super) fn run(conn: &Connection, sql: &str, params: impl Params) -> Result<(), RowsError> {
    let mut statement = conn.prepare_cached(sql).map_err(failed)?;
    statement.execute(params).map_err(failed)?;
    Ok(())
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
pub(super) fn failed(error: Error) -> RowsError {
    match &error {
        Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::InvalidColumnType(..)
        | Error::Utf8Error(..) => RowsError::Damaged {
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
