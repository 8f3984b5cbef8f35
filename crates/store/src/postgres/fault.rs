//! The server's errors in the core's words, and what they mean for a batch.

use super::session::Expected;
use bridge_core::port::RowsError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// What a writer does about a failure that is no job's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The connection is gone, or can't write any more: go on with another one.
    Lost,
    /// The server gave the transaction up for another one's sake: run it again.
    Again,
    /// Another opening has taken over, or the lease has ended.
    Fenced,
}

/// Whether it concerns the connection or the transaction, and not the statement.
pub(super) fn class_of(error: &Error) -> Option<Trouble> {
    let Some(state) = error.code() else {
        // Everything that is not the server's word is about the way to it, but for values that don't fit. The driver tells
        // its kinds of errors by their texts alone.
        let text = error.to_string();
        let about_values = text.starts_with("error serializing") || text.starts_with("expected ");
        return (!about_values).then_some(Trouble::Lost);
    };
    match *state {
        SqlState::T_R_SERIALIZATION_FAILURE
        | SqlState::T_R_DEADLOCK_DETECTED
        | SqlState::LOCK_NOT_AVAILABLE => Some(Trouble::Again),
        SqlState::ADMIN_SHUTDOWN
        | SqlState::CRASH_SHUTDOWN
        | SqlState::CANNOT_CONNECT_NOW
        | SqlState::TOO_MANY_CONNECTIONS
        | SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
        | SqlState::READ_ONLY_SQL_TRANSACTION => Some(Trouble::Lost),
        ref other => other.code().starts_with("08").then_some(Trouble::Lost),
    }
}

/// The error of a statement; damage, a guard that did not hold and passing failures are different variants.
pub(super) fn rows_error(error: &Error, expected: &Expected) -> RowsError {
    let Some(server) = error.as_db_error() else {
        return RowsError::Backend {
            what: format!("the database can't be reached: {}", chain(error)),
        };
    };
    let state = server.code();
    let guarded = [
        // What a write of one row fails with that changes another number of them.
        SqlState::DIVISION_BY_ZERO,
        SqlState::UNIQUE_VIOLATION,
        SqlState::FOREIGN_KEY_VIOLATION,
    ];
    if let Expected::One { what } = expected
        && guarded.contains(state)
    {
        return RowsError::Conflict { what: what.clone() };
    }
    let damage = |what: &str, then: &str| RowsError::Damaged {
        what: what.to_owned(),
        why: format!("{} ({}); {then}", server.message(), state.code()),
    };
    match *state {
        SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => {
            damage("the database", "stop the daemons and restore a backup")
        }
        // Our own statements fit our own schema: where they do not, the schema is not what was written.
        SqlState::UNDEFINED_TABLE
        | SqlState::UNDEFINED_COLUMN
        | SqlState::SYNTAX_ERROR
        | SqlState::DATATYPE_MISMATCH
        | SqlState::UNDEFINED_FUNCTION => damage(
            "the database's schema",
            "somebody changed it; restore a backup",
        ),
        _ => RowsError::Backend {
            what: format!("{} ({})", server.message(), state.code()),
        },
    }
}

/// An error with its causes: the driver's own text leaves them out.
pub(super) fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
