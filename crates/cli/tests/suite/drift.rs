//! A Codex that speaks otherwise than the one we know: the real one behind `bent-codex`. Rows C14 and C23 of the fault
//! matrix. A message is answered once, or waits with a reason until a Codex is there that can be understood.

use crate::fake::beside;
use crate::world::{Daemon, World, gone, kill_9, within};
use bridge_sim::bend::{BendRule, BentCodex};
use bridge_sim::codex_for_tests;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// Whoever waits is tried again soon.
const IMPATIENT: &str = "[turn]\nconfig_probe_secs = 1\nbackoff_base_ms = 10\n";

fn native() -> PathBuf {
    codex_for_tests().unwrap().canonicalize().unwrap()
}

/// What the real one says it is.
fn real_version() -> String {
    let said = std::process::Command::new(native())
        .arg("--version")
        .output();
    let said = String::from_utf8(said.unwrap().stdout).unwrap();
    said.split_whitespace().last().unwrap().to_owned()
}

/// Puts a Codex that is bent so in its place in the world.
fn plant(world: &World, version: Option<&str>, rules: &Value) -> String {
    let rules: Vec<BendRule> = serde_json::from_value(rules.clone()).unwrap();
    let bent = BentCodex {
        version: version.map(str::to_owned),
        ..BentCodex::new(native(), rules)
    };
    let place = world.path().join("bent");
    let program = bent.plant(beside("bent-codex").as_ref(), &place).unwrap();
    program.display().to_string()
}

async fn bent(world: &World, rules: &Value) -> Daemon {
    let codex = plant(world, None, rules);
    world.daemon_with(&["--codex-bin", &codex]).await
}

/// What is in this file of the one conversation's directory, once something is.
async fn written(world: &World, file: &str) -> String {
    let work = world.state_dir().join("work");
    let read = || {
        let directory = std::fs::read_dir(&work).ok()?.next()?.ok()?.path();
        let text = std::fs::read_to_string(directory.join(file)).ok()?;
        (!text.is_empty()).then_some(text)
    };
    let mut look = tokio::time::interval(Duration::from_micros(400));
    within("an effect", async {
        loop {
            look.tick().await;
            if let Some(text) = read() {
                return text;
            }
        }
    })
    .await
}

/// The Codex is bent so, the message waits with these words, and the daemon that gets the real Codex answers it: the
/// model is asked once, and what the turn did was done once.
async fn waits_for_another_codex(rules: &Value, words: &[&str]) {
    let world = World::with_settings(IMPATIENT).await;
    let daemon = bent(&world, rules).await;
    let text = "append:log.txt:once ;; echo:the answer";
    let ended = world.run(&["send", text]).await;
    ended.must(75, &["waiting for you: "]).must(75, words);
    let id = ended.kept();
    let why = world.run(&["why", &id]).await;
    for word in words {
        assert!(why.stdout.contains(word), "{why:?}");
    }
    assert_eq!(daemon.stop().await, Some(0));
    let daemon = world.daemon().await;
    let shown = world.finished(&id).await;
    assert_eq!(shown["answer"]["text"], "the answer", "{shown:#}");
    // For the command, and for the answer: one turn.
    assert_eq!(world.times_asked("append:log.txt"), 2);
    assert_eq!(written(&world, "log.txt").await, "once\n");
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(world.processes(), []);
}

#[tokio::test]
async fn bent_codex_without_rules_is_codex() {
    for transport in ["", "[codex]\ntransport = \"stdio\"\n"] {
        let world = World::with_settings(transport).await;
        let daemon = bent(&world, &json!([])).await;
        let text = "append:log.txt:once ;; echo:one";
        assert_eq!(world.ask("a", text).await, "one");
        assert_eq!(world.ask("a", "echo:two").await, "two");
        assert_eq!(daemon.stop().await, Some(0));
        assert_eq!(world.processes(), []);
    }
}

/// C14: what a turn with this status is, only its history says, and that says the same.
#[tokio::test]
async fn c14_unknown_status_never_runs_again() {
    let rules = json!([{"do": "value", "name": "status", "is": "completed", "to": "succeeded",
                        "beside": "itemsView"}]);
    waits_for_another_codex(&rules, &["its status `succeeded` is unknown"]).await;
}

/// C14: told live only, the history has the answer.
#[tokio::test]
async fn c14_unknown_live_status_is_harvested() {
    let world = World::new().await;
    let rules = json!([{"do": "value", "name": "status", "is": "completed", "to": "succeeded",
                        "beside": "itemsView", "in": ["turn/completed"]}]);
    let daemon = bent(&world, &rules).await;
    assert_eq!(world.ask("a", "echo:the answer").await, "the answer");
    assert_eq!(world.times_asked("echo:the answer"), 1);
    assert_eq!(daemon.stop().await, Some(0));
}

/// C14: an answer under another name is not taken for silence.
#[tokio::test]
async fn c14_renamed_answer_waits_for_operator() {
    let rules =
        json!([{"do": "value", "name": "type", "is": "agentMessage", "to": "assistantText"}]);
    waits_for_another_codex(&rules, &["answered in a form this bridge does not know"]).await;
}

/// C14: a turn whose end has another name is looked for when its thread is idle, or after its silence; nobody else's
/// turn is cut for it.
#[tokio::test]
async fn c14_renamed_turn_end_reads_history() {
    let renamed = json!({"do": "method", "in": ["turn/completed"], "to": "turn/finished"});
    let no_status = json!({"do": "drop", "in": ["thread/status/changed"]});
    for (settings, rules) in [
        ("", json!([renamed])),
        ("[turn]\nidle_secs = 1\n", json!([renamed, no_status])),
    ] {
        let world = World::with_settings(settings).await;
        let daemon = bent(&world, &rules).await;
        assert_eq!(world.ask("a", "echo:one").await, "one");
        let codex = world.codex_pid();
        assert_eq!(world.ask("a", "echo:two").await, "two");
        assert_eq!(world.codex_pid(), codex, "it was not ended");
        assert_eq!(world.times_asked("echo:one"), 1);
        assert_eq!(daemon.stop().await, Some(0));
    }
}

/// C14: without a method that every turn needs, nothing is given up.
#[tokio::test]
async fn c14_missing_method_waits_for_operator() {
    for method in ["turn/start", "thread/settings/update", "thread/start"] {
        let rules = json!([{"do": "refuse", "from": "bridge", "in": [method]}]);
        let words = format!("`{method}`");
        waits_for_another_codex(&rules, &[&words]).await;
    }
}

/// C14: the history marks our messages under another name. The turn is known by its own id, and what it did is not
/// repeated, though no notification told of it.
#[tokio::test]
async fn c14_renamed_client_id_runs_once() {
    let rules = json!([
        {"do": "member", "name": "clientId", "to": "clientMark"},
        {"do": "drop", "in": ["item/started", "item/completed", "turn/diff/updated"]},
    ]);
    let world = World::new().await;
    let daemon = bent(&world, &rules).await;
    let text = "append:log.txt:once ;; hold:gate echo:the answer";
    let send = world.start(&["send", text]).await;
    world.model.wait_held("gate").await.unwrap();
    let codex = world.codex_pid();
    kill_9(codex);
    gone(codex).await;
    world.model.release("gate");
    let ended = send.ended().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(written(&world, "log.txt").await, "once\n");
    let again = world.shown_with("[codex-bridge]");
    assert!(
        again
            .last()
            .unwrap()
            .contains("cut off before you answered")
    );
    assert_eq!(daemon.stop().await, Some(0));
}

/// C14: Codex never said which turn it is, and the history does not say whose its messages are: nothing is taken for
/// somebody else's.
#[tokio::test]
async fn c14_unmarked_history_proves_no_absence() {
    let rules = json!([
        {"do": "member", "name": "clientId", "to": "clientMark"},
        {"do": "drop", "in": ["turn/start", "item/started", "item/completed", "turn/diff/updated"]},
    ]);
    let words = "it does not say whose the messages in it are";
    waits_for_another_codex(&rules, &[words]).await;
}

/// C23: npm replaces the binary under a running daemon. What runs is what is told, and the new one takes new turns.
#[tokio::test]
async fn c23_status_tells_running_from_installed() {
    let world = World::new().await;
    let codex = plant(&world, Some("0.165.0"), &json!([]));
    let mut daemon = world.daemon_with(&["--codex-bin", &codex]).await;
    assert_eq!(world.ask("a", "echo:one").await, "one");
    let health = async || {
        let status = world.json(&["status", "--json"]).await;
        status["health"]["codex"].as_str().unwrap().to_owned()
    };
    let said = health().await;
    assert!(
        said.starts_with("Codex 0.165.0 over its unix socket"),
        "{said}"
    );
    let process = world.codex_pid();
    plant(&world, Some("0.166.0"), &json!([]));
    daemon.log.wait_for("codex was changed").await;
    let said = health().await;
    assert!(
        said.starts_with("Codex 0.166.0 over its unix socket"),
        "{said}"
    );
    gone(process).await;
    assert_eq!(world.ask("a", "echo:two").await, "two");
    assert_eq!(daemon.stop().await, Some(0));
}

/// C23: the next daemon is told another Codex. The turn of the old one ends on it; new ones go to the one that it is told.
#[tokio::test]
async fn c23_daemon_uses_the_codex_it_is_told() {
    let world = World::new().await;
    let old = plant(&world, Some("0.165.0"), &json!([]));
    let daemon = world.daemon_with(&["--codex-bin", &old]).await;
    let send = world
        .start(&["send", "-c", "a", "hold:gate echo:the answer"])
        .await;
    world.model.wait_held("gate").await.unwrap();
    let process = world.codex_pid();
    daemon.kill_9().await;
    let mut daemon = world.daemon().await;
    daemon.log.wait_for("codex was changed").await;
    let health = world.json(&["status", "--json"]).await["health"]["codex"].clone();
    let expected = format!("Codex {} over its unix socket", real_version());
    let said = health.as_str().unwrap();
    assert!(said.starts_with(&expected), "{said}");
    world.model.release("gate");
    let ended = send.ended().await;
    assert_eq!(ended.stdout, "the answer\n", "{ended:?}");
    assert_eq!(world.times_asked("hold:gate"), 1);
    gone(process).await;
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(world.processes(), []);
}

/// C23: a Codex that does not know one of our settings ignores it without a word, so it is asked.
#[tokio::test]
async fn c23_doctor_finds_settings_codex_ignores() {
    let world = World::new().await;
    let check = async |codex: &str| {
        let report = world
            .json(&["doctor", "--json", "--codex-bin", codex])
            .await;
        let checks = report["checks"].as_array().unwrap().clone();
        let is_it = |check: &Value| check["id"] == "codex_settings";
        checks.into_iter().find(is_it).unwrap()
    };
    assert_eq!(check(native().to_str().unwrap()).await["status"], "ok");
    let script = format!(
        "#!/bin/sh\nfor arg; do\n  shift\n  case $arg in features.unbounded_*) arg=features.renamed=false;; esac\n  set -- \"$@\" \"$arg\"\ndone\nexec {} \"$@\"\n",
        native().display()
    );
    let newer = world.path().join("newer");
    std::fs::write(&newer, script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&newer, mode).unwrap();
    let found = check(newer.to_str().unwrap()).await;
    assert_eq!(found["status"], "fail", "{found:#}");
    let detail = found["detail"].as_str().unwrap();
    assert!(detail.contains("`features.renamed`"), "{detail}");
}
