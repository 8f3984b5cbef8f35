//! A ledger of version 1 with a message in every state it could be in comes through all migrations without losing or
//! changing a value, and every message can be read afterwards.

use super::*;
use crate::sqlite::rows::{SqliteRows, Undo};
use bridge_core::port::Read;
use bridge_core::value::MessageId;
use rusqlite::types::Value;

const STATES: [&str; 11] = [
    "received",
    "claimed",
    "starting",
    "running",
    "unclear",
    "answered",
    "sending",
    "replied",
    "done",
    "dead",
    "cancelled",
];

/// One message with everything that hangs on it.
fn fill(conn: &Connection, number: usize, state: &str) {
    let (place, turn_id, reason) = match state {
        "received" => ("'held'", "NULL", "NULL"),
        "running" => ("'flight'", "'t'", "NULL"),
        "claimed" | "starting" | "unclear" => ("'flight'", "NULL", "NULL"),
        "dead" | "cancelled" => ("NULL", "NULL", "'why'"),
        "done" => ("NULL", "NULL", "NULL"),
        _ => ("'out'", "NULL", "NULL"),
    };
    let hold = match state {
        "received" => "9, 'capacity', 8, 'full'",
        _ => "NULL, NULL, NULL, NULL",
    };
    let n = number;
    conn.execute_batch(&format!(
        "INSERT INTO conversation VALUES ('c{n}', 'local', 'k{n}', 'thread', 'last', '/w', {n});
         INSERT INTO message VALUES ({n}, 'm{n}', 'c{n}', 1, 'local', 'x{n}', 'person', 'ann', 'owner',
             {n}, '{state}', {turn_id}, {reason}, {hold}, 1, 1, 0, 'message', 'transient', NULL, 'oops', {n}, {place});
         INSERT INTO message_text VALUES ({n}, 'text {n} äöü');
         INSERT INTO turn VALUES ('m{n}', 1, 'm{n}.1', 1, 'boot', 'i1', 'thread', NULL, 't', 'workspace-write',
             'ended', 1, 1, 2, 3, 4);
         INSERT INTO answer VALUES ('m{n}', 1, 'live', 'answer {n}', 5);
         INSERT INTO reply VALUES ({n}, 'm{n}', 0, 'c{n}', 1, 'key{n}', 'answer', 'sent', NULL, 'receipt', NULL, 1, 6, 6);
         INSERT INTO reply_text VALUES ({n}, 'answer {n}');
         INSERT INTO ack VALUES ('m{n}', 'after_reply', 'due');
         INSERT INTO request VALUES ({n}, 'r{n}', 'm{n}', 1, 'i1', '0', NULL, 'command', 'make', '{{}}', 'open', NULL, NULL, 7);
         INSERT INTO event VALUES ('m{n}', 1, 1, 'bridge', 'said', 8);"
    ))
    .unwrap();
}

/// Every value of these columns of a table, in the order of the rows.
fn values(conn: &Connection, table: &str, columns: &[String]) -> Vec<Vec<Value>> {
    let query = format!("SELECT {} FROM {table} ORDER BY 1, 2", columns.join(", "));
    let mut statement = conn.prepare(&query).unwrap();
    let rows = statement.query_map([], |row| (0..columns.len()).map(|at| row.get(at)).collect());
    rows.unwrap().map(Result::unwrap).collect()
}

fn tables(conn: &Connection) -> Vec<(String, Vec<String>)> {
    // No version before the fifth wrote a task, which made the table anew.
    let query =
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'task' ORDER BY name";
    let mut names = conn.prepare(query).unwrap();
    let names = names.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let columns = |table: String| {
        let query = conn.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = query.column_names().map(ToOwned::to_owned).collect();
        (table, columns)
    };
    names.map(Result::unwrap).map(columns).collect()
}

#[test]
fn a_ledger_of_the_first_version_keeps_every_value() {
    let (mut conn, path, directory) = version_one();
    for (number, state) in STATES.into_iter().enumerate() {
        fill(&conn, number + 1, state);
    }
    let tables = tables(&conn);
    let all = |conn: &Connection| -> Vec<_> {
        let of = |(table, columns): &(String, Vec<String>)| values(conn, table, columns);
        tables.iter().map(of).collect()
    };
    let before = all(&conn);
    bring_up(&mut conn, &path, MIGRATIONS).unwrap();
    assert_eq!(all(&conn), before);
    assert_eq!(soundness(&conn), Ok(Soundness::Sound));
    assert_eq!(
        backups(&directory).len(),
        1,
        "one before the first step, which the program of before can open"
    );
    let key = crate::key::for_tests();
    let rows = SqliteRows::new(&conn, &key, Undo::Transaction);
    for (number, state) in STATES.into_iter().enumerate() {
        let id = MessageId::new(format!("m{}", number + 1));
        let message = rows.message(&id).unwrap().unwrap();
        assert_eq!(message.life.state.name().word(), state);
        assert!(rows.answer(&id).unwrap().is_some() && rows.ack(&id).unwrap().is_some());
        assert_eq!(
            (
                rows.replies(&id).unwrap().len(),
                rows.requests(&id).unwrap().len()
            ),
            (1, 1)
        );
    }
    assert_eq!(rows.backlog(), Ok(8));
}
