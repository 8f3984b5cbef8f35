//! How SQLite runs the hot queries: from partial indexes, without sorting, and without compiling them anew.

use super::open::{Options, open};
use super::{message, place, queue, reply};
use rusqlite::{Connection, StatementStatus};
use tempfile::TempDir;

fn ledger() -> (Connection, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let opened = open(&directory.path().join("ledger.db"), Options::default()).unwrap();
    (opened.writer, directory)
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
        "message_place",
        "message_open",
        "message_ready",
        "message_held",
        "message_due",
        "reply_lane",
    ];
    step.starts_with("SCAN")
        && !step.starts_with("SCAN (subquery")
        && !partial
            .iter()
            .any(|index| step.contains(&format!("INDEX {index}")))
}

#[test]
fn hot_queries_never_walk_finished_rows_or_sort() {
    let (conn, _directory) = ledger();
    for query in [
        queue::READY,
        queue::HELD,
        queue::NEXT_DUE,
        queue::IN_FLIGHT,
        queue::BACKLOG,
        queue::UNFINISHED,
        queue::LAST_SEQ,
        place::OTHERS,
        reply::OF_MESSAGE,
        reply::NEXT,
        reply::LANES,
        message::BY_ID,
        message::BY_EXTERNAL,
        message::LIVE,
        message::LIVE_ELSEWHERE,
    ] {
        let plan = plan(&conn, query);
        for step in &plan {
            assert!(!walks(step), "{query}\n{plan:#?}");
            assert!(!step.contains("TEMP B-TREE"), "{query}\n{plan:#?}");
        }
    }
    for step in plan(&conn, queue::UNANSWERED_BEFORE) {
        assert!(!walks(&step), "{step}");
    }
}

#[test]
fn the_plan_check_can_fail() {
    let (conn, _directory) = ledger();
    let walk = plan(&conn, "SELECT * FROM message WHERE state = 'received'");
    assert!(walk.iter().any(|step| walks(step)), "{walk:?}");
}

#[test]
fn a_statement_is_compiled_once_whatever_is_bound() {
    let (conn, _directory) = ledger();
    let mut statement = conn.prepare(message::LIVE).unwrap();
    for state in ["claimed", "starting", "running"] {
        let bound = vec![state; statement.parameter_count()];
        statement
            .execute(rusqlite::params_from_iter(bound))
            .unwrap();
    }
    assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
}
