//! Many rows at once: a table is read as a stream, and written with `COPY`.
//!
//! The driver takes no more from the server than the caller takes from it, so memory does not grow with the table.

use super::session::Session;
use super::value::{Bound, SessionRow};
use bridge_core::port::RowsError;
use futures_util::TryStreamExt;
use rusqlite::types::Value;
use std::pin::pin;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Column, Statement};

/// A table that rows are written to.
pub(crate) struct BulkTable {
    write: Statement,
    types: Vec<Type>,
}

impl Session {
    /// Passes every row to `take`, and never holds more than a few.
    pub(crate) fn each(
        &self,
        sql: &str,
        mut take: impl FnMut(&SessionRow) -> Result<(), RowsError>,
    ) -> Result<(), RowsError> {
        let client = self.client()?;
        let rows = self.wait(client.query_raw(sql, Vec::<Bound>::new()))?;
        let mut rows = pin!(rows);
        while let Some(row) = self.wait(rows.try_next())? {
            take(&SessionRow::new(row))?;
        }
        Ok(())
    }

    /// Prepares to write rows with these columns to a table.
    pub(super) fn bulk_table(&self, table: &str, columns: &str) -> Result<BulkTable, RowsError> {
        let client = self.client()?;
        let read = format!("SELECT {columns} FROM {table}");
        let write = format!("COPY {table} ({columns}) FROM STDIN BINARY");
        let types = self.wait(client.prepare(&read))?;
        Ok(BulkTable {
            types: types.columns().iter().map(Column::type_).cloned().collect(),
            write: self.wait(client.prepare(&write))?,
        })
    }

    /// Writes rows, each with a value for every column.
    pub(super) fn write_rows(
        &self,
        table: &BulkTable,
        rows: Vec<Vec<Value>>,
    ) -> Result<(), RowsError> {
        let client = self.client()?;
        self.wait(async {
            let sink = client.copy_in(&table.write).await?;
            let mut writer = pin!(BinaryCopyInWriter::new(sink, &table.types));
            for row in rows {
                let row: Vec<Bound> = row.into_iter().map(Bound).collect();
                let values = row.iter().map(|value| value as &(dyn ToSql + Sync));
                writer.as_mut().write_raw(values).await?;
            }
            writer.finish().await
        })
        .map(drop)
    }
}
