//! Which tables a ledger has, as its schema says: their columns, the order of their rows, and what counts on.
//!
//! The description is read from the schema itself, so a table or column of a later version can't be forgotten.

use crate::sql::failed;
use crate::sql::schema::MIGRATIONS;
use bridge_core::port::RowsError;
use rusqlite::Connection;

/// Tables that are not copied. A node has a lease by the clock of its own database, and a home names a node: both say which
/// daemons share one database, and nothing about what is in it.
const LEFT_OUT: [&str; 2] = ["home", "node"];

/// A table, as both engines have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopyTable {
    pub(crate) name: String,
    /// In the order of the schema.
    pub(crate) columns: Vec<String>,
    /// The primary key, in whose order rows are read.
    key: Vec<String>,
    /// The column that the engine numbers by itself where a row is inserted without it.
    pub(crate) counter: Option<String>,
}

impl CopyTable {
    /// Whether its rows go along.
    pub(crate) fn is_copied(&self) -> bool {
        !LEFT_OUT.contains(&self.name.as_str())
    }

    /// All rows in the order of the key, which is the same on both engines: texts are compared by their bytes.
    pub(crate) fn select(&self) -> String {
        format!(
            "SELECT {} FROM {} ORDER BY {}",
            self.list(),
            self.name,
            self.key.join(", ")
        )
    }

    /// The columns, separated by commas.
    pub(crate) fn list(&self) -> String {
        self.columns.join(", ")
    }

    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }
}

/// All tables, those first that others refer to.
pub(crate) fn tables() -> Result<Vec<CopyTable>, RowsError> {
    describe().map_err(failed)
}

fn describe() -> Result<Vec<CopyTable>, rusqlite::Error> {
    let conn = Connection::open_in_memory()?;
    for migration in MIGRATIONS {
        conn.execute_batch(migration)?;
    }
    let mut names = conn.prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY rowid",
    )?;
    let names = names.query_map([], |row| row.get(0))?;
    names.map(|name| table(&conn, name?)).collect()
}

fn table(conn: &Connection, name: String) -> Result<CopyTable, rusqlite::Error> {
    let mut about =
        conn.prepare("SELECT name, type, pk FROM pragma_table_info(?1) ORDER BY cid")?;
    let about = about.query_map([&name], |row| {
        let (column, kind, place): (String, String, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok((column, kind, place))
    })?;
    let about: Vec<_> = about.collect::<Result<_, _>>()?;
    let mut key: Vec<_> = about.iter().filter(|(_, _, place)| *place > 0).collect();
    key.sort_by_key(|(_, _, place)| *place);
    let counter = match key.as_slice() {
        [(column, kind, _)] if kind == "INTEGER" && !refers(conn, &name, column)? => {
            Some(column.clone())
        }
        _ => None,
    };
    Ok(CopyTable {
        key: key.into_iter().map(|(column, ..)| column.clone()).collect(),
        columns: about.iter().map(|(column, ..)| column.clone()).collect(),
        counter,
        name,
    })
}

/// Whether a column has its values from another table.
fn refers(conn: &Connection, table: &str, column: &str) -> Result<bool, rusqlite::Error> {
    let mut from = conn.prepare("SELECT \"from\" FROM pragma_foreign_key_list(?1)")?;
    let mut from = from.query_map([table], |row| row.get::<_, String>(0))?;
    from.try_fold(false, |found, name| Ok(found || name? == column))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_says_what_is_copied() {
        let tables = tables().unwrap();
        let named = |name: &str| tables.iter().find(|table| table.name == name).unwrap();
        assert_eq!(named("turn").key, ["message_id", "attempt"]);
        assert_eq!(named("message").counter.as_deref(), Some("row"));
        assert_eq!(named("message_text").counter, None);
        let left: Vec<_> = tables.iter().filter(|table| !table.is_copied()).collect();
        assert_eq!(left.len(), LEFT_OUT.len());
        let at = |name: &str| tables.iter().position(|table| table.name == name);
        assert!(at("conversation") < at("message") && at("task") < at("task_input"));
        assert!(tables.iter().all(|table| !table.key.is_empty()));
    }
}
