//! A message that was accepted is answered, once, whoever dies before the answer.

use crate::world::{Daemon, Ended, Running, World, freeze, gone, kill_9};

/// A daemon whose Codex waits for the model in the middle of a turn.
struct MidTurn {
    daemon: Daemon,
    send: Running,
    message_id: String,
    codex: i32,
}

async fn mid_turn(world: &World) -> MidTurn {
    let daemon = world.daemon().await;
    let mut send = world.start(&["send", "hold:gate echo:the answer"]).await;
    let message_id = send.on_disk().await;
    world.model.wait_held("gate").await.unwrap();
    MidTurn {
        daemon,
        send,
        message_id,
        codex: world.codex_pid(),
    }
}

/// Codex is killed; only then does the model go on, so that nothing of the cut turn ends well.
async fn codex_dies(world: &World, codex: i32) {
    kill_9(codex);
    gone(codex).await;
    world.model.release("gate");
}

fn assert_answered(ended: &Ended) {
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "the answer\n"),
        "{ended:?}"
    );
}

/// K7: over the socket Codex works on while the daemon is dead, and the next daemon attaches to it.
#[tokio::test]
async fn restart_attaches_to_running_codex() {
    let world = World::new().await;
    let MidTurn {
        daemon,
        send,
        message_id,
        codex,
    } = mid_turn(&world).await;
    daemon.kill_9().await;
    let daemon = world.daemon().await;
    assert_eq!(
        world.codex_pid(),
        codex,
        "the next daemon attached to the codex left behind"
    );
    world.model.release("gate");
    assert_answered(&send.ended().await);
    let shown = world.json(&["show", "--json", &message_id]).await;
    assert_eq!(
        world.times_asked("hold:gate"),
        1,
        "the model was paid once: {shown:#}"
    );
    assert_eq!(shown["answer"]["text"], "the answer");
    assert_eq!(shown["attempt"], 1);
    daemon.stop().await;
}

/// K7: the answer came while no daemon lived; it is read from Codex's history.
#[tokio::test]
async fn answer_during_downtime_is_harvested() {
    let world = World::new().await;
    let MidTurn {
        daemon,
        send,
        message_id,
        ..
    } = mid_turn(&world).await;
    daemon.kill_9().await;
    world.model.release("gate");
    world.model.wait_idle().await.unwrap();
    let daemon = world.daemon().await;
    assert_answered(&send.ended().await);
    assert_eq!(world.times_asked("hold:gate"), 1);
    let shown = world.json(&["show", "--json", &message_id]).await;
    assert_eq!(shown["attempt"], 1, "{shown}");
    daemon.stop().await;
}

/// K6: over pipes the turn dies with the daemon; it is continued, because it may have touched the world.
#[tokio::test]
async fn cut_turn_over_pipes_is_continued() {
    let world = World::with_settings("[codex]\ntransport = \"stdio\"\n").await;
    let MidTurn {
        daemon,
        send,
        codex,
        ..
    } = mid_turn(&world).await;
    daemon.kill_9().await;
    gone(codex).await;
    world.model.release("gate");
    let daemon = world.daemon().await;
    assert_answered(&send.ended().await);
    let again = world.shown_with("[codex-bridge]");
    assert!(
        again
            .last()
            .unwrap()
            .contains("cut off before you answered"),
        "{again:?}"
    );
    daemon.stop().await;
}

/// C1: Codex dies in the middle of a turn.
#[tokio::test]
async fn c1_codex_killed_in_mid_turn_continues() {
    let world = World::new().await;
    let MidTurn {
        daemon,
        send,
        codex,
        ..
    } = mid_turn(&world).await;
    codex_dies(&world, codex).await;
    assert_answered(&send.ended().await);
    daemon.stop().await;
}

/// Read-only work touches nothing, so it is simply done again.
#[tokio::test]
async fn a_cut_read_only_turn_starts_over() {
    let world = World::with_settings("[tiers.owner]\nsandbox = \"read-only\"\n").await;
    let MidTurn {
        daemon,
        send,
        codex,
        ..
    } = mid_turn(&world).await;
    codex_dies(&world, codex).await;
    assert_answered(&send.ended().await);
    assert_eq!(world.times_asked("[codex-bridge]"), 0);
    assert_eq!(world.times_asked("hold:gate"), 2);
    daemon.stop().await;
}

/// C2: a Codex that is frozen answers nothing; it is found out, ended and replaced, and the message goes on.
#[tokio::test]
async fn c2_a_frozen_codex_is_replaced() {
    let world = World::with_settings("[turn]\nidle_secs = 1\n").await;
    let MidTurn {
        mut daemon,
        send,
        codex,
        ..
    } = mid_turn(&world).await;
    freeze(codex).await;
    daemon
        .log
        .wait_for("codex does not answer and is ended")
        .await;
    gone(codex).await;
    world.model.release("gate");
    assert_answered(&send.ended().await);
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(world.processes(), []);
}

/// C2: a frozen Codex that was left behind does not keep the next daemon from starting.
#[tokio::test]
async fn c2_orphaned_frozen_codex_is_ended() {
    let world = World::new().await;
    let MidTurn {
        daemon,
        send,
        codex,
        ..
    } = mid_turn(&world).await;
    freeze(codex).await;
    daemon.kill_9().await;
    let daemon = world.daemon().await;
    gone(codex).await;
    world.model.release("gate");
    assert_answered(&send.ended().await);
    daemon.stop().await;
    assert_eq!(world.processes(), []);
}

/// A stop of ours costs the message nothing, however often.
#[tokio::test]
async fn restarts_do_not_use_up_a_message() {
    let world = World::with_settings("[daemon]\ndrain_secs = 0\n").await;
    let MidTurn {
        mut daemon, send, ..
    } = mid_turn(&world).await;
    for _ in 0..4 {
        assert_eq!(daemon.stop().await, Some(0));
        daemon = world.daemon().await;
        world.model.wait_held("gate").await.unwrap();
    }
    world.model.release("gate");
    assert_answered(&send.ended().await);
    daemon.stop().await;
}

/// A lost turn that can't be looked at says what stands in the way, and goes on when that is mended.
#[tokio::test]
async fn lost_turn_stays_unclear_until_readable() {
    let world = World::new().await;
    let MidTurn {
        daemon,
        send,
        message_id,
        codex,
    } = mid_turn(&world).await;
    daemon.kill_9().await;
    kill_9(codex);
    gone(codex).await;
    let config = world.codex_home().join("config.toml");
    let good = std::fs::read(&config).unwrap();
    std::fs::write(&config, "model = \"x").unwrap();
    let daemon = world.daemon().await;
    let ended = send.ended().await;
    ended.must(75, &["Codex can't read its configuration", &message_id]);
    let why = world.json(&["why", "--json", &message_id]).await;
    assert_eq!(why["state"], "unclear", "{why:#}");
    std::fs::write(&config, good).unwrap();
    world.model.release("gate");
    let shown = world.finished(&message_id).await;
    assert_eq!(shown["answer"]["text"], "the answer", "{shown:#}");
    daemon.stop().await;
}
