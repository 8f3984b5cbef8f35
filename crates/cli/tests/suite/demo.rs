//! `demo`: the whole job on this machine, and nothing left of it, however it ends.

use crate::world::{World, signal};
use bridge_sim::codex_for_tests;
use bridge_sim::postgres::Server;
use nix::sys::signal::Signal;
use std::path::PathBuf;

/// Where the demo may put its things, so that what it leaves can be seen.
fn temporary(world: &mut World) -> PathBuf {
    let directory = world.path().join("tmp");
    std::fs::create_dir(&directory).unwrap();
    world.set_env("TMPDIR", directory.to_str().unwrap());
    directory
}

fn assert_nothing_left(world: &World, directory: &PathBuf) {
    assert_eq!(world.processes(), []);
    assert_eq!(std::fs::read_dir(directory).unwrap().count(), 0);
}

#[tokio::test]
async fn demo_completes_and_cleans_up() {
    let mut world = World::new().await;
    let directory = temporary(&mut world);
    let codex = codex_for_tests().unwrap();
    let ended = world
        .run(&["demo", "--codex-bin", codex.to_str().unwrap()])
        .await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for words in [
        "codex to alice: Noted: teal.",
        "codex to bob: One file: hello.txt.",
        "before this one: \"My favourite colour is teal.",
        "codex on the canvas: It is green.",
        "codex to agent scout: Only what you told me.",
        "if nobody answers",
        "you: codex-bridge approve ",
        "Published, after you said yes.",
        "Finished, in spite of the crash.",
        "Where to go next",
    ] {
        assert!(ended.stdout.contains(words), "{words}: {ended:?}");
    }
    // The yes stands where a person says it: below the question, above what it leads to.
    let (before, after) = ended
        .stdout
        .split_once("you: codex-bridge approve ")
        .unwrap();
    assert!(before.contains("if nobody answers"), "{}", ended.stdout);
    assert!(after.contains("ran `touch published`"), "{}", ended.stdout);
    assert!(
        ended.stderr.contains("running `touch hello.txt; ls -la`"),
        "{ended:?}"
    );
    assert_nothing_left(&world, &directory);
}

/// The database that is named must be empty, and is so again.
#[tokio::test]
async fn fleet_demo_runs_on_named_database() {
    const TABLES: &str = "SELECT count(*) FROM pg_namespace WHERE nspname = 'codex_bridge'";
    let mut world = World::new().await;
    let directory = temporary(&mut world);
    let codex = codex_for_tests().unwrap();
    let server = Server::shared().unwrap();
    server.create_database("demo_lent", None).unwrap();
    let url = server.url_of("demo_lent");
    world.set_env("CODEX_BRIDGE_DEMO_LEDGER_URL", &url);
    let args = ["demo", "--fleet", "--codex-bin", codex.to_str().unwrap()];
    let ended = world.run(&args).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for words in [
        "took the empty database demo_lent",
        "its command ran 1 time.",
        "Everything is stopped and removed again.",
    ] {
        assert!(ended.stdout.contains(words), "{words}: {ended:?}");
    }
    assert_nothing_left(&world, &directory);
    let schemas = || server.psql("demo_lent", TABLES).unwrap();
    assert_eq!(schemas().trim(), "0");
    let used = "CREATE SCHEMA codex_bridge; CREATE TABLE codex_bridge.format AS SELECT 1 AS version, 1 AS compatible_since";
    server.psql("demo_lent", used).unwrap();
    let refused = world.run(&args).await;
    refused.must(1, &["has a ledger already", "demo_lent"]);
    assert_eq!(schemas().trim(), "1");
}

#[tokio::test]
async fn fleet_demo_completes_and_cleans_up() {
    let mut world = World::new().await;
    let directory = temporary(&mut world);
    let codex = codex_for_tests().unwrap();
    let ended = world
        .run(&["demo", "--fleet", "--codex-bin", codex.to_str().unwrap()])
        .await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for words in [
        "codex to alice: Noted: teal.",
        "dies in the middle of a turn",
        "codex to alice: Finished, in spite of it.",
        "its command ran 1 time.",
        "before this one: \"My favourite colour is teal.",
        "Everything is stopped and removed again.",
    ] {
        assert!(ended.stdout.contains(words), "{words}: {ended:?}");
    }
    assert_nothing_left(&world, &directory);
}

#[tokio::test]
async fn interrupted_demo_cleans_up() {
    let mut world = World::new().await;
    let directory = temporary(&mut world);
    let codex = codex_for_tests().unwrap();
    let mut demo = world
        .start(&["demo", "--codex-bin", codex.to_str().unwrap()])
        .await;
    demo.stderr.wait_for("is on disk").await;
    signal(demo.pid(), Signal::SIGINT);
    let ended = demo.ended().await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("interrupted"), "{ended:?}");
    assert_nothing_left(&world, &directory);
}
