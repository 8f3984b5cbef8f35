//! `demo`: the whole job on this machine, and nothing left of it, however it ends.

use crate::world::{World, signal};
use bridge_sim::codex_for_tests;
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
