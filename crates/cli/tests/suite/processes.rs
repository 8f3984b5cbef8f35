//! One Codex process for many conversations, and no process left behind: not after a stop, not after a kill.

use crate::world::{World, gone, processes_with};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

const CONVERSATIONS: usize = 10;

#[tokio::test]
async fn concurrent_conversations_share_one_codex() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let mut sends = Vec::new();
    for n in 0..CONVERSATIONS {
        let (conversation, text) = (format!("c{n}"), format!("hold:g{n} echo:answer {n}"));
        sends.push(
            world
                .start(&["send", "--conversation", &conversation, &text])
                .await,
        );
    }
    for n in 0..CONVERSATIONS {
        world.model.wait_held(&format!("g{n}")).await.unwrap();
    }
    assert_eq!(
        world.model.active(),
        CONVERSATIONS,
        "all turns run at the same time"
    );
    world.codex_pid();
    for n in 0..CONVERSATIONS {
        world.model.release(&format!("g{n}"));
    }
    for (n, send) in sends.into_iter().enumerate() {
        let ended = send.ended().await;
        assert_eq!(ended.stdout, format!("answer {n}\n"), "{ended:?}");
    }
    let threads: BTreeSet<_> = world
        .model
        .requests()
        .iter()
        .map(|seen| seen.thread_id.clone())
        .collect();
    assert_eq!(threads.len(), CONVERSATIONS);
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(world.processes(), [], "after SIGTERM");
}

#[tokio::test]
async fn restart_after_kill_attaches_to_codex() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    world.ask("a", "echo:one").await;
    let codex = world.codex_pid();
    daemon.kill_9().await;
    assert_eq!(world.codex_pid(), codex, "codex lives on behind its socket");
    let daemon = world.daemon().await;
    world.ask("a", "echo:two").await;
    assert_eq!(world.codex_pid(), codex, "the new daemon attached to it");
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(world.processes(), [], "after the stop");
}

/// C13: a command that runs off into a session of its own is ended with Codex, whatever its sandbox.
#[tokio::test]
async fn c13_grandchildren_that_escape_are_ended_too() {
    let unique = 100_000 + std::process::id();
    for (sandbox, seconds) in [
        ("workspace-write", unique * 10),
        ("danger-full-access", unique * 10 + 1),
    ] {
        let world = World::with_settings(&format!("[tiers.owner]\nsandbox = {sandbox:?}\n")).await;
        let daemon = world.daemon().await;
        // The command ends only when its child is in a session of its own, out of reach of a group's kill.
        let text = format!(
            "shell:setsid nohup sh -c 'touch up; exec sleep {seconds}' >/dev/null 2>&1 & while [ ! -e up ]; do :; done ;; echo:ok"
        );
        assert_eq!(world.ask("a", &text).await, "ok");
        let escaped = format!("sleep {seconds}");
        if sandbox == "danger-full-access" {
            assert_eq!(
                processes_with(&escaped).len(),
                1,
                "without a sandbox it escapes the turn"
            );
        }
        daemon.stop().await;
        assert_eq!(processes_with(&escaped), [], "{sandbox}");
        assert_eq!(world.processes(), [], "{sandbox}");
    }
}

/// A daemon that never comes back leaves no orphan: the keeper ends Codex after its linger, and itself.
#[tokio::test]
async fn orphaned_codex_exits_after_linger() {
    let world = World::with_settings("[codex]\nlinger_secs = 1\n").await;
    let daemon = world.daemon().await;
    world.ask("a", "echo:one").await;
    let left: Vec<_> = world
        .processes()
        .into_iter()
        .filter(|(pid, _)| *pid != daemon.pid())
        .collect();
    assert_eq!(left.len(), 2, "keeper and codex: {left:#?}");
    daemon.kill_9().await;
    for (pid, _) in left {
        gone(pid).await;
    }
}

#[tokio::test]
async fn handover_keeps_codex_turn_running() {
    let world = World::new().await;
    let daemon = world.daemon_with(&["--handover"]).await;
    let mut send = world.start(&["send", "hold:gate echo:the answer"]).await;
    send.on_disk().await;
    world.model.wait_held("gate").await.unwrap();
    let codex = world.codex_pid();
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(world.codex_pid(), codex);
    let daemon = world.daemon().await;
    world.model.release("gate");
    let ended = send.ended().await;
    assert_eq!(ended.stdout, "the answer\n", "{ended:?}");
    assert_eq!(world.times_asked("hold:gate"), 1);
    daemon.stop().await;
    assert_eq!(world.processes(), []);
}

/// Where the binary's socket does not work, it is found out at the first start and pipes are used.
#[tokio::test]
async fn falls_back_to_pipes_without_socket() {
    let world = World::new().await;
    let real = bridge_sim::codex_for_tests().unwrap();
    let wrapper = world.path().join("codex-without-socket");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *unix://*) echo no such transport >&2; exit 2;; esac\nexec {} \"$@\"\n",
        real.display()
    );
    std::fs::write(&wrapper, script).unwrap();
    std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o700)).unwrap();
    let mut daemon = world
        .daemon_with(&["--codex-bin", wrapper.to_str().unwrap()])
        .await;
    assert_eq!(world.ask("a", "echo:one").await, "one");
    let log = daemon.log.wait_for("using pipes").await;
    assert!(log.contains("no such transport"), "{log}");
    daemon.stop().await;
    assert_eq!(world.processes(), []);
}
