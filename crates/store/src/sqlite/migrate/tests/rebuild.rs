//! A step that rebuilds a table that others refer to keeps every value of every table.

use super::*;
use crate::sql::rows::{SqlRows, Undo};
use crate::sql::sums::sum;
use bridge_core::port::Read;
use bridge_core::value::{MessageId, StateName};
use rusqlite::types::Value;

/// One message with a row in every table that refers to it.
fn fill(conn: &Connection, n: usize, state: StateName) {
    let state = state.as_str();
    let (queue, turn_id, reason, leader) = match state {
        "received" => ("'held'", "NULL", "NULL", "NULL"),
        "running" => ("'in_flight'", "'t'", "NULL", "NULL"),
        "claimed" | "starting" | "unclear" => ("'in_flight'", "NULL", "NULL", "NULL"),
        "steered" => ("'blocking'", "NULL", "NULL", "'m1'"),
        "parked" => ("'blocking'", "NULL", "'why'", "NULL"),
        "dead" | "cancelled" => ("NULL", "NULL", "'why'", "NULL"),
        "done" => ("NULL", "NULL", "NULL", "NULL"),
        _ => ("'outbox'", "NULL", "NULL", "NULL"),
    };
    let hold = match state {
        "received" => "9, 'capacity', 8, 'full'",
        "parked" => "9, NULL, NULL, NULL",
        _ => "NULL, NULL, NULL, NULL",
    };
    let text = format!("text {n} äöü");
    let answer = format!("answer {n}");
    let (text_sum, answer_sum) = (sum(&text), sum(&answer));
    conn.execute_batch(&format!(
        "INSERT INTO conversation VALUES ('c{n}', 'local', 'k{n}', 'thread', 'last', '/w', {n}, {n}, NULL, NULL, NULL);
         INSERT INTO message VALUES ({n}, 'm{n}', 'c{n}', 1, 'local', 'x{n}', 'person', 'ann', 'owner', {n}, 0, 0,
             {n}, NULL, '{state}', {turn_id}, {reason}, {leader}, {hold}, 1, 1, 0, 0, 'message', NULL, 'transient', NULL,
             'oops', {n}, {queue});
         INSERT INTO message_text VALUES ({n}, 'm{n}', '{text}', {text_sum}, NULL);
         INSERT INTO turn VALUES ('m{n}', 1, 'm{n}.1', 1, 'boot', 'i1', 'thread', NULL, 't', 'workspace-write',
             'ended', 1, 1, 2, 3, 4, NULL, NULL);
         INSERT INTO answer VALUES ('m{n}', 1, 'live', '{answer}', {answer_sum}, 5);
         INSERT INTO reply VALUES ({n}, 'm{n}', 0, 'c{n}', 1, 'key{n}', 'answer', 'sent', NULL, 'receipt', NULL, 1, 6,
             6, 7);
         INSERT INTO reply_text VALUES ({n}, '{answer}', {answer_sum}, NULL);
         INSERT INTO request VALUES ({n}, 'r{n}', 'm{n}', 1, 'i1', '0', NULL, 'm', 'command', 'make', 'make', 'd',
             '{{}}', 'approval', 0, 'owner', 'open', NULL, NULL, NULL, NULL, NULL, NULL, 7, 8, 0, 0, NULL);
         INSERT INTO event VALUES ('m{n}', 1, 1, 'bridge', 'said', 8);"
    ))
    .unwrap();
}

/// A second step that makes `message` anew with one more column, from the first step's own SQL.
fn rebuild_message() -> String {
    let table = "CREATE TABLE message (";
    let schema = MIGRATIONS[0];
    let definition = schema.split_once(table).unwrap().1;
    let definition = definition.split_once(") STRICT;").unwrap().0;
    let (columns, constraints) = definition.split_once("UNIQUE (channel").unwrap();
    let is_index = |statement: &&str| statement.contains("ON message (");
    let indexes: Vec<_> = schema.split_inclusive(';').filter(is_index).collect();
    format!(
        "CREATE TABLE message_next ({columns} trace TEXT, UNIQUE (channel{constraints}) STRICT;
         INSERT INTO message_next SELECT *, NULL FROM message;
         DROP TABLE message;
         ALTER TABLE message_next RENAME TO message;
         {}",
        indexes.concat()
    )
}

fn tables(conn: &Connection) -> Vec<(String, Vec<String>)> {
    let query = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
    let mut names = conn.prepare(query).unwrap();
    let names = names.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let columns = |table: String| {
        let query = conn.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = query.column_names().map(ToOwned::to_owned).collect();
        (table, columns)
    };
    names.map(Result::unwrap).map(columns).collect()
}

/// Every value of these columns of a table, in the order of the rows.
fn values(conn: &Connection, table: &str, columns: &[String]) -> Vec<Vec<Value>> {
    let query = format!("SELECT {} FROM {table} ORDER BY 1, 2", columns.join(", "));
    let mut statement = conn.prepare(&query).unwrap();
    let rows = statement.query_map([], |row| (0..columns.len()).map(|at| row.get(at)).collect());
    rows.unwrap().map(Result::unwrap).collect()
}

#[test]
fn rebuilding_a_table_keeps_values() {
    let (mut conn, path, directory) = version_one();
    for (n, state) in (1..).zip(StateName::ALL) {
        fill(&conn, n, state);
    }
    let tables = tables(&conn);
    let all = |conn: &Connection| -> Vec<_> {
        let of = |(table, columns): &(String, Vec<String>)| values(conn, table, columns);
        tables.iter().map(of).collect()
    };
    let before = all(&conn);
    let indexes = "SELECT count(*) FROM sqlite_schema WHERE type = 'index'";
    let indexes = |conn: &Connection| conn.query_row(indexes, [], |row| row.get::<_, i64>(0));
    let indexes_before = indexes(&conn);
    bring_up(&mut conn, &path, &[MIGRATIONS[0], &rebuild_message()]).unwrap();
    assert_eq!(all(&conn), before);
    assert_eq!(indexes(&conn), indexes_before);
    assert_eq!(soundness(&conn), Ok(Soundness::Sound));
    assert_eq!(backups(&directory).len(), 1);
    let key = crate::key::for_tests();
    let rows = SqlRows::new((&conn).into(), &key, Undo::Transaction);
    for (n, state) in (1..).zip(StateName::ALL) {
        let id = MessageId::new(format!("m{n}"));
        let message = rows.message(&id).unwrap().unwrap();
        assert_eq!(message.life.state.name(), state);
        assert!(rows.answer(&id).unwrap().is_some());
        assert_eq!(rows.replies(&id).unwrap().len(), 1);
        assert_eq!(rows.requests(&id).unwrap().len(), 1);
    }
}

#[test]
fn migration_that_breaks_references_is_undone() {
    let (mut conn, path, _directory) = version_one();
    fill(&conn, 1, StateName::Done);
    let error = bring_up(&mut conn, &path, &migrations("DELETE FROM conversation")).unwrap_err();
    assert!(
        matches!(error, OpenError::Migrate { version: 2, .. }),
        "{error}"
    );
    assert_eq!(version(&conn), Ok(1));
    let rows = conn.query_row("SELECT count(*) FROM conversation", [], |row| row.get(0));
    assert_eq!(rows, Ok(1));
}
