//! Calls that wait, over stdio: the daemon's progress reaches them, and they outlive the daemon.

use crate::rig::Mcp;
use crate::world::World;
use serde_json::{Value, json};

/// What `mcp` logs when the daemon says how the task goes on.
const NEWS: &str = "the daemon reports progress";

async fn begun(mcp: &Mcp, prompt: &str) -> Value {
    let begun = mcp.client.done("codex_start", json!({"prompt": prompt}));
    json!({"task_id": begun.await["task_id"]})
}

#[tokio::test]
async fn wait_receives_daemon_events() {
    let mut world = World::new().await;
    world.set_env("CODEX_BRIDGE_LOG", "debug");
    let daemon = world.daemon().await;
    let mcp = Mcp::start(&world).await;
    let mut log = mcp.log.clone();
    let task = begun(&mcp, "hold:one shell:echo half ;; hold:two echo:whole").await;
    world.model.wait_held("one").await.unwrap();
    let wait = mcp.client.done("codex_wait", task);
    let work = async {
        log.wait_for(NEWS).await;
        let before = log.text().matches(NEWS).count();
        world.model.release("one");
        log.wait_times(NEWS, before + 1).await;
        world.model.wait_held("two").await.unwrap();
        world.model.release("two");
    };
    let (done, ()) = tokio::join!(wait, work);
    assert_eq!(done["answer"], "whole", "{done:#}");
    assert_eq!(mcp.close().await, Some(0));
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn wait_survives_daemon_death() {
    let mut world = World::new().await;
    world.set_env("CODEX_BRIDGE_LOG", "debug");
    let daemon = world.daemon().await;
    let mcp = Mcp::start(&world).await;
    let mut log = mcp.log.clone();
    let task = begun(&mcp, "hold:door echo:kept").await;
    world.model.wait_held("door").await.unwrap();
    let wait = mcp.client.done("codex_wait", task);
    let work = async {
        log.wait_for(NEWS).await;
        daemon.kill_9().await;
        let before = log.text().matches(NEWS).count();
        log.wait_for("this server runs one while it lives").await;
        log.wait_times(NEWS, before + 1).await;
        world.model.release("door");
    };
    let (done, ()) = tokio::join!(wait, work);
    assert_eq!(done["answer"], "kept", "{done:#}");
    assert_eq!(mcp.close().await, Some(0));
}
