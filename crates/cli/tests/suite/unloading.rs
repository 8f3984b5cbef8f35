//! More conversations than the memory of Codex has room for: idle ones are unloaded and loaded again by their next
//! message; what runs, asks or works in the background stays.

use crate::requests::WAITS;
use crate::world::{Daemon, World, kill_9, processes_with};
use serde_json::{Value, json};
use std::path::Path;

/// Below what Codex has when it begins, so that every thread that can go goes.
const SMALL: &str = "[codex]\nmemory_mib = 64\n[turn]\nbackoff_base_ms = 10\n";
const LOG: &str = "info,bridge_daemon::turn::approvals=debug,bridge_host=debug";
const LET_GO: &str = "an idle thread was let go of";

const CONVERSATIONS: [&str; 5] = ["a", "b", "c", "d", "e"];

async fn small(settings: &str) -> World {
    let mut world = World::with_settings(settings).await;
    world.set_env("CODEX_BRIDGE_LOG", LOG);
    world
}

async fn memory(world: &World) -> Value {
    world.json(&["status", "--json"]).await["health"]["codex_memory"].clone()
}

/// Asks every conversation, and looks whether each knows what was said before and nothing else.
async fn ask_all(world: &World, before: &[&str], now: &str) {
    for name in CONVERSATIONS {
        let text = format!("echo:{now} of {name}");
        assert_eq!(world.ask(name, &text).await, format!("{now} of {name}"));
        let known = before.iter().chain([&now]);
        let known: Vec<String> = known.map(|said| format!("echo:{said} of {name}")).collect();
        assert_eq!(world.shown_with(&text), known);
    }
}

async fn released(daemon: &mut Daemon, times: usize) {
    daemon.log.wait_times(LET_GO, times).await;
}

#[tokio::test]
async fn unloaded_conversations_remember_what_was_said() {
    let world = small(SMALL).await;
    let mut daemon = world.daemon().await;
    ask_all(&world, &[], "first").await;
    released(&mut daemon, CONVERSATIONS.len() - 2).await;
    ask_all(&world, &["first"], "second").await;
    released(&mut daemon, 2 * CONVERSATIONS.len() - 3).await;
    let seen = memory(&world).await;
    assert!(seen["threads_loaded"].as_u64().unwrap() <= 3, "{seen}");
    assert!(seen["threads_resumed"].as_u64().unwrap() >= 3, "{seen}");
    assert_eq!(seen["budget_bytes"], 64 << 20);
    assert!(seen["resident_bytes"].as_u64() > seen["budget_bytes"].as_u64());
    let shown = world.run(&["status"]).await.stdout;
    assert!(shown.contains("over its budget"), "{shown}");
    assert_eq!(daemon.stop().await, Some(0));
}

/// The next daemon takes over a Codex with threads that it did not load, and unloads those too.
#[tokio::test]
async fn c29_threads_of_killed_daemon_are_unloaded() {
    let roomy = SMALL.replace("memory_mib = 64", "memory_mib = 4096");
    let world = small(&roomy).await;
    let daemon = world.daemon().await;
    ask_all(&world, &[], "first").await;
    let seen = memory(&world).await;
    assert_eq!(seen["threads_loaded"], CONVERSATIONS.len(), "{seen}");
    assert_eq!(seen["threads_released"], 0, "{seen}");
    let codex = world.codex_pid();
    daemon.kill_9().await;
    std::fs::write(world.config_file(), SMALL).unwrap();
    let mut daemon = world.daemon().await;
    assert_eq!(world.ask("new", "echo:hello").await, "hello");
    released(&mut daemon, CONVERSATIONS.len()).await;
    ask_all(&world, &["first"], "second").await;
    assert_eq!(world.codex_pid(), codex);
    daemon.kill_9().await;
    kill_9(codex);
    let daemon = world.daemon().await;
    ask_all(&world, &["first", "second"], "third").await;
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn running_turn_and_open_question_stay_loaded() {
    let world = small(SMALL).await;
    let mut daemon = world.daemon().await;
    let mut running = world
        .start(&["send", "-c", "runs", "hold:gate echo:the answer"])
        .await;
    running.on_disk().await;
    world.model.wait_held("gate").await.unwrap();
    let mut asking = world
        .start(&["send", "-c", "asks", "escal:touch asked-for ;; echo:done"])
        .await;
    asking.on_disk().await;
    daemon.log.wait_for(WAITS).await;
    ask_all(&world, &[], "first").await;
    released(&mut daemon, CONVERSATIONS.len() - 2).await;
    let asked = world.json(&["requests", "--json"]).await;
    let code = asked["requests"][0]["code"].as_str().unwrap();
    world.run(&["approve", code]).await.must(0, &[]);
    let ended = asking.ended().await;
    assert_eq!((ended.code, ended.stdout.trim_end()), (Some(0), "done"));
    world.model.release("gate");
    let ended = running.ended().await;
    assert_eq!(
        (ended.code, ended.stdout.trim_end()),
        (Some(0), "the answer")
    );
    assert_eq!(world.times_asked("hold:gate echo:the answer"), 1);
    assert_eq!(daemon.stop().await, Some(0));
}

/// Unloading its thread would end the command.
#[tokio::test]
async fn background_command_keeps_its_thread_loaded() {
    let bare = format!("{SMALL}[tiers.owner]\nsandbox = \"danger-full-access\"\n");
    let world = small(&bare).await;
    let mut daemon = world.daemon().await;
    let mark = format!("background-{}", std::process::id());
    let call =
        json!({"cmd": format!("while true; do sleep 1; : {mark}; done"), "yield_time_ms": 250});
    let text = format!("tool:exec_command:{call} ;; echo:begun");
    assert_eq!(world.ask("works", &text).await, "begun");
    assert_ne!(processes_with(&mark), []);
    ask_all(&world, &[], "first").await;
    released(&mut daemon, CONVERSATIONS.len() - 2).await;
    assert_ne!(processes_with(&mark), []);
    assert_eq!(world.ask("works", "echo:and").await, "and");
    assert_ne!(processes_with(&mark), []);
    assert_eq!(daemon.stop().await, Some(0));
}

/// After a failed turn Codex unloads a thread in another way, which leaves a trace for a moment.
#[tokio::test]
async fn failed_turns_make_room_too() {
    let world = small(SMALL).await;
    let mut daemon = world.daemon().await;
    for name in CONVERSATIONS {
        world.run(&["send", "-c", name, "fail:400"]).await;
    }
    released(&mut daemon, CONVERSATIONS.len() - 2).await;
    for name in CONVERSATIONS {
        assert_eq!(world.ask(name, "echo:and now").await, "and now");
    }
    assert!(!daemon.log.text().contains("is lost"));
    assert_eq!(daemon.stop().await, Some(0));
}

/// Changes rows as time, or a crash between two commits, would.
fn change(world: &World, statement: &str) {
    let ledger = rusqlite::Connection::open(world.state_dir().join("ledger.db")).unwrap();
    assert_eq!(ledger.execute(statement, []).unwrap(), 1);
}

fn entries(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

/// The second time the daemon died when the row had given its thread up, and Codex had not deleted it.
#[tokio::test]
async fn unused_conversation_loses_history_and_directory() {
    for happens in [
        "UPDATE conversation SET active_at = active_at - 100000000000",
        "UPDATE conversation SET thread = 'pruned-' || thread, last_turn = NULL",
    ] {
        let world = World::with_settings("[retention]\nconversations_days = 365\n").await;
        let daemon = world.daemon().await;
        assert_eq!(world.ask("old", "echo:first").await, "first");
        let work = world.state_dir().join("work");
        assert_eq!(entries(&work), 1);
        daemon.stop().await;
        change(&world, happens);
        let mut daemon = world.daemon().await;
        let deleted = "histories of conversations that nobody used were deleted";
        daemon.log.wait_for(deleted).await;
        assert_eq!(entries(&work), 0, "{happens}");
        let args = ["send", "--json", "-c", "old", "echo:second"];
        let sent = world.json(&args).await;
        assert_eq!(sent["answer"]["text"], "second", "{sent:#}");
        let shown = world.shown_with("echo:second");
        assert_eq!(shown.len(), 1, "a new thread: {shown:?}");
        assert!(shown[0].contains("> echo:first"), "{shown:?}");
        assert_eq!(entries(&work), 1, "a new directory");
        let id = sent["message_id"].as_str().unwrap();
        let shown = world.json(&["show", "--json", id]).await;
        let said = shown.to_string();
        assert!(said.contains("history was pruned"), "{shown:#}");
        assert_eq!(daemon.stop().await, Some(0));
    }
}
