//! A person stops a message: before it began, while Codex works on it, and although the daemon dies over it.

use crate::world::{Running, World, gone, processes_with, within};
use std::path::Path;
use std::time::Duration;

/// A message that waits at a gate in the middle of its turn.
async fn held(world: &World) -> (Running, String) {
    let mut send = world
        .start(&["send", "-c", "a", "hold:gate echo:first"])
        .await;
    let id = send.on_disk().await;
    world.model.wait_held("gate").await.unwrap();
    (send, id)
}

async fn appears(path: &Path) {
    let mut look = tokio::time::interval(Duration::from_millis(5));
    let there = async {
        while !path.exists() {
            look.tick().await;
        }
    };
    within("a file", there).await;
}

#[tokio::test]
async fn pending_message_cancels_immediately() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let (first, first_id) = held(&world).await;
    let mut second = world.start(&["send", "-c", "a", "echo:second"]).await;
    let second_id = second.on_disk().await;
    let stopped = world.run(&["cancel", &second_id]).await;
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    let words = "stopped before its turn began";
    assert!(stopped.stdout.contains(words), "{stopped:?}");
    let ended = second.ended().await;
    ended.must(3, &["stopped: by local owner"]);
    assert_eq!(ended.stdout, "");

    world.model.release("gate");
    assert_eq!(first.ended().await.stdout, "first\n");
    assert_eq!(world.times_asked("echo:second"), 0);
    let late = world.json(&["interrupt", "--json", &first_id]).await;
    assert_eq!(late["outcome"], "too_late", "{late:#}");
    let late = world.run(&["interrupt", &first_id]).await;
    late.must(
        1,
        &[
            "not stopped: ",
            "is done: it was answered",
            "nothing to stop",
        ],
    );
    for (id, says) in [
        ("00000000-dead", "nothing is called 00000000-dead"),
        ("../x", "nothing is called ../x"),
    ] {
        world.run(&["interrupt", id]).await.must(1, &[says]);
    }
    assert_eq!(daemon.stop().await, Some(0));
}

/// Its turn is interrupted, its command ended, its sender told; the conversation goes on, on the same thread.
#[tokio::test]
async fn interrupt_ends_turn_and_its_command() {
    let world = World::new().await;
    let work = world.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let daemon = world
        .daemon_with(&["--workdir", work.to_str().unwrap()])
        .await;
    let sleep = format!("sleep {}", 2_000_000 + std::process::id());
    let text = format!("shell:touch up; exec {sleep} ;; echo:never");
    let mut send = world.start(&["send", "-c", "a", &text]).await;
    let id = send.on_disk().await;
    appears(&work.join("up")).await;
    let stopped = world.run(&["interrupt", &id]).await;
    stopped.must(0, &["its turn is being interrupted"]);
    assert!(stopped.stdout.contains("and has ended"), "{stopped:?}");
    send.ended().await.must(3, &["stopped: ", "by local owner"]);
    for (command, _) in processes_with(&sleep) {
        gone(command).await;
    }
    let story = world.json(&["show", "--json", &id]).await;
    assert_eq!(story["state"], "cancelled", "{story:#}");
    assert_eq!(story["attempts"].as_array().unwrap().len(), 1);
    assert_eq!(story["attempts"][0]["state"], "ended", "{story:#}");
    assert_eq!(story["acts"][0]["what"], "cancel", "{story:#}");
    let notice = story["replies"][0]["notice"].as_str().unwrap();
    assert!(notice.contains("was stopped before"), "{notice}");

    assert_eq!(world.ask("a", "echo:next").await, "next");
    assert_eq!(world.shown_with("echo:next")[0], text);
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(world.processes(), []);
}

/// The word is on disk before Codex hears it: the next daemon says it again.
#[tokio::test]
async fn interrupt_survives_daemon_crash() {
    let mut world = World::new().await;
    let point = "CODEX_BRIDGE_FAIL_POINT";
    let mut doomed = world.command(&["run"]);
    doomed.env(point, "cancel.after");
    let doomed = crate::world::Daemon::of(doomed).await;
    let (send, id) = held(&world).await;
    let codex = world.codex_pid();
    let told = world.run(&["interrupt", &id]).await;
    assert_eq!(told.code, Some(1), "nobody answered: {told:?}");
    assert_eq!(doomed.ended().await, None, "it died by a signal");
    assert_eq!(world.model.aborted(), 0, "Codex heard nothing of it");

    world.set_env(point, "");
    let daemon = world.daemon().await;
    world.model.wait_aborted(1).await.unwrap();
    send.ended().await.must(3, &["stopped: ", "by local owner"]);
    assert_eq!(world.codex_pid(), codex, "only the turn was ended");
    let story = world.json(&["show", "--json", &id]).await;
    assert_eq!(story["state"], "cancelled", "{story:#}");
    assert_eq!(story["attempt"], 1, "{story:#}");
    assert_eq!(daemon.stop().await, Some(0));
}
