//! Databases as the older tool leaves them, of each of its versions, and files that are none.

use super::*;
use std::os::unix::fs::symlink;

/// The first version of the tool: no notifications.
const FIRST: &str = "CREATE TABLE codex_bridge_tasks (hermes_task_id TEXT PRIMARY KEY, status TEXT NOT NULL, \
    prompt_summary TEXT, codex_thread_id TEXT, codex_turn_id TEXT, cwd TEXT, model TEXT, sandbox TEXT, \
    approval_policy TEXT, degraded_mode TEXT, last_progress_summary TEXT, final_summary TEXT, error_summary TEXT, \
    created_at REAL NOT NULL, updated_at REAL NOT NULL, completed_at REAL);";
const NOTIFIES: &str = "ALTER TABLE codex_bridge_tasks ADD COLUMN notify_target TEXT; \
    ALTER TABLE codex_bridge_tasks ADD COLUMN notification_status TEXT; \
    ALTER TABLE codex_bridge_tasks ADD COLUMN notified_at REAL; \
    ALTER TABLE codex_bridge_tasks ADD COLUMN notification_error TEXT;";
const WITH_EVENTS: &str = "CREATE TABLE codex_bridge_events (id INTEGER PRIMARY KEY AUTOINCREMENT, \
    hermes_task_id TEXT NOT NULL, codex_thread_id TEXT, codex_turn_id TEXT, source_event_type TEXT NOT NULL, \
    normalized_status TEXT, payload_summary TEXT, payload_json TEXT, created_at REAL NOT NULL);";

fn database(place: &Path, sql: &[&str]) -> PathBuf {
    let path = place.join("codex_bridge.db");
    let conn = Connection::open(&path).unwrap();
    for sql in sql {
        conn.execute_batch(sql).unwrap();
    }
    path
}

fn task(id: &str, status: &str, at: f64) -> String {
    format!(
        "INSERT INTO codex_bridge_tasks (hermes_task_id, status, prompt_summary, created_at, updated_at) \
         VALUES ('{id}', '{status}', 'do it', {at}, {at});"
    )
}

#[test]
fn every_column_set_is_read() {
    let place = tempfile::tempdir().unwrap();
    let rows = [
        task("codex-b", "failed", 2.5),
        task("codex-a", "completed", 1.5),
    ];
    for (at, more) in [&[][..], &[NOTIFIES], &[NOTIFIES, WITH_EVENTS]]
        .into_iter()
        .enumerate()
    {
        let own = place.path().join(at.to_string());
        std::fs::create_dir(&own).unwrap();
        let mut sql = vec![FIRST];
        sql.extend(more);
        sql.extend(rows.iter().map(String::as_str));
        let path = database(&own, &sql);
        let before = std::fs::read(&path).unwrap();
        let tasks = read_old_tasks(&path).unwrap().unwrap();
        let ids: Vec<_> = tasks.iter().map(|task| task.task_id.as_str()).collect();
        assert_eq!(ids, ["codex-a", "codex-b"], "oldest first");
        assert_eq!(tasks[1].created_at, Timestamp(2_500));
        assert_eq!(tasks[0].notify_target, None);
        assert_eq!(std::fs::read(&path).unwrap(), before);
        assert_eq!(
            std::fs::read_dir(&own).unwrap().count(),
            1,
            "nothing beside it"
        );
    }
}

#[test]
fn newest_rows_are_read_and_cut() {
    let place = tempfile::tempdir().unwrap();
    let path = database(place.path(), &[FIRST, WITH_EVENTS]);
    let conn = Connection::open(&path).unwrap();
    let many = IMPORTED_TASKS_MAX + 5;
    conn.execute_batch(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {many}) \
         INSERT INTO codex_bridge_tasks (hermes_task_id, status, final_summary, created_at, updated_at) \
         SELECT 'codex-' || i, 'completed', printf('%.*c', 100000, 'x'), 1e30, i FROM n; \
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30) \
         INSERT INTO codex_bridge_events (hermes_task_id, source_event_type, payload_summary, created_at) \
         SELECT 'codex-{many}', 'item/' || i, printf('%.*c', 9999, 'y'), i FROM n;"
    ))
    .unwrap();
    let tasks = read_old_tasks(&path).unwrap().unwrap();
    assert_eq!(tasks.len(), IMPORTED_TASKS_MAX);
    let last = tasks.last().unwrap();
    assert_eq!(last.task_id, format!("codex-{many}"));
    assert_eq!(last.final_summary.as_ref().unwrap().len(), REASON_MAX_CHARS);
    assert_eq!(last.created_at, Timestamp(253_402_300_799_000));
    let sources: Vec<_> = last.events.iter().map(|it| it.source.as_str()).collect();
    assert_eq!(sources.len(), IMPORTED_EVENTS_PER_TASK_MAX);
    assert_eq!((sources[0], sources[19]), ("item/11", "item/30"));
    assert_eq!(last.events[0].summary.len(), EVENT_TEXT_MAX_CHARS);
}

#[test]
fn a_write_ahead_log_is_left_alone() {
    let place = tempfile::tempdir().unwrap();
    let path = database(place.path(), &["PRAGMA journal_mode = WAL", FIRST]);
    let row = task("codex-a", "completed", 1.0);
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(&row).unwrap();
    let refused = read_old_tasks(&path).unwrap_err();
    assert!(matches!(refused, OldTasksError::Unsettled(_)), "{refused}");
    drop(conn);
    assert_eq!(read_old_tasks(&path).unwrap().unwrap().len(), 1);
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
}

#[test]
fn other_files_are_refused_unchanged() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    assert!(read_old_tasks(&path("absent")).unwrap().is_none());
    std::fs::write(path("text"), "hello").unwrap();
    std::fs::write(path("empty"), "").unwrap();
    symlink("/dev/zero", path("device")).unwrap();
    let good = database(place.path(), &[FIRST, &task("codex-a", "completed", 1.0)]);
    let mut torn = std::fs::read(&good).unwrap();
    torn[100..600].fill(0xff);
    std::fs::write(path("torn"), &torn).unwrap();
    let other = Connection::open(path("other")).unwrap();
    let view = "CREATE TABLE t (a); CREATE VIEW codex_bridge_tasks AS SELECT 1 AS hermes_task_id, 'x' AS status";
    other.execute_batch(view).unwrap();
    for (name, says) in [
        ("text", "no SQLite database"),
        ("empty", "no SQLite database"),
        ("device", "no regular file"),
        ("torn", "can't be read"),
        ("other", "no table"),
    ] {
        let why = read_old_tasks(&path(name)).unwrap_err().to_string();
        assert!(why.contains(says), "{name}: {why}");
    }
    assert_eq!(std::fs::read(path("torn")).unwrap(), torn);
}
