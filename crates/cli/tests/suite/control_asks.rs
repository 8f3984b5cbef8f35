//! What Codex asks, before a person at a terminal and from other commands, with the real daemon and the real Codex.

use crate::terminal::Terminal;
use crate::world::{World, within};
use serde_json::Value;
use std::path::PathBuf;

/// Asks to run a command outside of the sandbox, then answers.
const ASKS: &str = "escal:touch asked-for ;; echo:went on";

/// The file that the command makes, wherever its conversation works.
fn made(world: &World) -> Option<PathBuf> {
    let work = std::fs::read_dir(world.state_dir().join("work")).unwrap();
    let mut files = work.map(|entry| entry.unwrap().path().join("asked-for"));
    files.find(|file| file.exists())
}

/// The open questions, once there is one.
async fn asked(world: &World) -> Value {
    within("a question", async {
        loop {
            let open = world.json(&["requests", "--json"]).await;
            if open["requests"][0].is_object() {
                return open["requests"][0].clone();
            }
        }
    })
    .await
}

#[tokio::test]
async fn send_prompts_for_approval_at_terminal() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let mut terminal = Terminal::run(world.command(&["send", ASKS]));
    let screen = terminal.screen.wait_for("l later > ").await;
    assert!(screen.contains("touch asked-for"), "{screen}");
    assert!(
        screen.contains("if accepted it may run outside"),
        "{screen}"
    );
    assert_eq!(
        made(&world),
        None,
        "nothing is done before somebody said yes"
    );
    terminal.types("\n");
    terminal
        .screen
        .wait_for("Enter alone decides nothing")
        .await;
    terminal.types("a\n");
    terminal.screen.wait_for("you accepted").await;
    let (code, screen) = terminal.ended().await;
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("went on"), "{screen}");
    assert!(made(&world).is_some(), "what was accepted was done");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn decision_from_other_command_withdraws_prompt() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let mut send = world.start(&["send", ASKS]).await;
    let id = send.on_disk().await;
    let question = asked(&world).await;
    let code = question["code"].as_str().unwrap();
    let mut terminal = Terminal::run(world.command(&["watch", &id]));
    terminal.screen.wait_for("l later > ").await;
    // Whoever has no terminal is told the command that answers.
    send.stderr
        .wait_for(&format!("codex-bridge decline {code}"))
        .await;
    let declined = world.run(&["decline", code]).await;
    assert_eq!(declined.code, Some(0), "{declined:?}");
    terminal
        .screen
        .wait_for(&format!("{code} was declined by "))
        .await;
    let (watched, screen) = terminal.ended().await;
    assert_eq!(watched, Some(0), "{screen}");
    assert_eq!(send.ended().await.stdout, "went on\n");
    assert_eq!(made(&world), None, "what was declined was not done");
    let late = world.run(&["approve", code]).await;
    late.must(1, &["was declined", "only the first answer counts"]);
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn watched_approval_survives_daemon_kill() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let mut send = world.start(&["send", ASKS]).await;
    let id = send.on_disk().await;
    let mut terminal = Terminal::run(world.command(&["watch", &id]));
    terminal.screen.wait_for("l later > ").await;
    daemon.kill_9().await;
    terminal.screen.wait_for("the daemon went away").await;
    let daemon = world.daemon().await;
    terminal.screen.wait_for("the daemon is back").await;
    terminal.types("a\n");
    terminal.screen.wait_for("you accepted").await;
    let (code, screen) = terminal.ended().await;
    assert_eq!(code, Some(0), "{screen}");
    assert_eq!(send.ended().await.stdout, "went on\n");
    assert!(made(&world).is_some(), "what was accepted was done");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn send_shows_file_changes() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let ended = world
        .run(&[
            "send",
            "patch:poem.txt:an fsync is a promise ;; echo:written",
        ])
        .await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.stdout, "written\n");
    let change = ended
        .stderr
        .lines()
        .skip_while(|line| !line.contains("poem.txt:"));
    let change: Vec<_> = change.take(2).map(str::trim).collect();
    assert_eq!(change.len(), 2, "{ended:?}");
    assert!(change[0].starts_with("add "), "{ended:?}");
    assert_eq!(change[1], "an fsync is a promise", "{ended:?}");
    assert_eq!(daemon.stop().await, Some(0));
}
