//! Who a lost message was: its indexes hold its ids, also when the page with its row is destroyed.

use rusqlite::types::Value;
use rusqlite::{Connection, Error, Row};
use std::collections::BTreeMap;

/// A message as indexes know it; a part is absent if its index can't be read either.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::sqlite::recover) struct Identity {
    pub(in crate::sqlite::recover) row: i64,
    pub(in crate::sqlite::recover) message_id: Option<String>,
    /// Channel and the platform's id.
    pub(in crate::sqlite::recover) external: Option<(String, String)>,
    /// Conversation and place in it.
    pub(in crate::sqlite::recover) spot: Option<(String, i64)>,
}

/// Everything that the three indexes over all messages know.
pub(super) fn read(conn: &Connection) -> Vec<Identity> {
    let mut found = BTreeMap::new();
    both_ways(conn, "message_id", "sqlite_autoindex_message_1", |row| {
        let id = row.get(1)?;
        entry(&mut found, row.get(0)?).message_id = Some(id);
        Ok(())
    });
    let columns = "channel, external_id";
    both_ways(conn, columns, "sqlite_autoindex_message_2", |row| {
        let external = (row.get(1)?, row.get(2)?);
        entry(&mut found, row.get(0)?).external = Some(external);
        Ok(())
    });
    let columns = "conversation_id, seq";
    both_ways(conn, columns, "sqlite_autoindex_message_3", |row| {
        let spot = (row.get(1)?, row.get(2)?);
        entry(&mut found, row.get(0)?).spot = Some(spot);
        Ok(())
    });
    found.into_values().collect()
}

fn entry(found: &mut BTreeMap<i64, Identity>, row: i64) -> &mut Identity {
    found.entry(row).or_insert_with(|| Identity {
        row,
        ..Identity::default()
    })
}

/// Walks an index from both ends, as far as it can be read.
fn both_ways(
    conn: &Connection,
    columns: &str,
    index: &str,
    mut note: impl FnMut(&Row<'_>) -> Result<(), Error>,
) {
    let descending = columns.replace(", ", " DESC, ");
    for order in [columns.to_owned(), format!("{descending} DESC")] {
        let query =
            format!("SELECT row, {columns} FROM message INDEXED BY {index} ORDER BY {order}");
        if walk(conn, &query, &mut note).is_ok() {
            return;
        }
    }
}

/// An entry that repeats means that pages point in circles.
fn walk(
    conn: &Connection,
    query: &str,
    note: &mut impl FnMut(&Row<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut statement = conn.prepare(query)?;
    let mut rows = statement.query([])?;
    let mut seen = std::collections::HashSet::new();
    while let Some(row) = rows.next()? {
        let Value::Integer(number) = row.get(0)? else {
            continue;
        };
        if !seen.insert(number) {
            return Err(Error::QueryReturnedNoRows);
        }
        // An entry that can't be read is no reason to miss those behind it.
        let _unreadable = note(row);
    }
    Ok(())
}
