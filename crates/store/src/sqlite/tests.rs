//! How SQLite runs the hot queries: from partial indexes, without sorting, and without compiling them anew.

use super::open::{Options, open};
use crate::key::for_tests;
use crate::sql::{
    budget, conversation, figures, message, place, queue, quota, reply, subscription, task, token,
};
use rusqlite::types::Value;
use rusqlite::{Connection, StatementStatus};
use tempfile::TempDir;

fn ledger() -> (Connection, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let opened = open(
        &directory.path().join("ledger.db"),
        &for_tests(),
        Options::default(),
    )
    .unwrap();
    (opened.writer, directory)
}

/// `docs/formats.md` says which version this is, and names every table.
#[test]
fn published_format_is_the_newest_schema() {
    let formats = include_str!("../../../../docs/formats.md");
    let (conn, _directory) = ledger();
    let version: i64 = conn
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    let published = format!("| ledger | `user_version` = {version} |");
    assert!(formats.contains(&published), "{published}");
    let query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'";
    let mut tables = conn.prepare(query).unwrap();
    let names = tables.query_map([], |row| row.get::<_, String>(0)).unwrap();
    for name in names.map(Result::unwrap) {
        let is_named = |line: &str| {
            let cell = line
                .strip_prefix("| ")
                .and_then(|line| line.split('|').next());
            cell.is_some_and(|cell| cell.contains(&format!("`{name}`")))
        };
        assert!(formats.lines().any(is_named), "`{name}`");
    }
}

fn plan(conn: &Connection, query: &str) -> Vec<String> {
    let mut statement = conn
        .prepare(&format!("EXPLAIN QUERY PLAN {query}"))
        .unwrap();
    let parameters = vec![""; statement.parameter_count()];
    let steps = statement
        .query_map(rusqlite::params_from_iter(parameters), |row| row.get(3))
        .unwrap();
    steps.map(Result::unwrap).collect()
}

/// A step that walks a table, or an index that finished rows are in.
fn walks(step: &str) -> bool {
    let partial = [
        "message_queue",
        "message_open",
        "message_ready",
        "message_held",
        "message_due",
        "message_parked",
        "message_leader",
        "message_sender",
        "message_in_flight",
        "reply_lane",
        "subscription_open",
        "request_waiting",
        "request_open",
    ];
    step.starts_with("SCAN")
        && step != "SCAN behind"
        && step != "SCAN newest"
        && !step.starts_with("SCAN json_each")
        && !step.starts_with("SCAN CONSTANT ROW")
        && !partial
            .iter()
            .any(|index| step.contains(&format!("INDEX {index}")))
}

/// What runs for every message, what a start walks through, and the lists of fronts.
const HOT: [&str; 49] = [
    queue::OF_SENDER,
    queue::OF_SENDER_BEFORE,
    conversation::BY_ACTIVITY,
    conversation::TOUCH,
    queue::READY,
    queue::HELD,
    queue::NEXT_HELD,
    queue::NEXT_PARKED,
    queue::OVERDUE,
    queue::FLIGHT,
    queue::FLIGHT_AT,
    queue::IN_FLIGHT_OF,
    queue::FOLLOWERS,
    queue::LAST_ROUND,
    queue::FORGETTABLE,
    queue::OF_AGENT,
    queue::OF_AGENT_IN,
    queue::SAID_NTH_NEWEST,
    queue::EXCHANGES,
    queue::READY_FILTERED,
    queue::HELD_FILTERED,
    quota::AMONG_READY,
    quota::AMONG_HELD,
    queue::BACKLOG,
    queue::UNFINISHED,
    queue::LAST_SEQ,
    queue::OPEN_IN_STATE,
    queue::DEAD,
    queue::BY_PREFIX,
    queue::OLDER,
    queue::OF_CONVERSATION,
    queue::OF_CONVERSATION_FROM,
    task::STARTED_BY_PREFIX,
    place::OTHERS,
    reply::OF_MESSAGE,
    reply::NEXT,
    reply::LANES,
    message::BY_ID,
    message::BY_EXTERNAL,
    message::LIVE,
    message::LIVE_ELSEWHERE,
    task::OF_OWNER,
    task::OF_CONVERSATION,
    task::INPUTS,
    task::TOUCH,
    budget::TURNS,
    budget::STORED_HOURS,
    figures::FINISHED,
    token::BY_NAME,
];

/// It sorts, but what it finds, not the table: it is asked when a reply is in doubt, about those taken since a time.
#[test]
fn twin_reply_query_uses_time_index() {
    let (conn, _directory) = ledger();
    let steps = plan(&conn, reply::TWINS);
    assert!(
        !steps.iter().any(|step| step.starts_with("SCAN")),
        "{steps:?}"
    );
    let by_time = "SEARCH reply USING INDEX reply_sent (sent_at>?)";
    assert_eq!(steps.first().map(String::as_str), Some(by_time));
}

#[test]
fn hot_queries_avoid_scans_and_sorts() {
    let (conn, _directory) = ledger();
    for query in HOT {
        let plan = plan(&conn, query);
        for step in &plan {
            assert!(!walks(step), "{query}\n{plan:#?}");
            assert!(!step.contains("TEMP B-TREE"), "{query}\n{plan:#?}");
        }
    }
    for query in [
        queue::UNANSWERED_BEFORE,
        queue::UNANSWERED_OF,
        queue::UNANSWERED_OF_SENDER,
        task::COUNT_OF_OWNER,
        task::COUNT_OF_CONVERSATION,
        budget::CLAIMED,
        subscription::HELD,
    ] {
        for step in plan(&conn, query) {
            assert!(!walks(&step), "{step}");
        }
    }
}

#[test]
fn the_plan_check_can_fail() {
    let (conn, _directory) = ledger();
    let walk = plan(&conn, "SELECT * FROM message WHERE state = 'received'");
    assert!(walk.iter().any(|step| walks(step)), "{walk:?}");
}

#[test]
fn hot_statements_are_never_reprepared() {
    let (conn, _directory) = ledger();
    for query in HOT {
        let mut statement = conn.prepare(query).unwrap();
        for bound in 1..4 {
            let bound = vec![bound; statement.parameter_count()];
            let mut rows = statement.query(rusqlite::params_from_iter(bound)).unwrap();
            while rows.next().unwrap().is_some() {}
        }
        let again = statement.get_status(StatementStatus::RePrepare);
        assert_eq!(again, 0, "{query}");
    }
}

#[test]
fn connections_are_set_up_as_promised() {
    let directory = tempfile::tempdir().unwrap();
    let opened = open(
        &directory.path().join("ledger.db"),
        &for_tests(),
        Options::default(),
    )
    .unwrap();
    let setting = |conn: &Connection, pragma: &str| -> String {
        let value = conn.pragma_query_value(None, pragma, |row| row.get::<_, Value>(0));
        match value.unwrap() {
            Value::Integer(number) => number.to_string(),
            Value::Text(word) => word,
            other => panic!("{pragma}: {other:?}"),
        }
    };
    for (pragma, value) in [
        ("journal_mode", "wal"),
        ("synchronous", "2"),
        ("foreign_keys", "1"),
        ("busy_timeout", "5000"),
    ] {
        assert_eq!(setting(&opened.writer, pragma), value, "{pragma}");
    }
    assert_eq!(opened.readers.len(), 2);
    for reader in &opened.readers {
        assert_eq!(setting(reader, "query_only"), "1");
        let write = reader.execute_batch("UPDATE instance SET epoch = 9");
        assert!(write.is_err());
    }
}
