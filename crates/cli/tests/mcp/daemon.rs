//! Which daemon serves a stdio server: the one that runs, its own where none does, and what happens when it goes.

use crate::rig::Mcp;
use crate::world::{Daemon, Lines, World, freeze, gone, signal};
use nix::sys::signal::Signal;
use serde_json::json;

#[tokio::test]
async fn mcp_server_runs_or_reuses_daemon() {
    let world = World::new().await;
    let mut first = Mcp::start(&world).await;
    first
        .log
        .wait_for("this server runs one while it lives")
        .await;
    let started = json!({"prompt": "echo:kept", "wait_seconds": 60});
    let done = first.client.done("codex_start", started).await;
    assert_eq!(done["status"], "completed", "{done:#}");
    assert_eq!(done["answer"], "kept");

    let second = Mcp::start(&world).await;
    let listed = second.client.done("codex_list", json!({})).await;
    assert_eq!(listed["tasks"][0]["task_id"], done["task_id"]);
    assert_eq!(
        world.json(&["status", "--json"]).await["health"]["pid"],
        first.pid()
    );

    // Its daemon ends with it and leaves nothing behind; the second one runs its own from then on.
    assert_eq!(first.close().await, Some(0));
    let listed = second.client.done("codex_list", json!({})).await;
    assert_eq!(listed["tasks"][0]["task_id"], done["task_id"]);
    assert_eq!(
        world.json(&["status", "--json"]).await["health"]["pid"],
        second.pid()
    );
    assert_eq!(second.close().await, Some(0));
    assert_eq!(world.processes(), []);
}

#[tokio::test]
async fn daemon_loss_fails_steer_keeps_task() {
    let (world, daemon, mcp, id) = at_the_door().await;
    // Whether a word was heard can't be known, so it is not said again by itself.
    let asked = "call.name=\"codex_steer\"";
    let told = json!({"task_id": id, "instruction": "echo:other"});
    let called = mcp.client.refused("codex_steer", told);
    let (why, ()) = tokio::join!(called, dies_when(asked, daemon, mcp.log.clone()));
    assert!(why.contains("daemon went away during this call"), "{why}");
    is_kept(world, mcp, &id).await;
}

#[tokio::test]
async fn status_call_survives_daemon_death() {
    let (world, daemon, mcp, id) = at_the_door().await;
    let asked = "call.name=\"codex_status\"";
    let called = mcp.client.done("codex_status", json!({"task_id": id}));
    let (status, ()) = tokio::join!(called, dies_when(asked, daemon, mcp.log.clone()));
    assert_eq!(status["task_id"], id, "{status:#}");
    is_kept(world, mcp, &id).await;
}

/// A server with a task whose model waits at a door, and the daemon that serves them, which has stopped: it can't
/// answer, so that a call is under way when it dies.
async fn at_the_door() -> (World, Daemon, Mcp, String) {
    let mut world = World::new().await;
    world.set_env("CODEX_BRIDGE_LOG", "debug");
    let daemon = world.daemon().await;
    let mcp = Mcp::start(&world).await;
    let prompt = json!({"prompt": "hold:door echo:kept"});
    let started = mcp.client.done("codex_start", prompt).await;
    world.model.wait_held("door").await.unwrap();
    freeze(daemon.pid()).await;
    let id = started["task_id"].as_str().unwrap().to_owned();
    (world, daemon, mcp, id)
}

/// The door opens. Whoever is asked now runs a daemon, which attaches to the Codex that still works.
async fn is_kept(world: World, mcp: Mcp, id: &str) {
    world.model.release("door");
    let done = mcp.client.done("codex_wait", json!({"task_id": id})).await;
    assert_eq!(done["answer"], "kept", "{done:#}");
    assert_eq!(mcp.close().await, Some(0));
}

/// The daemon dies once it is asked.
async fn dies_when(asked: &str, daemon: Daemon, mut log: Lines) {
    log.wait_for(asked).await;
    daemon.kill_9().await;
}

#[tokio::test]
async fn start_survives_daemon_death_as_one_task() {
    let mut world = World::new().await;
    world.set_env("CODEX_BRIDGE_LOG", "debug");
    let daemon = world.daemon().await;
    let mcp = Mcp::start(&world).await;
    let mut log = mcp.log.clone();
    mcp.client.done("codex_list", json!({})).await;
    let asked = "call.name=\"codex_start\"";
    freeze(daemon.pid()).await;
    let started = mcp.client.done(
        "codex_start",
        json!({"prompt": "echo:once", "wait_seconds": 60}),
    );
    let killed = async {
        log.wait_for(asked).await;
        daemon.kill_9().await;
    };
    let (done, ()) = tokio::join!(started, killed);
    assert_eq!(done["answer"], "once", "{done:#}");
    let listed = mcp.client.done("codex_list", json!({})).await;
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 1, "{listed:#}");
    assert_eq!(mcp.close().await, Some(0));
}

#[tokio::test]
async fn calls_explain_daemon_start_failure() {
    let mut world = World::new().await;
    world.set_env("CODEX_BRIDGE_CODEX_BIN", "/nowhere/codex");
    let mcp = Mcp::start(&world).await;
    for (tool, arguments) in [
        ("codex_bridge", json!({"action": "list"})),
        ("codex_list", json!({})),
    ] {
        let why = mcp.client.refused(tool, arguments).await;
        assert!(
            why.contains("could not start one") && why.contains("codex-bridge doctor"),
            "{why}"
        );
    }
    assert_eq!(mcp.close().await, Some(0));
}

#[tokio::test]
async fn stdout_carries_only_protocol() {
    let world = World::new().await;
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}"#;
    let ended = world
        .run_with_input(&["mcp"], format!("{hello}\n").as_bytes())
        .await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let lines: Vec<serde_json::Value> = ended
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 1, "{ended:?}");
    assert_eq!(lines[0]["result"]["serverInfo"]["name"], "codex-bridge");
    assert!(lines[0]["result"]["capabilities"].get("prompts").is_none());
}

#[tokio::test]
async fn sigterm_ends_server_with_client_connected() {
    let world = World::new().await;
    let mut mcp = Mcp::start(&world).await;
    mcp.log
        .wait_for("this server runs one while it lives")
        .await;
    let pid = mcp.pid();
    signal(pid, Signal::SIGTERM);
    assert_eq!(mcp.ended().await, Some(0));
    gone(pid).await;
    assert!(world.processes().is_empty());
}
