//! A database that can't be used is named with what to do, and stays as it is.

use super::{DATABASE, Fleet, Node};
use crate::world::Running;

async fn refused(node: &Node<'_>, url: &str, words: &[&str]) {
    let mut command = node.command(&["run"]);
    command.env("CODEX_BRIDGE_LEDGER_URL", url);
    let ended = Running::of(command).ended().await;
    ended.must(1, words);
    assert!(!ended.stderr.contains("secret-word"), "{ended:?}");
}

#[tokio::test]
async fn unusable_databases_say_what_to_do() {
    let fleet = Fleet::new().await;
    let a = fleet.node("a");
    let url = fleet.server.url_of(DATABASE);
    let nobody = "postgres://user:secret-word@127.0.0.1:1/fleet";
    refused(
        &a,
        nobody,
        &["cannot reach the database", "check that its server runs"],
    )
    .await;
    let missing = fleet.server.url_of("missing");
    refused(&a, &missing, &["refuses this user", "check user, password"]).await;
    let remote = "postgres://user:secret-word@db.example.org/fleet";
    refused(&a, remote, &["must be verified", "sslmode=verify-full"]).await;
    assert_eq!(a.daemon().await.stop().await, Some(0));
    fleet.rows("UPDATE codex_bridge.format SET version = 99");
    refused(&a, &url, &["newer"]).await;
    assert_eq!(fleet.rows("SELECT version FROM codex_bridge.format"), "99");
}
