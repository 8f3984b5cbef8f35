//! Somebody who comes from the hermes tool: the old ids, the cron that polls, the directory of the client, the events.

use crate::rig::{Mcp, TestClient};
use crate::world::World;
use serde_json::{Value, json};
use std::path::Path;

const TOOL: &str = "codex_bridge";

/// The tables as the older tool makes them.
const SCHEMA: &str = "CREATE TABLE codex_bridge_tasks (hermes_task_id TEXT PRIMARY KEY, status TEXT NOT NULL, \
    prompt_summary TEXT, codex_thread_id TEXT, codex_turn_id TEXT, cwd TEXT, model TEXT, sandbox TEXT, \
    approval_policy TEXT, degraded_mode TEXT, last_progress_summary TEXT, final_summary TEXT, error_summary TEXT, \
    notify_target TEXT, notification_status TEXT, notified_at REAL, notification_error TEXT, created_at REAL NOT NULL, \
    updated_at REAL NOT NULL, completed_at REAL); \
    CREATE TABLE codex_bridge_events (id INTEGER PRIMARY KEY AUTOINCREMENT, hermes_task_id TEXT NOT NULL, \
    codex_thread_id TEXT, codex_turn_id TEXT, source_event_type TEXT NOT NULL, normalized_status TEXT, \
    payload_summary TEXT, payload_json TEXT, created_at REAL NOT NULL);";

fn old_database(home: &Path) {
    std::fs::create_dir_all(home).unwrap();
    let old = rusqlite::Connection::open(home.join("codex_bridge.db")).unwrap();
    old.execute_batch(SCHEMA).unwrap();
    old.execute_batch(
        "INSERT INTO codex_bridge_tasks VALUES \
         ('codex-0123456789ab', 'completed', 'Count the files', 'th-1', 'tu-1', '/srv/project', 'gpt-5', 'read-only', \
          'untrusted', 'none', 'turn/completed: {}', '{\"turn\": \"done\"}', NULL, 'local', 'pending', NULL, NULL, \
          1000.5, 1002.5, 1002.25), \
         ('codex-0123456789ac', 'working', 'Never ends', 'th-2', 'tu-2', '/srv/project', NULL, 'workspace-write', \
          'untrusted', 'none', NULL, NULL, NULL, 'feishu:oc_1', 'pending', NULL, NULL, 1001.0, 1003.0, NULL); \
         INSERT INTO codex_bridge_events (hermes_task_id, source_event_type, normalized_status, payload_summary, created_at) \
         VALUES ('codex-0123456789ab', 'turn/completed', 'completed', '{\"turn\": \"done\"}', 1002.25);",
    )
    .unwrap();
}

async fn status(mcp: &Mcp, id: &str) -> Value {
    let asked = json!({"action": "status", "task_id": id});
    mcp.client.done(TOOL, asked).await["task"].clone()
}

async fn polled(mcp: &Mcp) -> Vec<(String, String)> {
    let told = mcp
        .client
        .done(TOOL, json!({"action": "notify_completed"}))
        .await;
    let told = told["notifications"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let one = |it: &Value| (text(&it["task_id"]), text(&it["notification_status"]));
    told.iter().map(one).collect()
}

#[tokio::test]
async fn hermes_database_answers_old_ids() {
    let mut world = World::new().await;
    let hermes = world.path().join("hermes");
    old_database(&hermes);
    world.set_env("HERMES_HOME", hermes.to_str().unwrap());
    let mut mcp = Mcp::start(&world).await;
    let done = status(&mcp, "codex-0123456789ab").await;
    mcp.log.wait_for("taken=2").await;
    for (key, value) in [
        ("status", json!("completed")),
        ("prompt_summary", json!("Count the files")),
        ("codex_thread_id", json!("th-1")),
        ("codex_turn_id", json!("tu-1")),
        ("cwd", json!("/srv/project")),
        ("model", json!("gpt-5")),
        ("sandbox", json!("read-only")),
        ("final_summary", json!("{\"turn\": \"done\"}")),
        ("created_at", json!(1000.5)),
        ("completed_at", json!(1002.25)),
        ("notification_status", json!("pending")),
        ("active_connection", json!(false)),
        (
            "last_progress_summary",
            json!("turn/completed: {\"turn\": \"done\"}"),
        ),
    ] {
        assert_eq!(done[key], value, "{key}: {done:#}");
    }
    let event = &done["recent_events"][0];
    assert_eq!(event["source_event_type"], "turn/completed", "{done:#}");
    assert_eq!(event["normalized_status"], "completed");
    let cut = status(&mcp, "codex-0123456789ac").await;
    assert_eq!(cut["status"], "failed", "{cut:#}");
    assert_eq!(cut["phase"], "failed", "{cut:#}");
    assert!(!mcp.log.text().contains("taken in"), "{}", mcp.log.text());
    let why = cut["error_summary"].as_str().unwrap();
    assert!(why.contains("process that ran it is gone"), "{why}");
    let listed = mcp.client.done(TOOL, json!({"action": "list"})).await;
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 2, "{listed:#}");
    let ls = world.json(&["ls", "--json"]).await;
    let first = &ls["conversations"][1];
    assert_eq!(first["active_at"], "1970-01-01T00:16:42.250Z", "{ls:#}");
    let polls = polled(&mcp).await;
    let known = |id: &str| polls.iter().find(|(it, _)| it == id).cloned();
    assert_eq!(known("codex-0123456789ab").unwrap().1, "sent");
    assert_eq!(known("codex-0123456789ac").unwrap().1, "pending");
    let cut = status(&mcp, "codex-0123456789ac").await;
    let why = cut["notification_error"].as_str().unwrap();
    assert!(why.contains("`notify.schemes.feishu`"), "{why}");
    let steer = json!({"action": "steer", "task_id": "codex-0123456789ab", "instruction": "more"});
    let over = mcp.client.refused(TOOL, steer).await;
    assert!(over.contains("the task is over"), "{over}");
    assert_eq!(mcp.close().await, Some(0));

    // The file may be gone or changed: what was taken over stays, and nothing is taken over twice.
    let again = Mcp::start(&world).await;
    let listed = again.client.done(TOOL, json!({"action": "list"})).await;
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 2, "{listed:#}");
    assert_eq!(again.close().await, Some(0));
}

#[tokio::test]
async fn local_ends_are_polled_once() {
    let world = World::new().await;
    let mcp = Mcp::start(&world).await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let start = json!({"prompt": "echo:x", "notify_target": "local", "wait_seconds": 60});
        let done = mcp.client.done("codex_start", start).await;
        ids.push(done["task_id"].as_str().unwrap().to_owned());
    }
    assert_eq!(
        status(&mcp, &ids[0]).await["notification_status"],
        "pending"
    );
    let look = json!({"action": "notify_completed", "dry_run": true});
    let dry = mcp.client.done(TOOL, look).await;
    assert_eq!(dry["processed"], 2, "{dry:#}");
    let sent = |id: &String| (id.clone(), "sent".to_owned());
    assert_eq!(polled(&mcp).await, ids.iter().map(sent).collect::<Vec<_>>());
    assert_eq!(polled(&mcp).await, []);
    assert_eq!(status(&mcp, &ids[0]).await["notification_status"], "sent");
    assert_eq!(mcp.close().await, Some(0));
}

#[tokio::test]
async fn client_directory_is_the_default_cwd() {
    let world = World::new().await;
    let place = world.path().join("project").canonicalize();
    assert!(place.is_err());
    std::fs::create_dir_all(world.path().join("project/below")).unwrap();
    std::fs::create_dir(world.person().join("mine")).unwrap();
    let project = world.path().join("project").canonicalize().unwrap();
    let home = world.person().canonicalize().unwrap();
    let mcp = Mcp::start_in(&world, &project, TestClient::default()).await;
    for (cwd, works_in) in [
        (json!(null), project.clone()),
        (json!("below"), project.join("below")),
        (json!("./below/.."), project.clone()),
        (json!("~/mine"), home.join("mine")),
        (json!(home), home.clone()),
    ] {
        let start = json!({"action": "start", "prompt": "echo:x", "cwd": cwd});
        let task = mcp.client.done(TOOL, start).await["task"].clone();
        assert_eq!(task["cwd"], json!(works_in), "{cwd}");
    }
    let ran = json!({"prompt": "shell:pwd ;; echo:done", "wait_seconds": 60});
    mcp.client.done("codex_start", ran).await;
    let calls = world.model.requests();
    let said = calls.iter().rev().find_map(|call| call.outputs.last());
    assert!(
        said.unwrap().contains(project.to_str().unwrap()),
        "{said:?}"
    );
    assert_eq!(mcp.close().await, Some(0));

    let below = project.join("below");
    let roots = TestClient {
        roots: vec![below.clone()],
    };
    let mcp = Mcp::start_in(&world, &project, roots).await;
    let start = json!({"action": "start", "prompt": "echo:x"});
    let task = mcp.client.done(TOOL, start.clone()).await["task"].clone();
    assert_eq!(task["cwd"], json!(below), "the first root");
    assert_eq!(mcp.close().await, Some(0));

    let mcp = Mcp::start_in(&world, &home, TestClient::default()).await;
    let task = mcp.client.done(TOOL, start).await["task"].clone();
    let own = world.state_dir().canonicalize().unwrap().join("work");
    assert!(
        Path::new(task["cwd"].as_str().unwrap()).starts_with(own),
        "{task:#}"
    );
    assert_eq!(mcp.close().await, Some(0));
}

#[tokio::test]
async fn events_carry_status_and_raw_lines() {
    let world = World::with_settings("[tasks]\nraw_events = true\n").await;
    let mcp = Mcp::start(&world).await;
    let start = json!({"prompt": "echo:spoken", "wait_seconds": 60});
    let done = mcp.client.done("codex_start", start).await;
    let task = status(&mcp, done["task_id"].as_str().unwrap()).await;
    let events = task["recent_events"].as_array().unwrap();
    let of = |name: &str| events.iter().find(|it| it["source_event_type"] == name);
    let end = of("turn/completed").unwrap();
    assert_eq!(end["normalized_status"], "completed", "{task:#}");
    let raw = of("protocol/raw").unwrap()["payload_summary"]
        .as_str()
        .unwrap();
    assert!(raw.starts_with('{') && raw.contains("\"method\""), "{raw}");
    let progress = task["last_progress_summary"].as_str().unwrap_or_default();
    assert!(!progress.starts_with("protocol/raw"), "{progress}");
    assert_eq!(mcp.close().await, Some(0));
}

#[tokio::test]
async fn late_response_names_decider_and_code() {
    let world = World::new().await;
    let mcp = Mcp::start(&world).await;
    let place = world.path().join("place");
    std::fs::create_dir(&place).unwrap();
    let start = json!({"prompt": "escal:touch one ;; escal:touch two ;; echo:ran", "cwd": place,
        "sandbox": "workspace-write", "wait_seconds": 60});
    let asked = mcp.client.done("codex_start", start).await;
    let id = asked["task_id"].as_str().unwrap();
    let first = status(&mcp, id).await["pending_requests"][0].clone();
    let respond = |of: &Value, decision: &str| json!({"action": "respond", "task_id": id, "instruction": of["request_id"], "decision": decision});
    mcp.client.done(TOOL, respond(&first, "accept")).await;
    mcp.client.done("codex_wait", json!({"task_id": id})).await;
    let second = status(&mcp, id).await["pending_requests"][0].clone();
    let why = mcp.client.refused(TOOL, respond(&first, "decline")).await;
    assert!(why.contains("approved already by local owner"), "{why}");
    let code = second["code"].as_str().unwrap();
    assert!(why.contains(&format!("Codex waits for '{code}'")), "{why}");
    let by_code =
        json!({"action": "respond", "task_id": id, "instruction": code, "decision": "decline"});
    mcp.client.done(TOOL, by_code).await;
    mcp.client.done("codex_wait", json!({"task_id": id})).await;
    assert_eq!(mcp.close().await, Some(0));
}
