//! One daemon alone on PostgreSQL does what it does on SQLite.

use super::{Fleet, SHORT_LEASE_SECS};
use crate::world::Daemon;
use bridge_sim::codex_for_tests;
use std::os::unix::fs::PermissionsExt;

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

/// Nobody else is there to fence it: when its lease is over it stops by itself, and started again it waits.
#[tokio::test]
async fn n16_cut_off_node_stops_and_waits() {
    let fleet = Fleet::new().await.with_short_lease();
    let a = fleet.node("a");
    let mut daemon = a.daemon().await;
    assert_eq!(a.ask("main", "echo:before").await, "before");
    let lets_in = |does: bool| {
        let name = &fleet.database;
        let alter = format!("ALTER DATABASE {name} ALLOW_CONNECTIONS {does}");
        fleet.server.psql("postgres", &alter).unwrap();
    };
    lets_in(false);
    let cut = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'",
        fleet.database
    );
    fleet.server.psql("postgres", &cut).unwrap();
    daemon.log.wait_for("database could not be reached").await;
    let mut said = daemon.log.clone();
    assert_eq!(daemon.ended().await, Some(1));
    said.closed().await;
    let said = said.text();
    assert!(said.contains("start it again"), "{said}");
    assert!(!said.contains("has taken over this database"), "{said}");
    let mut again = a.start(&["run"]).await;
    again.stderr.wait_for("it is tried again").await;
    lets_in(true);
    again.stderr.wait_for(" ready ").await;
    assert_eq!(a.ask("main", "echo:after").await, "after");
}

/// A launcher of Codex may take longer than a lease to say what it runs.
#[tokio::test]
async fn slow_start_keeps_its_lease() {
    let fleet = Fleet::new().await.with_short_lease();
    let a = fleet.node("a");
    let codex = codex_for_tests().unwrap();
    let launcher = fleet.world.path().join("slow-codex");
    let seconds = SHORT_LEASE_SECS + 1;
    let script = format!(
        "#!/bin/sh\ncase $1 in app-server) sleep {seconds};; esac\nexec {codex:?} \"$@\"\n"
    );
    std::fs::write(&launcher, script).unwrap();
    std::fs::set_permissions(&launcher, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = a.command(&["run"]);
    command.env("CODEX_BRIDGE_CODEX_BIN", &launcher);
    let daemon = Daemon::of(command).await;
    let nodes = a.json(&["node", "list", "--json"]).await;
    assert_eq!(nodes["nodes"][0]["state"], "active", "{nodes:#}");
    assert_eq!(daemon.stop().await, Some(0));
}
