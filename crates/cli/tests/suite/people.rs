//! What a person sees: where a message is, what Codex does and asks, and that a stop of the daemon loses nothing.

use crate::world::{Daemon, Running, World, short};

/// Sends a message that waits at a gate, and waits until Codex works on it; gives its id too.
async fn held(world: &World, conversation: &str, gate: &str) -> (Running, String) {
    let text = format!("hold:{gate} echo:from {gate}");
    let mut send = world.start(&["send", "-c", conversation, &text]).await;
    let id = send.on_disk().await;
    world.model.wait_held(gate).await.unwrap();
    (send, id)
}

async fn why(world: &World, id: &str) -> String {
    let ended = world.run(&["why", id]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.stdout
}

#[tokio::test]
async fn show_and_why_report_message_progress() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let status = world.run(&["status"]).await;
    assert!(status.stdout.contains("no messages yet"), "{status:?}");
    let (first, first_id) = held(&world, "a", "gate").await;
    let mut second = world.start(&["send", "-c", "a", "echo:second"]).await;
    let second_id = second.on_disk().await;

    let running = why(&world, &first_id).await;
    assert!(running.contains("Codex works on it"), "{running}");
    let behind = why(&world, &second_id).await;
    let words = format!("it waits behind message {}", short(&first_id));
    assert!(behind.contains(&words), "{behind}");
    let told = world.json(&["why", "--json", &second_id]).await;
    assert_eq!(told["state"], "received", "{told:#}");
    let status = world.json(&["status", "--json"]).await;
    assert_eq!(status["counts"]["running"], 1, "{status:#}");
    assert_eq!(status["counts"]["received"], 1, "{status:#}");
    assert_eq!(status["health"]["pid"], daemon.pid(), "{status:#}");
    let shown = world.run(&["show", &second_id]).await;
    assert!(shown.stdout.contains("no answer: it waits"), "{shown:?}");

    world.model.release("gate");
    assert_eq!(first.ended().await.stdout, "from gate\n");
    assert_eq!(second.ended().await.stdout, "second\n");
    assert_eq!(
        world.shown_with("echo:second"),
        ["hold:gate echo:from gate", "echo:second"]
    );
    assert!(why(&world, &first_id).await.contains("it was answered"));
    // Time is in front of an id, and what tells two apart behind it.
    let beginning = &second_id[..second_id.len() - 1];
    for id in [second_id.as_str(), beginning] {
        let shown = world.run(&["show", "-v", id]).await;
        assert_eq!(shown.code, Some(0), "{shown:?}");
        for words in [&second_id, "conversation", "echo:second", "Codex, "] {
            assert!(shown.stdout.contains(words), "{words}: {shown:?}");
        }
    }
    for (id, says) in [
        ("00000000-dead", "nothing is called 00000000-dead"),
        ("01a", "4 characters or more"),
        ("", "nothing is called"),
        ("../status", "nothing is called ../status"),
    ] {
        for command in ["show", "why"] {
            world.run(&[command, id]).await.must(1, &[says]);
        }
    }
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn answer_is_available_after_wait_timeout() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let args = ["send", "--wait", "1", "hold:gate echo:late"];
    let ended = world.run(&args).await;
    ended.must(75, &["still working: ", "codex-bridge show "]);
    let id = ended.stderr.split_whitespace().nth(2).unwrap();
    world.model.release("gate");
    assert_eq!(world.finished(id).await["answer"]["text"], "late");
    assert_eq!(world.times_asked("hold:gate"), 1);
    assert_eq!(daemon.stop().await, Some(0));
}

/// A daemon that knows nothing of a message any more does not turn "sent" into "not sent".
#[tokio::test]
async fn send_reports_id_of_lost_message() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let (send, id) = held(&world, "a", "gate").await;
    daemon.kill_9().await;
    for name in ["ledger.db", "ledger.db-wal", "ledger.db-shm"] {
        std::fs::remove_file(world.state_dir().join(name)).unwrap();
    }
    let daemon = world.daemon().await;
    let ended = send.ended().await;
    ended.must(75, &["lost sight of it: there is no message", &id]);
    assert!(!ended.stderr.contains("not sent"), "{ended:?}");
    assert_eq!(daemon.stop().await, Some(0));
}

/// N5: SIGTERM lets a turn finish; what is sent meanwhile is taken in by the next daemon.
#[tokio::test]
async fn n5_drain_finishes_turn_and_defers_messages() {
    let world = World::new().await;
    let mut daemon = world.daemon().await;
    let (send, _) = held(&world, "a", "gate").await;
    daemon.terminate();
    daemon.log.wait_for("waiting for running turns").await;
    let mut late = world.start(&["send", "-c", "a", "echo:late"]).await;
    late.stderr.wait_for("the daemon is stopping").await;
    world.model.release("gate");
    let ended = send.ended().await;
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "from gate\n"),
        "{ended:?}"
    );
    assert_eq!(daemon.ended().await, Some(0));
    assert_eq!(world.processes().len(), 1, "only the late sender is left");
    let daemon = world.daemon().await;
    let ended = late.ended().await;
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "late\n"),
        "{ended:?}"
    );
    assert_eq!(world.times_asked("hold:gate"), 1);
    assert_eq!(daemon.stop().await, Some(0));
}

/// N5: a stop that can't wait interrupts the turn; the next daemon continues it.
async fn interrupted(world: &World, send: Running, daemon: Daemon) {
    assert_eq!(daemon.ended().await, Some(0));
    let left = world.processes();
    assert_eq!(left.len(), 1, "only the sender is left: {left:#?}");
    world.model.release("gate");
    let daemon = world.daemon().await;
    let ended = send.ended().await;
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "from gate\n"),
        "{ended:?}"
    );
    let again = world.shown_with("[codex-bridge]");
    assert!(
        again.last().unwrap().contains("was cut off"),
        "it is continued, not begun again: {again:?}"
    );
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn n5_turn_continues_after_drain_timeout() {
    let world = World::with_settings("[daemon]\ndrain_secs = 0\n").await;
    let mut daemon = world.daemon().await;
    let (send, _) = held(&world, "a", "gate").await;
    daemon.terminate();
    daemon.log.wait_for("did not finish in time").await;
    interrupted(&world, send, daemon).await;
}

#[tokio::test]
async fn n5_second_signal_skips_drain() {
    let world = World::with_settings("[daemon]\ndrain_secs = 3600\n").await;
    let mut daemon = world.daemon().await;
    let (send, _) = held(&world, "a", "gate").await;
    daemon.terminate();
    daemon.log.wait_for("waiting for running turns").await;
    daemon.terminate();
    daemon.log.wait_for("stop at once").await;
    interrupted(&world, send, daemon).await;
}
