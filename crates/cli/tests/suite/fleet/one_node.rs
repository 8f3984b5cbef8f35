//! One daemon alone on PostgreSQL does what it does on SQLite.

use super::Fleet;

#[tokio::test]
async fn answers_and_remembers() {
    let fleet = Fleet::new().await;
    let a = fleet.node("a");
    let daemon = a.daemon().await;
    assert_eq!(a.ask("main", "echo:hello").await, "hello");
    let again = a.ask("main", "remember:").await;
    assert!(again.contains("echo:hello"), "{again}");
    let nodes = a.json(&["node", "list", "--json"]).await;
    assert_eq!(nodes["nodes"][0]["node_id"], "a", "{nodes:#}");
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(
        fleet.rows("SELECT state FROM codex_bridge.node WHERE node_id = 'a'"),
        "left"
    );
}

#[tokio::test]
async fn kill_mid_turn_is_survived() {
    let fleet = Fleet::new().await;
    let a = fleet.node("a");
    let daemon = a.daemon().await;
    let (send, message_id) = a.sends("hold:gate echo:the answer").await;
    fleet.world.model.wait_held("gate").await.unwrap();
    daemon.kill_9().await;
    let daemon = a.daemon().await;
    fleet.world.model.release("gate");
    let ended = send.ended().await;
    assert_eq!(ended.stdout, "the answer\n", "{ended:?}");
    let shown = a.json(&["show", "--json", &message_id]).await;
    assert_eq!(fleet.world.times_asked("hold:gate"), 1, "{shown:#}");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn database_crash_mid_turn_loses_nothing() {
    let fleet = Fleet::alone().await;
    let a = fleet.node("a");
    let daemon = a.daemon().await;
    let (send, message_id) = a.sends("hold:gate echo:the answer").await;
    fleet.world.model.wait_held("gate").await.unwrap();
    fleet.server.restart_immediate().unwrap();
    fleet.world.model.release("gate");
    let ended = send.ended().await;
    assert_eq!(ended.stdout, "the answer\n", "{ended:?}");
    let shown = a.finished(&message_id).await;
    assert_eq!(shown["attempt"], 1, "{shown:#}");
    assert_eq!(fleet.world.times_asked("hold:gate"), 1);
    assert_eq!(daemon.stop().await, Some(0));
}
