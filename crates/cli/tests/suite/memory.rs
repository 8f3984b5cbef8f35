//! A conversation continues on its thread: in one life of the daemon, and after the death of either part.

use crate::world::{World, kill_9, within};

#[tokio::test]
async fn the_second_turn_knows_the_first() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    assert_eq!(world.ask("a", "echo:first").await, "first");
    assert_eq!(world.ask("a", "echo:second").await, "second");
    assert_eq!(
        world.shown_with("echo:second"),
        ["echo:first", "echo:second"]
    );
    assert_eq!(world.ask("b", "echo:other").await, "other");
    assert_eq!(
        world.shown_with("echo:other"),
        ["echo:other"],
        "conversations share nothing"
    );
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn conversation_survives_daemon_kill() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    world.ask("a", "echo:first").await;
    daemon.kill_9().await;
    let daemon = world.daemon().await;
    world.ask("a", "echo:second").await;
    assert_eq!(
        world.shown_with("echo:second"),
        ["echo:first", "echo:second"]
    );
    daemon.stop().await;
    let daemon = world.daemon().await;
    world.ask("a", "echo:third").await;
    assert_eq!(
        world.shown_with("echo:third"),
        ["echo:first", "echo:second", "echo:third"]
    );
    daemon.stop().await;
}

#[tokio::test]
async fn a_conversation_continues_after_codex_was_killed() {
    for transport in ["socket", "stdio"] {
        let world = World::with_settings(&format!("[codex]\ntransport = {transport:?}\n")).await;
        let mut daemon = world.daemon().await;
        world.ask("a", "echo:first").await;
        kill_9(world.codex_pid());
        world.ask("a", "echo:second").await;
        assert_eq!(
            world.shown_with("echo:second"),
            ["echo:first", "echo:second"],
            "{transport}"
        );
        within("the loss to be seen", daemon.log.wait_for("codex is gone")).await;
        daemon.stop().await;
    }
}
