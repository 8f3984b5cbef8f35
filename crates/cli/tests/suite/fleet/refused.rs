//! A database that can't be used is named with what to do, and stays as it is.

use super::{Fleet, Node};
use crate::world::{Running, signal};
use bridge_sim::postgres::Server;
use nix::sys::signal::Signal;

/// The daemon does not start on it, and `doctor` says the same.
async fn refused(node: &Node<'_>, url: &str, words: &[&str]) {
    let variable = ("CODEX_BRIDGE_LEDGER_URL", url);
    let mut command = node.command(&["run"]);
    command.env(variable.0, variable.1);
    let ended = Running::of(command).ended().await;
    ended.must(1, words);
    assert!(!ended.stderr.contains("secret-word"), "{ended:?}");
    let said = node.doctor_of_database(&[variable]).await;
    for word in words.iter().chain(&["fail"]) {
        assert!(said.contains(word), "{word:?} is not in {said}");
    }
    assert!(!said.contains("secret-word"), "{said}");
}

#[tokio::test]
async fn unusable_databases_say_what_to_do() {
    let fleet = Fleet::new().await;
    let a = fleet.node("a");
    let url = fleet.url();
    let missing = fleet.server.url_of("missing");
    refused(&a, &missing, &["refuses this user", "check user, password"]).await;
    fleet.rows("CREATE ROLE fleet_guest LOGIN PASSWORD 'right'");
    let wrong = url.replace("bridge@", "fleet_guest:secret-word@");
    let password = ["password authentication failed", "check user, password"];
    refused(&a, &wrong, &password).await;
    let remote = "postgres://user:secret-word@db.example.org/fleet";
    refused(&a, remote, &["must be verified", "sslmode=verify-full"]).await;
    let alter = |change: &str| {
        let statement = format!("ALTER DATABASE {} {change}", fleet.database);
        fleet.server.psql("postgres", &statement).unwrap();
    };
    alter("SET default_transaction_read_only = on");
    refused(&a, &url, &["takes no writes", "name the primary"]).await;
    alter("RESET default_transaction_read_only");
    assert_eq!(a.daemon().await.stop().await, Some(0));
    fleet.rows("UPDATE codex_bridge.format SET version = 99, compatible_since = 99");
    refused(
        &a,
        &url,
        &["schema version 99", "run the newer codex-bridge"],
    )
    .await;
    assert_eq!(fleet.rows("SELECT version FROM codex_bridge.format"), "99");
    fleet.rows("DROP ROLE fleet_guest");
}

/// It may only be starting: it is tried again, which can be ended at any time.
#[tokio::test]
async fn unreachable_database_is_tried_again() {
    let fleet = Fleet::new().await;
    let a = fleet.node("a");
    let nobody = "postgres://user:secret-word@127.0.0.1:1/fleet";
    let unreachable = ["cannot reach the database", "check that its server runs"];
    let variable = ("CODEX_BRIDGE_LEDGER_URL", nobody);
    let mut command = a.command(&["run"]);
    command.env(variable.0, variable.1);
    let mut daemon = Running::of(command);
    daemon.stderr.wait_for("it is tried again").await;
    signal(daemon.pid(), Signal::SIGTERM);
    let ended = daemon.ended().await;
    ended.must(0, &unreachable);
    let said = a.doctor_of_database(&[variable]).await;
    for word in unreachable.iter().chain(&["fail"]) {
        assert!(said.contains(word), "{word:?} is not in {said}");
    }
    assert!(!format!("{ended:?}{said}").contains("secret-word"));
}

#[tokio::test]
async fn hot_standby_is_refused() {
    let fleet = Fleet::new().await;
    let a = fleet.node("a");
    let standby = Server::start_fast().unwrap();
    std::fs::write(standby.directory().join("data/standby.signal"), "").unwrap();
    standby.restart_immediate().unwrap();
    let recovers = standby.psql("postgres", "SELECT pg_is_in_recovery()");
    assert_eq!(recovers.unwrap().trim(), "t");
    let url = standby.url_of("postgres");
    refused(&a, &url, &["takes no writes", "name the primary"]).await;
}

#[tokio::test]
async fn servers_that_lose_commits_are_named() {
    let fleet = Fleet::new().await;
    let a = fleet.node("a");
    let alter = format!("ALTER DATABASE {}", fleet.database);
    fleet.rows(&format!("{alter} SET synchronous_commit = off"));
    let daemon = a.daemon().await;
    let status = a.run(&["status"]).await.stdout;
    let doctor = a.doctor_of_database(&[]).await;
    for words in ["synchronous_commit = off", "fsync = off", "set it to on"] {
        assert!(status.contains(words), "{words:?} is not in {status}");
        assert!(doctor.contains(words), "{words:?} is not in {doctor}");
        assert!(daemon.log.text().contains(words), "{words:?}");
    }
    assert!(!doctor.contains("fail"), "{doctor}");
    assert_eq!(daemon.stop().await, Some(0));
}
