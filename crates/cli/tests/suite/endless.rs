//! Turns that never end by themselves: silence is found out and ended, a command may be silent, and nobody waits
//! for ever.

use crate::fake::Fake;
use crate::world::{World, within};

const SHORT: &str = "[turn]\nidle_secs = 1\nbackoff_base_ms = 10\n";

#[tokio::test]
async fn silent_turn_is_interrupted_and_retried() {
    let world = World::with_settings(SHORT).await;
    let mut daemon = world.daemon().await;
    let send = world.start(&["send", "hold:gate echo:at last"]).await;
    daemon.log.wait_for("a turn was silent").await;
    world.model.wait_aborted(1).await.unwrap();
    world.model.release("gate");
    let ended = send.ended().await;
    ended.must(0, &["the turn was silent for 1 s"]);
    assert_eq!(ended.stdout, "at last\n");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn persistently_silent_turn_is_abandoned() {
    let world = World::with_settings(SHORT).await;
    let daemon = world.daemon().await;
    let ended = world.run(&["send", "-c", "a", "hang:"]).await;
    let says = "given up after 3 attempts; the last one: the turn was silent for 1 s";
    ended.must(1, &["failed: ", says]);
    assert_eq!(world.ask("a", "echo:next").await, "next");
    assert_eq!(daemon.stop().await, Some(0));
}

/// The clock of silence stands still while a command runs: another turn that began later is found out meanwhile.
#[tokio::test]
async fn a_long_silent_command_is_not_cut() {
    let world = World::with_settings(SHORT).await;
    let work = world.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let fifo = work.join("gate");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut daemon = world
        .daemon_with(&["--workdir", work.to_str().unwrap()])
        .await;
    let text = "shell:cat gate ;; echo:built";
    let mut build = world.start(&["send", "-c", "build", text]).await;
    build.stderr.wait_for("running ").await;
    // Opens when the command reads, and ends it when it is closed.
    let mut options = tokio::fs::File::options();
    let opening = options.write(true).open(&fifo);
    let gate = within("the command", opening).await.unwrap();
    let silent = world
        .start(&["send", "-c", "silent", "hold:gate echo:late"])
        .await;
    daemon.log.wait_for("a turn was silent").await;
    world.model.release("gate");
    assert_eq!(silent.ended().await.stdout, "late\n");
    drop(gate);
    let ended = build.ended().await;
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "built\n"),
        "{ended:?}"
    );
    assert_eq!(
        world.times_asked(text),
        2,
        "one turn, before and after the command"
    );
    assert_eq!(daemon.stop().await, Some(0));
}

/// A turn that does not end when it is interrupted takes its Codex with it, and is begun again in the next one.
#[tokio::test]
async fn ignored_interrupt_ends_codex() {
    // That its thread is idle would be as good as an end.
    let script = concat!(
        "{\"at\":\"thread/status/changed\",\"nth\":1,\"do\":\"drop\"}\n",
        "{\"at\":\"thread/status/changed\",\"nth\":2,\"do\":\"drop\"}\n",
        "{\"at\":\"thread/status/changed\",\"nth\":3,\"do\":\"drop\"}\n",
        "{\"at\":\"turn/completed\",\"nth\":1,\"do\":\"drop\"}\n",
        "{\"at\":\"turn/interrupt\",\"nth\":1,\"do\":\"drop\"}\n",
    );
    // The rig's own lines end in [turn].
    let settings = format!("idle_secs = 1\n{}", crate::fake::READ_ONLY);
    let mut fake = Fake::start(&settings, script).await;
    let send = fake.world.start(&["send", "echo:answered"]).await;
    let log = fake.daemon.log.wait_for("a turn does not end").await;
    assert!(log.contains("a turn was silent"), "{log}");
    let ended = send.ended().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(fake.daemon.stop().await, Some(0));
}
