//! Where a ledger is copied from and to: the one place of a copy that tells the engines apart.

use super::{CopyError, CopyTable};
use crate::postgres::{BulkTable, CopiedDatabase, DatabaseUse, PostgresUrl};
use crate::sql::{self, Conn};
use crate::sqlite::copied::{self, CopiedFile};
use bridge_core::port::RowsError;
use rusqlite::Connection;
use rusqlite::types::{Value, ValueRef};
use std::path::PathBuf;

/// Where a ledger is.
#[derive(Clone, Debug)]
pub enum LedgerPlace {
    /// In a file.
    Sqlite(PathBuf),
    /// In a database of a server.
    Postgres(Box<PostgresUrl>),
}

/// A snapshot that is read.
pub(super) enum Source {
    Sqlite(Connection),
    Postgres(Box<CopiedDatabase>),
}

impl Source {
    pub(super) fn open(place: &LedgerPlace) -> Result<Self, CopyError> {
        match place {
            LedgerPlace::Sqlite(path) => copied::source(path).map(Self::Sqlite),
            LedgerPlace::Postgres(url) => {
                let database = CopiedDatabase::connect(url, DatabaseUse::Copy)?;
                database.begin_reading()?;
                Ok(Self::Postgres(Box::new(database)))
            }
        }
    }

    pub(super) fn conn(&self) -> Conn<'_> {
        match self {
            Self::Sqlite(conn) => conn.into(),
            Self::Postgres(database) => database.conn(),
        }
    }

    /// Passes every row of a table on, in the order of its key.
    pub(super) fn each(
        &self,
        table: &CopyTable,
        take: impl FnMut(Vec<Value>) -> Result<(), RowsError>,
    ) -> Result<(), RowsError> {
        each(self.conn(), table, take)
    }
}

/// What is written, in one transaction.
pub(super) enum Destination {
    Sqlite(CopiedFile),
    Postgres(Box<CopiedDatabase>),
}

impl Destination {
    pub(super) fn begin(place: &LedgerPlace, tables: &[CopyTable]) -> Result<Self, CopyError> {
        match place {
            LedgerPlace::Sqlite(path) => CopiedFile::begin(path).map(Self::Sqlite),
            LedgerPlace::Postgres(url) => {
                let database = CopiedDatabase::connect(url, DatabaseUse::Copy)?;
                database.begin_writing(tables)?;
                Ok(Self::Postgres(Box::new(database)))
            }
        }
    }

    pub(super) fn conn(&self) -> Conn<'_> {
        match self {
            Self::Sqlite(file) => file.conn(),
            Self::Postgres(database) => database.conn(),
        }
    }

    /// Prepares to write to a table.
    pub(super) fn table<'t>(&'t self, table: &'t CopyTable) -> Result<TableWriter<'t>, RowsError> {
        Ok(match self {
            Self::Sqlite(file) => TableWriter::Sqlite(file, table),
            Self::Postgres(database) => {
                TableWriter::Postgres(database, database.bulk_table(table)?)
            }
        })
    }

    /// As [`Source::each`], of what this transaction wrote.
    pub(super) fn each(
        &self,
        table: &CopyTable,
        take: impl FnMut(Vec<Value>) -> Result<(), RowsError>,
    ) -> Result<(), RowsError> {
        each(self.conn(), table, take)
    }

    /// SQLite numbers behind the highest row by itself.
    pub(super) fn continue_counters(&self, tables: &[CopyTable]) -> Result<(), RowsError> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(database) => database.continue_counters(tables),
        }
    }

    pub(super) fn commit(self, tables: &[CopyTable]) -> Result<(), CopyError> {
        match self {
            Self::Sqlite(file) => file.commit(),
            Self::Postgres(database) => database.commit(tables),
        }
    }

    pub(super) fn roll_back(self) {
        match self {
            Self::Sqlite(file) => file.roll_back(),
            Self::Postgres(database) => database.roll_back(),
        }
    }
}

/// Where the rows of one table go.
pub(super) enum TableWriter<'t> {
    Sqlite(&'t CopiedFile, &'t CopyTable),
    Postgres(&'t CopiedDatabase, BulkTable),
}

impl TableWriter<'_> {
    pub(super) fn write(&self, rows: Vec<Vec<Value>>) -> Result<(), RowsError> {
        match self {
            Self::Sqlite(file, table) => file.write_rows(table, rows),
            Self::Postgres(database, table) => database.write_rows(table, rows),
        }
    }
}

fn each(
    conn: Conn<'_>,
    table: &CopyTable,
    mut take: impl FnMut(Vec<Value>) -> Result<(), RowsError>,
) -> Result<(), RowsError> {
    let (select, columns) = (table.select(), table.columns.len());
    match conn {
        Conn::Sqlite(conn) => copied::each(conn, &select, |row| {
            take(values(columns, |at| row.get_ref(at))?)
        }),
        Conn::Postgres(session) => {
            session.each(&select, |row| take(values(columns, |at| row.value(at))?))
        }
    }
}

fn values<'r>(
    columns: usize,
    value: impl Fn(usize) -> Result<ValueRef<'r>, rusqlite::Error>,
) -> Result<Vec<Value>, RowsError> {
    let owned = |at| {
        let value = Value::try_from(value(at)?);
        value.map_err(|error| sql::unfit(at, error.to_string()))
    };
    let values: Result<Vec<Value>, rusqlite::Error> = (0..columns).map(owned).collect();
    values.map_err(sql::failed)
}
