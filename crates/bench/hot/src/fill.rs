//! A history without living through it: the rows of one message that really lived are copied in SQL, with other ids,
//! conversations and times, so that tables and indexes are as they would be.
//!
//! The file must not be open elsewhere. That a copy has as many rows in every table as the original is checked.

use crate::life::{EPOCH_MS, Lives, SCATTER, STEPS_PER_LIFE};
use anyhow::{Context, ensure};
use rusqlite::{Connection, OptionalExtension};
use std::path::Path;

/// Messages of one conversation in a history.
const PER_CONVERSATION: u64 = 50;

/// Page cache while a history is written, in KiB: its indexes fit.
const CACHE_KIB: i64 = 512 * 1024;

/// Copies per statement: memory of the statement stays small, and a table grows beside its neighbours.
const AT_ONCE: u64 = 50_000;

/// What a copy gets instead of the original's value: table, what picks the original's rows, and columns with the SQL
/// that makes theirs from the number `n` of the copy and the number `c` of its conversation.
struct Copied {
    table: &'static str,
    of: &'static str,
    columns: &'static [(&'static str, &'static str)],
}

const BY_ROW: &str = "row = 1";
const BY_MESSAGE: &str = "message_id = :original";

const MESSAGE_ID: &str = "printf('0199c0de-0000-7000-8000-%012d', n)";
const CONVERSATION: &str = "printf('conversation-%06d', c)";
const SCATTERED: &str = "printf('%08x-%012d', (n * :scatter) & 4294967295, n)";
const TURN: &str = "printf('turn-0199c0de-0000-7000-8000-%012d', n)";
const CLIENT: &str = "printf('0199c0de-0000-7000-8000-%012d.1', n)";

/// In the order in which rows refer to each other. A copied turn has no checksum, as one from before there were any.
const COPIED: [Copied; 7] = [
    Copied {
        table: "message",
        of: BY_ROW,
        columns: &[
            ("row", "n + 1"),
            ("message_id", MESSAGE_ID),
            ("conversation_id", CONVERSATION),
            ("seq", "n / :conversations + 1"),
            ("external_id", SCATTERED),
            ("received_at", ":epoch + n * :steps"),
            ("sent_at", ":epoch + n * :steps"),
            ("updated_at", ":epoch + n * :steps + 11"),
        ],
    },
    Copied {
        table: "message_text",
        of: BY_ROW,
        columns: &[("row", "n + 1"), ("of_message", MESSAGE_ID)],
    },
    Copied {
        table: "turn",
        of: BY_MESSAGE,
        columns: &[
            ("message_id", MESSAGE_ID),
            ("client_id", CLIENT),
            ("thread", CONVERSATION),
            ("turn_id", TURN),
            ("started_at", ":epoch + n * :steps + 4"),
            ("ended_at", ":epoch + n * :steps + 8"),
            ("row_sum", "NULL"),
        ],
    },
    Copied {
        table: "event",
        of: BY_MESSAGE,
        columns: &[
            ("message_id", MESSAGE_ID),
            ("at", ":epoch + n * :steps + 6"),
        ],
    },
    Copied {
        table: "answer",
        of: BY_MESSAGE,
        columns: &[
            ("message_id", MESSAGE_ID),
            ("created_at", ":epoch + n * :steps + 8"),
        ],
    },
    Copied {
        table: "reply",
        of: BY_ROW,
        columns: &[
            ("row", "n + 1"),
            ("message_id", MESSAGE_ID),
            ("conversation_id", CONVERSATION),
            ("seq", "n / :conversations + 1"),
            ("reply_key", SCATTERED),
            ("first_try_at", ":epoch + n * :steps + 9"),
            ("sent_at", ":epoch + n * :steps + 10"),
            ("created_at", ":epoch + n * :steps + 8"),
        ],
    },
    Copied {
        table: "reply_text",
        of: BY_ROW,
        columns: &[("row", "n + 1")],
    },
];

/// A new ledger with `behind` finished messages: the first of them lived, the others are its copies.
///
/// # Errors
///
/// Where the file can't be written, or a copy is not what the original is.
pub async fn fill(path: &Path, behind: u64) -> anyhow::Result<()> {
    let lives = Lives::open(path, 0)?;
    let taken = if behind == 0 {
        0
    } else {
        lives.side_by_side(1, 1).await?
    };
    ensure!(taken == behind.min(1), "the original was not answered");
    lives.close(path).await?;
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || copy_original(&path, behind)).await?
}

fn copy_original(path: &Path, behind: u64) -> anyhow::Result<()> {
    let conn = Connection::open(path).with_context(|| format!("open {}", path.display()))?;
    conn.set_prepared_statement_cache_capacity(COPIED.len());
    for (pragma, value) in [
        ("foreign_keys", "OFF"),
        ("journal_mode", "MEMORY"),
        ("synchronous", "OFF"),
        ("locking_mode", "EXCLUSIVE"),
        ("cache_size", &(-CACHE_KIB).to_string()),
    ] {
        conn.pragma_update_and_check(None, pragma, value, |_| Ok(()))
            .or_else(|error| match error {
                rusqlite::Error::QueryReturnedNoRows => Ok(()),
                other => Err(other),
            })
            .with_context(|| format!("set {pragma}"))?;
    }
    let conversations = conversations_for(behind);
    let mut from = 1;
    while from < behind {
        let to = behind.min(from + AT_ONCE);
        conn.execute_batch("BEGIN")?;
        copy_conversations(&conn, conversations)?;
        for copied in &COPIED {
            copy(&conn, copied, from..to, conversations)
                .with_context(|| format!("copy {}", copied.table))?;
        }
        conn.execute_batch("COMMIT")?;
        from = to;
    }
    check(&conn, behind)?;
    conn.execute_batch("PRAGMA journal_mode = WAL")?;
    drop(conn);
    std::fs::File::open(path)?.sync_all()?;
    Ok(())
}

/// How many conversations a history of so many messages has; those that are measured are the first of them.
fn conversations_for(behind: u64) -> u64 {
    (behind / PER_CONVERSATION).max(64)
}

fn copy_conversations(conn: &Connection, conversations: u64) -> anyhow::Result<()> {
    let columns = columns(conn, "conversation")?;
    let values = columns.iter().map(|column| match column.as_str() {
        "conversation_id" | "thread" => CONVERSATION,
        "external_key" => "printf('key-%06d', c)",
        other => other,
    });
    let values: Vec<&str> = values.collect();
    let copy = format!(
        "INSERT OR IGNORE INTO conversation ({}) \
         WITH RECURSIVE number (c) AS (SELECT 1 UNION ALL SELECT c + 1 FROM number WHERE c + 1 < ?1) \
         SELECT {} FROM number CROSS JOIN conversation WHERE conversation_id = 'conversation-000000'",
        columns.join(", "),
        values.join(", "),
    );
    conn.execute(&copy, [conversations.cast_signed()])?;
    Ok(())
}

fn copy(
    conn: &Connection,
    copied: &Copied,
    numbers: std::ops::Range<u64>,
    conversations: u64,
) -> anyhow::Result<()> {
    let columns = columns(conn, copied.table)?;
    let value = |column: &String| {
        let found = copied.columns.iter().find(|(name, _)| name == column);
        found.map_or_else(|| column.clone(), |(_, sql)| (*sql).to_owned())
    };
    for (name, _) in copied.columns {
        ensure!(
            columns.iter().any(|column| column == name),
            "it has no column {name}"
        );
    }
    let values: Vec<String> = columns.iter().map(value).collect();
    let Copied { table, of, .. } = copied;
    let copy = format!(
        "INSERT INTO {table} ({}) \
         WITH RECURSIVE number (n) AS (SELECT :from UNION ALL SELECT n + 1 FROM number WHERE n + 1 < :to), \
         numbers (n, c) AS (SELECT n, n % :conversations FROM number) \
         SELECT {} FROM numbers CROSS JOIN {table} WHERE {of}",
        columns.join(", "),
        values.join(", "),
    );
    let mut statement = conn.prepare_cached(&copy)?;
    for (name, value) in [
        (":from", numbers.start.cast_signed()),
        (":to", numbers.end.cast_signed()),
        (":conversations", conversations.cast_signed()),
        (":epoch", EPOCH_MS),
        (":steps", STEPS_PER_LIFE.cast_signed()),
        (":scatter", SCATTER.cast_signed()),
    ] {
        if let Some(index) = statement.parameter_index(name)? {
            statement.raw_bind_parameter(index, value)?;
        }
    }
    if let Some(index) = statement.parameter_index(":original")? {
        statement.raw_bind_parameter(index, crate::life::message_id(0).as_str())?;
    }
    statement.raw_execute()?;
    Ok(())
}

fn columns(conn: &Connection, table: &str) -> anyhow::Result<Vec<String>> {
    let mut statement = conn.prepare_cached("SELECT name FROM pragma_table_info(?1)")?;
    let names = statement.query_map([table], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

/// Every table that knows messages has as many rows of a copy as of the original, and there are as many as asked for.
fn check(conn: &Connection, behind: u64) -> anyhow::Result<()> {
    let count =
        |sql: &str| -> anyhow::Result<i64> { Ok(conn.query_row(sql, [], |row| row.get(0))?) };
    for (table, rows) in tables(conn)? {
        let copied = COPIED.iter().any(|copied| copied.table == table);
        let whole = i64::try_from(behind)?;
        match table.as_str() {
            "conversation" | "instance" => {}
            _ if copied => ensure!(rows == whole, "{table} has {rows} rows, not {whole}"),
            _ => ensure!(
                rows == 0,
                "{table} has {rows} rows that a history does not copy"
            ),
        }
    }
    let strangers = count(
        "SELECT count(*) FROM (SELECT conversation_id FROM message EXCEPT SELECT conversation_id FROM conversation)",
    )?;
    ensure!(strangers == 0, "{strangers} conversations are missing");
    let open = count("SELECT count(*) FROM message WHERE queue IS NOT NULL")?;
    ensure!(open == 0, "{open} messages are not finished");
    Ok(())
}

fn tables(conn: &Connection) -> anyhow::Result<Vec<(String, i64)>> {
    let names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    let mut statement = conn.prepare(names)?;
    let names = statement.query_map([], |row| row.get::<_, String>(0))?;
    let mut found = Vec::new();
    for name in names {
        let name = name?;
        let rows = conn.query_row(&format!("SELECT count(*) FROM {name}"), [], |row| {
            row.get(0)
        });
        found.push((name, rows.optional()?.unwrap_or(0)));
    }
    Ok(found)
}
