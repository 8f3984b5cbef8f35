//! The two ways in which Codex keeps a thread: what is promised holds in both, although the legacy one forgets which
//! commands were run.

use crate::world::{World, within};
use std::path::Path;
use std::time::Duration;

/// How often Codex's record is looked at.
const TICK: Duration = Duration::from_millis(5);
/// What Codex writes when a turn has ended.
const ENDED: &str = "\"task_complete\"";

async fn world(history: &str) -> World {
    let settings = format!(
        "[codex]\nhistory = \"{history}\"\ntransport = \"socket\"\n[turn]\nbackoff_base_ms = 50\n"
    );
    World::with_settings(&settings).await
}

/// All files with this ending below a directory, as one text.
fn texts(directory: &Path, ending: &str) -> String {
    let mut all = String::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path.to_string_lossy().ends_with(ending) {
                all.push_str(&std::fs::read_to_string(&path).unwrap_or_default());
            }
        }
    }
    all
}

fn record(world: &World) -> String {
    texts(&world.codex_home().join("sessions"), ".jsonl")
}

async fn recorded(world: &World, words: &str) {
    let mut look = tokio::time::interval(TICK);
    within("Codex's record of an end", async {
        while !record(world).contains(words) {
            look.tick().await;
        }
    })
    .await;
}

/// The daemon dies; then the turn changes a file, and fails. The next daemon has nothing but the history.
async fn work_that_failed_unseen(history: &str) {
    let world = world(history).await;
    let daemon = world.daemon().await;
    let script = "hold:gate append:log.txt:once ;; break:1 echo:done";
    let mut send = world.start(&["send", script]).await;
    let message_id = send.on_disk().await;
    world.model.wait_held("gate").await.unwrap();
    daemon.kill_9().await;
    world.model.release("gate");
    recorded(&world, ENDED).await;
    let mode = format!("\"history_mode\":\"{history}\"");
    assert!(record(&world).contains(&mode), "{}", record(&world));
    let daemon = world.daemon().await;
    let shown = world.finished(&message_id).await;
    assert_eq!(shown["answer"]["text"], "done", "{shown:#}");
    let work = texts(&world.state_dir().join("work"), "log.txt");
    assert_eq!(work, "once\n", "{shown:#}");
    assert_eq!(daemon.stop().await, Some(0));
    drop(send);
}

#[tokio::test]
async fn work_that_failed_unseen_is_not_repeated() {
    work_that_failed_unseen("paginated").await;
}

#[tokio::test]
async fn legacy_history_never_repeats_failed_work() {
    work_that_failed_unseen("legacy").await;
}

/// A thread stays as it began, whatever is configured later, and goes on.
#[tokio::test]
async fn thread_keeps_its_history_mode() {
    let world = world("legacy").await;
    let daemon = world.daemon().await;
    assert_eq!(world.ask("old", "echo:one").await, "one");
    assert_eq!(daemon.stop().await, Some(0));
    let settings = std::fs::read_to_string(world.config_file()).unwrap();
    let other = settings.replace("\"legacy\"", "\"paginated\"");
    std::fs::write(world.config_file(), other).unwrap();
    let daemon = world.daemon().await;
    assert_eq!(world.ask("old", "echo:two").await, "two");
    assert!(!record(&world).contains("\"history_mode\":\"paginated\""));
    assert_eq!(world.ask("new", "echo:three").await, "three");
    let record = record(&world);
    for mode in ["legacy", "paginated"] {
        let mark = format!("\"history_mode\":\"{mode}\"");
        assert_eq!(record.matches(&mark).count(), 1, "{mode}: {record}");
    }
    assert_eq!(daemon.stop().await, Some(0));
}
