//! `ledger copy` on the built binary: a conversation goes on with its memory on PostgreSQL, and in a file again.

use crate::json_schema::must_fit;
use crate::world::{Daemon, Ended, Running, World};
use bridge_sim::postgres::Server;
use serde_json::Value;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

const DATABASE: &str = "copied";
const URL: &str = "CODEX_BRIDGE_LEDGER_URL";

async fn ask(world: &World, state: &Path, text: &str) {
    let text = format!("echo:{text}");
    let args = ["send", "--conversation", "main", &text];
    let ended = Running::of(world.command_on(state, &args)).ended().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

fn remembers(world: &World, last: &str, before: &[&str]) {
    let shown = world.shown_with(last).join("\n");
    for text in before {
        assert!(shown.contains(text), "{text:?} before {last:?}: {shown}");
    }
}

fn report(ended: &Ended) -> Value {
    let value: Value =
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    must_fit("ledger copy", &value);
    assert_eq!(value["audit"]["ok"], true, "{value:#}");
    value
}

#[tokio::test]
async fn ledger_goes_to_postgres_and_back() {
    let server = Server::shared().unwrap();
    server.create_database(DATABASE, None).unwrap();
    let url = server.url_of(DATABASE);
    let mut world = World::new().await;
    let state = world.state_dir();
    let daemon = world.daemon().await;
    let picture = world.path().join("sent.txt");
    std::fs::write(&picture, "bytes").unwrap();
    let picture = picture.display().to_string();
    let args = [
        "send",
        "--json",
        "--conversation",
        "main",
        "--file",
        &picture,
        "echo:first",
    ];
    let sent = world.json(&args).await;
    let add = ["token", "add", "t", "--scope", "read"];
    assert_eq!(world.run(&add).await.code, Some(0));
    let early = world.run(&["ledger", "copy", "--to", &url]).await;
    early.must(1, &["already runs"]);
    assert_eq!(daemon.stop().await, Some(0));

    let there = ["ledger", "copy", "--to", "postgres", "--json"];
    let unnamed = world.run(&there[..4]).await;
    unnamed.must(1, &["CODEX_BRIDGE_LEDGER_COPY_URL is not set"]);
    let secret = "postgres://u:hunter2@localhost/x";
    let secret = world.run(&["ledger", "copy", "--to", secret]).await;
    secret.must(1, &["CODEX_BRIDGE_LEDGER_COPY_URL"]);
    assert!(!secret.stderr.contains("hunter2"), "{secret:?}");
    world.set_env("CODEX_BRIDGE_LEDGER_COPY_URL", &url);
    let copied = report(&world.run(&there).await);
    assert_eq!(copied["threads"]["at_home"], 1, "{copied:#}");
    assert_eq!(copied["files"]["named"], 1, "{copied:#}");
    assert_eq!(copied["files"]["stored"], 0, "{copied:#}");
    let again = world.run(&there[..4]).await;
    again.must(1, &["is not empty"]);

    world.set_env(URL, &url);
    let whole = world.run(&["audit", "--verify"]).await;
    assert!(whole.stdout.contains("whole, 1 entries"), "{whole:?}");
    let mut daemon = world.daemon().await;
    let stored = "files that only this node had are in the database now";
    daemon.log.wait_for(stored).await;
    ask(&world, &state, "second").await;
    remembers(&world, "second", &["first"]);
    let back = world.path().join("back");
    DirBuilder::new().mode(0o700).create(&back).unwrap();
    let file = back.join("ledger.db").display().to_string();
    let home = ["ledger", "copy", "--to", &file, "--json"];
    let early = world.run(&home[..4]).await;
    early.must(1, &["uses the database", "node drain"]);
    assert_eq!(daemon.stop().await, Some(0));
    let copied = report(&world.run(&home).await);
    assert_eq!(copied["key"]["missing"], Value::Null, "{copied:#}");
    assert_eq!(copied["threads"]["stored"], 1, "{copied:#}");
    assert_eq!(copied["files"]["stored"], 1, "{copied:#}");

    world.unset_env(URL);
    std::fs::copy(state.join("key"), back.join("key")).unwrap();
    let daemon = Daemon::of(world.command_on(&back, &["run"])).await;
    ask(&world, &back, "third").await;
    remembers(&world, "third", &["first", "second"]);
    let show = ["show", "--json", sent["message_id"].as_str().unwrap()];
    let shown = Running::of(world.command_on(&back, &show)).ended().await;
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    let copy = Path::new(shown["files"][0]["path"].as_str().unwrap());
    assert!(copy.starts_with(back.join("files")), "{shown:#}");
    assert_eq!(std::fs::read_to_string(copy).unwrap(), "bytes");
    let audit = world.command_on(&back, &["audit", "--verify"]);
    let whole = Running::of(audit).ended().await;
    assert!(whole.stdout.contains("whole, 1 entries"), "{whole:?}");
    assert_eq!(daemon.stop().await, Some(0));
}
