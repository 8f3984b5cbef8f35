//! A Codex that nobody tested is checked before a message meets it. Row C24 of the fault matrix. What drifts is the real
//! one behind `bent-codex`.

use crate::fake::beside;
use crate::world::{World, gone, kill_9, within};
use bridge_host::LaunchOptions;
use bridge_host::self_check::{Severity, Verdict, check};
use bridge_sim::bend::{BendRule, BentCodex};
use bridge_sim::codex_for_tests;
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn native() -> PathBuf {
    codex_for_tests().unwrap().canonicalize().unwrap()
}

fn launch(codex: &Path, run_dir: &Path) -> LaunchOptions {
    let path = std::env::var_os("PATH").unwrap();
    LaunchOptions {
        keeper: env!("CARGO_BIN_EXE_codex-bridge").into(),
        native: Ok(codex.to_owned()),
        codex: codex.to_owned(),
        codex_version: "0.999.0".to_owned(),
        run_dir: run_dir.to_owned(),
        env: vec![("PATH".into(), path)],
        hidden_from_commands: Vec::new(),
        linger: Duration::ZERO,
        lease: None,
    }
}

/// Checks the real Codex, bent so.
async fn checked(rules: &Value) -> Verdict {
    let place = tempfile::tempdir().unwrap();
    let rules: Vec<BendRule> = serde_json::from_value(rules.clone()).unwrap();
    let bent = BentCodex::new(native(), rules);
    let codex = bent.plant(beside("bent-codex").as_ref(), &place.path().join("bent"));
    let scratch = place.path().join("checks");
    let launch = launch(&codex.unwrap(), &place.path().join("run"));
    let verdict = check(&launch, &scratch).await.unwrap();
    assert_eq!(
        std::fs::read_dir(&scratch).unwrap().count(),
        0,
        "left behind"
    );
    verdict
}

/// The verdict fails, and says this.
#[track_caller]
fn fails(verdict: &Verdict, words: &str) {
    let breaks: Vec<_> = verdict.of(Severity::Breaks).collect();
    assert!(!verdict.passed(), "it passed: {:#?}", verdict.findings);
    assert!(
        breaks.iter().any(|found| found.what.contains(words)),
        "{breaks:#?}"
    );
}

#[tokio::test]
async fn c24_tested_codex_passes_without_findings() {
    let began = std::time::Instant::now();
    let verdict = checked(&json!([])).await;
    println!("checked in {:?}", began.elapsed());
    assert_eq!(verdict.findings, [], "{:#?}", verdict.findings);
}

/// A field that is read is called otherwise: in the history, in what is told live, in what is asked.
#[tokio::test]
async fn c24_renamed_field_fails_the_check() {
    for (rules, words) in [
        (
            json!([{"do": "member", "name": "clientId", "to": "clientMark"}]),
            "the history does not say whose the message is",
        ),
        (
            json!([{"do": "member", "name": "exitCode", "to": "code"}]),
            "sends no `exitCode`",
        ),
        (
            json!([{"do": "value", "name": "type", "is": "agentMessage", "to": "assistantText"}]),
            "the turn has not its answer",
        ),
        (
            json!([{"do": "value", "name": "status", "is": "completed", "to": "succeeded",
                    "beside": "itemsView"}]),
            "the end of the turn can't be believed",
        ),
    ] {
        fails(&checked(&rules).await, words);
    }
}

#[tokio::test]
async fn c24_dropped_notification_fails_the_check() {
    for method in [
        "item/started",
        "thread/status/changed",
        "thread/settings/updated",
        "serverRequest/resolved",
    ] {
        let rules = json!([{"do": "drop", "in": [method]}]);
        fails(&checked(&rules).await, &format!("{method}: it does not"));
    }
    let unsaid = checked(&json!([{"do": "drop", "in": ["thread/tokenUsage/updated"]}])).await;
    assert!(unsaid.passed(), "{unsaid:#?}");
    assert_eq!(unsaid.of(Severity::BlindSpot).count(), 1, "{unsaid:#?}");
}

#[tokio::test]
async fn c24_unknown_request_fails_the_check() {
    let request = json!({"id": 900, "method": "item/mood/requestConsent",
        "params": {"threadId": "t", "turnId": "u", "itemId": "i"}});
    let rules = json!([{"do": "add", "in": ["turn/started"], "message": request}]);
    let words = "item/mood/requestConsent: an ordinary turn asks it";
    fails(&checked(&rules).await, words);
}

/// An approval policy has another meaning, and Codex reports the word that it was given.
#[tokio::test]
async fn c24_flipped_policy_fails_the_check() {
    let swap = |from: &str| json!({"from": from, "do": "swap", "name": "approvalPolicy", "values": ["on-request", "never"]});
    let verdict = checked(&json!([swap("bridge"), swap("codex")])).await;
    fails(
        &verdict,
        "approval policy `on-request`: a command that leaves the sandbox is not asked about",
    );
    fails(&verdict, "approval policy `never`: it asks all the same");
    let decision = |is: &str, to: &str| json!([{"from": "bridge", "do": "value", "name": "decision", "is": is, "to": to}]);
    let verdict = checked(&decision("decline", "accept")).await;
    fails(&verdict, "a command that was declined ran all the same");
    let verdict = checked(&decision("accept", "decline")).await;
    fails(&verdict, "a command that was accepted did not run");
}

#[tokio::test]
async fn c24_missing_method_fails_the_check() {
    let rules = json!([{"do": "refuse", "from": "bridge", "in": ["thread/settings/update"]}]);
    fails(&checked(&rules).await, "thread/settings/update");
}

/// Its end is not told: that is a finding only because the history has it.
#[tokio::test]
async fn c24_untold_end_fails_the_check() {
    let rules = json!([{"do": "method", "in": ["turn/completed"], "to": "turn/finished"}]);
    fails(&checked(&rules).await, "turn/completed: it did not come");
}

/// Puts a Codex that claims this version, bent so, in its place in the world.
fn plant(world: &World, version: &str, rules: &Value) -> String {
    let rules: Vec<BendRule> = serde_json::from_value(rules.clone()).unwrap();
    let bent = BentCodex {
        version: Some(version.to_owned()),
        ..BentCodex::new(native(), rules)
    };
    let place = world.path().join("bent");
    let program = bent.plant(beside("bent-codex").as_ref(), &place).unwrap();
    // Its rules are beside it: without this all of them would be the same executable.
    let mut file = OpenOptions::new().append(true).open(&program).unwrap();
    file.write_all(version.as_bytes()).unwrap();
    program.display().to_string()
}

/// No message meets it: `send`, `why`, `status` and `doctor` say the reason, and the tested one answers.
#[tokio::test]
async fn c24_failed_codex_gets_no_message() {
    let world = World::with_settings("[turn]\nconfig_probe_secs = 1\n").await;
    let rules = json!([{"do": "member", "name": "clientId", "to": "clientMark"}]);
    let codex = plant(&world, "0.999.0", &rules);
    let daemon = world.daemon_with(&["--codex-bin", &codex]).await;
    let ended = world.run(&["send", "echo:the answer"]).await;
    let reason = "the history does not say whose the message is";
    ended.must(75, &["Codex 0.999.0 is newer than", reason]);
    let id = ended.kept();
    let why = world.run(&["why", &id]).await;
    assert!(why.stdout.contains(reason), "{why:?}");
    let status = world.json(&["status", "--json"]).await;
    let health = status["health"]["codex"].as_str().unwrap();
    assert!(health.contains(reason), "{health}");
    let doctor = world
        .json(&["doctor", "--json", "--codex-bin", &codex])
        .await;
    let check = check_of(&doctor);
    assert_eq!(check["status"], "fail", "{doctor:#}");
    assert!(
        check["detail"].as_str().unwrap().contains(reason),
        "{check:#}"
    );
    assert_eq!(daemon.stop().await, Some(0));
    // The next daemon goes by what is remembered.
    let daemon = world.daemon_with(&["--codex-bin", &codex]).await;
    world
        .run(&["send", "echo:another"])
        .await
        .must(75, &[reason]);
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(world.times_asked("echo:the answer"), 0);
    let daemon = world.daemon().await;
    assert_eq!(world.finished(&id).await["answer"]["text"], "the answer");
    assert_eq!(world.times_asked("echo:the answer"), 1);
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(world.processes(), []);
}

fn check_of(doctor: &Value) -> Value {
    let checks = doctor["checks"].as_array().unwrap();
    let found = checks.iter().find(|check| check["id"] == "codex_check");
    found.unwrap_or_else(|| panic!("{doctor:#}")).clone()
}

/// One that passes is used at once, and `status` says by what right.
#[tokio::test]
async fn c24_unknown_codex_that_passes_is_used() {
    let world = World::new().await;
    let codex = plant(&world, "0.999.0", &json!([]));
    let daemon = world.daemon_with(&["--codex-bin", &codex]).await;
    assert_eq!(world.ask("a", "echo:one").await, "one");
    let status = world.json(&["status", "--json"]).await;
    let health = status["health"]["codex"].as_str().unwrap();
    assert!(
        health.starts_with("Codex 0.999.0 over its unix socket; newer than"),
        "{health}"
    );
    assert!(
        health.contains("passed the check of this bridge"),
        "{health}"
    );
    // Replaced as npm does it, by one that does not pass: what runs goes on, and its next start is refused.
    plant(
        &world,
        "0.999.1",
        &json!([{"do": "drop", "in": ["serverRequest/resolved"]}]),
    );
    assert_eq!(world.ask("a", "echo:two").await, "two");
    let process = world.codex_pid();
    kill_9(process);
    gone(process).await;
    let refused = world.run(&["send", "echo:three"]).await;
    refused.must(
        75,
        &["Codex 0.999.1 is newer than", "serverRequest/resolved"],
    );
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(world.processes(), []);
}

/// Killed in the middle of a check: nothing of it lives on, and the next daemon checks again.
#[tokio::test]
async fn c24_daemon_killed_while_checking() {
    let world = World::new().await;
    let codex = plant(&world, "0.999.0", &json!([]));
    let mut daemon = world.daemon_with(&["--codex-bin", &codex]).await;
    daemon
        .log
        .wait_for("is checked before its first turn")
        .await;
    daemon.kill_9().await;
    let mut look = tokio::time::interval(Duration::from_millis(20));
    within("the check's processes", async {
        while !world.processes().is_empty() {
            look.tick().await;
        }
    })
    .await;
    let daemon = world.daemon_with(&["--codex-bin", &codex]).await;
    assert_eq!(world.ask("a", "echo:one").await, "one");
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(world.processes(), []);
}

/// `doctor --deep` tries a tested one as well, and leaves its verdict for the daemon.
#[tokio::test]
async fn c24_deep_doctor_checks_a_tested_codex() {
    let world = World::new().await;
    let codex = plant(&world, "0.166.0", &json!([]));
    let plain = world
        .json(&["doctor", "--json", "--codex-bin", &codex])
        .await;
    let checks = plain["checks"].as_array().unwrap();
    assert!(
        checks.iter().all(|check| check["id"] != "codex_check"),
        "{plain:#}"
    );
    let daemon = world.daemon().await;
    let deep = world
        .json(&["doctor", "--deep", "--json", "--codex-bin", &codex])
        .await;
    assert_eq!(check_of(&deep)["status"], "ok", "{deep:#}");
    assert!(world.state_dir().join("codex-checks.json").exists());
    assert_eq!(daemon.stop().await, Some(0));
}
