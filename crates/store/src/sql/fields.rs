//! Reads the columns of one row in order; an error names the row.
//!
//! The first column of every query names the row. How a value is spelled is the table's business.

use super::sums;
use crate::sql::Row;
use bridge_core::port::RowsError;
use bridge_core::value::{Class, Failure, Timestamp};
use rusqlite::types::FromSql;
use std::str::FromStr;

/// The columns of one row, read from left to right.
pub(crate) struct Fields<'r> {
    row: Row<'r>,
    table: &'static str,
    at: usize,
}

impl<'r> Fields<'r> {
    /// The columns of a row of `table`.
    pub(crate) fn of(table: &'static str, row: &Row<'r>) -> Self {
        Self {
            row: *row,
            table,
            at: 0,
        }
    }

    /// The next column as the type that the caller expects.
    pub(crate) fn next<T: FromSql>(&mut self) -> Result<T, RowsError> {
        let at = self.at;
        self.at += 1;
        self.row.get(at).map_err(|error| self.unreadable(error))
    }

    /// The next column as an id or another wrapped text.
    pub(crate) fn id<T>(&mut self, wrap: fn(String) -> T) -> Result<T, RowsError> {
        self.next().map(wrap)
    }

    /// The next column as an id that may be absent.
    pub(crate) fn maybe_id<T>(&mut self, wrap: fn(String) -> T) -> Result<Option<T>, RowsError> {
        Ok(self.next::<Option<String>>()?.map(wrap))
    }

    /// The next column as a time.
    pub(crate) fn time(&mut self) -> Result<Timestamp, RowsError> {
        self.next().map(Timestamp)
    }

    /// The next column as a time that may be absent.
    pub(crate) fn maybe_time(&mut self) -> Result<Option<Timestamp>, RowsError> {
        Ok(self.next::<Option<i64>>()?.map(Timestamp))
    }

    /// The next two columns as a text and its checksum.
    pub(crate) fn text(&mut self) -> Result<String, RowsError> {
        let text: String = self.next()?;
        let stored = self.next()?;
        if sums::holds(&text, stored) {
            return Ok(text);
        }
        Err(self.damaged("its text is not what was stored"))
    }

    /// The next column as one of the words of a closed list.
    pub(crate) fn word<T: FromStr>(&mut self) -> Result<T, RowsError> {
        let at = self.at;
        self.at += 1;
        let value = self
            .row
            .get_ref(at)
            .map_err(|error| self.unreadable(error))?;
        let word = value.as_str().map_err(|error| self.unreadable(error))?;
        let unknown = |_| self.unreadable(format!("unknown word {word:?} in column {at}"));
        word.parse().map_err(unknown)
    }

    /// The same, where there may be none.
    pub(crate) fn maybe_word<T: FromStr>(&mut self) -> Result<Option<T>, RowsError> {
        let Some(word) = self.next::<Option<String>>()? else {
            return Ok(None);
        };
        self.required(&format!("unknown word {word:?}"), word.parse().ok())
            .map(Some)
    }

    /// The next three columns as a failure: class word, until, reason; absent when there is no class.
    pub(crate) fn maybe_failure(&mut self) -> Result<Option<Failure>, RowsError> {
        let class: Option<String> = self.next()?;
        let until = self.maybe_time()?;
        let reason: Option<String> = self.next()?;
        let Some(class) = class else {
            return Ok(None);
        };
        let class = match class.as_str() {
            "transient" => Class::Transient,
            "capacity" => Class::Capacity { until },
            "config" => Class::Config,
            "permanent" => Class::Permanent,
            "ambiguous" => Class::Ambiguous,
            "bug" => Class::Bug,
            other => return Err(self.unreadable(format!("unknown class {other:?}"))),
        };
        let reason = self.required("a failure has no reason", reason)?;
        Ok(Some(Failure { class, reason }))
    }

    /// What the row's state needs; without it the row can't be read.
    pub(crate) fn required<T>(&self, why: &str, value: Option<T>) -> Result<T, RowsError> {
        value.ok_or_else(|| self.unreadable(why))
    }

    /// This row can't be read.
    pub(crate) fn unreadable(&self, why: impl ToString) -> RowsError {
        RowsError::Unreadable {
            what: self.name(),
            why: why.to_string(),
        }
    }

    /// This row is not what was stored.
    pub(crate) fn damaged(&self, why: impl ToString) -> RowsError {
        RowsError::Damaged {
            what: self.name(),
            why: why.to_string(),
        }
    }

    fn name(&self) -> String {
        let id = self.row.get(0);
        let id = id.unwrap_or_else(|_| "without a name".to_owned());
        format!("{} {id}", self.table)
    }
}

/// A failure as its three columns.
pub(crate) fn failure_columns(
    failure: Option<&Failure>,
) -> (Option<&'static str>, Option<i64>, Option<&str>) {
    let Some(Failure { class, reason }) = failure else {
        return (None, None, None);
    };
    let until = match class {
        Class::Capacity { until } => until.map(|until| until.0),
        Class::Transient | Class::Config | Class::Permanent | Class::Ambiguous | Class::Bug => None,
    };
    (Some(class.as_str()), until, Some(reason))
}
