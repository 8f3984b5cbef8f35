//! F5: answers that do not reach Codex. The real Codex runs over pipes behind a program that loses some of them.

use crate::requests::{Stage, WAITS};
use crate::world::Daemon;
use bridge_sim::codex_for_tests;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;

const SETTINGS: &str = "[codex]\ntransport = \"stdio\"\nrestarts_per_minute = 600\n[tiers.owner]\non_cut = \"continue\"\n";
const TEXT: &str = "escal:echo ran >> log ;; echo:done";
const NOT_CONFIRMED: &str = "Codex has not confirmed it for";
const AGAIN: &str = "codex asks again what was answered";

/// A daemon whose Codex does not get the first answers to approval requests.
async fn losing(answers: u32) -> (Stage, Daemon) {
    let stage = Stage::new(SETTINGS).await;
    let left = stage.world.path().join("left");
    std::fs::write(&left, answers.to_string()).unwrap();
    let (left, codex) = (left.display(), codex_for_tests().unwrap());
    let codex = codex.display();
    let script = format!(
        r#"#!/bin/sh
case "$*" in *app-server*) ;; *) exec {codex} "$@" ;; esac
while IFS= read -r line; do
    case "$line" in
    *'"result":{{"decision"'*)
        left=$(cat {left})
        if [ "$left" -gt 0 ]; then echo $((left - 1)) > {left}; continue; fi ;;
    esac
    printf '%s\n' "$line"
done | {codex} "$@"
"#
    );
    let program = stage.world.path().join("lossy-codex");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (work, program) = (stage.work.display().to_string(), program.display());
    let args = ["--workdir", &work, "--codex-bin", &program.to_string()];
    let daemon = stage.world.daemon_with(&args).await;
    (stage, daemon)
}

fn ran(stage: &Stage) -> String {
    std::fs::read_to_string(stage.work.join("log")).unwrap_or_default()
}

/// The log of a daemon whose first answers, `lost` of them, do not reach Codex: the command runs once all the same.
async fn log_of_losing(lost: u32) -> String {
    let (stage, mut daemon) = losing(lost).await;
    let asking = stage.asks(&mut daemon, TEXT, 1).await;
    stage.rules("accept", Value::Null).await;
    let shown = stage.ends(&mut daemon, &asking.message_id, 1).await;
    assert_eq!(shown["attempt"], 1, "{shown:#}");
    asking.answered().await;
    assert_eq!(ran(&stage), "ran\n");
    let log = daemon.log.text();
    // A slow machine may need another try.
    let tries = log.matches(NOT_CONFIRMED).count();
    assert!(tries >= lost as usize, "{log}");
    assert_eq!(daemon.stop().await, Some(0));
    log
}

#[tokio::test]
async fn f5_a_lost_answer_is_given_again() {
    let log = log_of_losing(1).await;
    assert!(log.contains("answered request 0, Codex has not confirmed it for"));
}

#[tokio::test]
async fn f5_two_lost_answers_are_given_again() {
    let log = log_of_losing(2).await;
    assert!(log.contains(AGAIN), "{log}");
}

/// The command did not run, and nobody can know that from the outside: it is asked about again.
#[tokio::test]
async fn f5_repeatedly_lost_answer_replaces_codex() {
    let (stage, mut daemon) = losing(4).await;
    let asking = stage.asks(&mut daemon, TEXT, 1).await;
    stage.rules("accept", Value::Null).await;
    let gave_up = "codex did not take the answer to request 0";
    daemon.log.wait_times(gave_up, 1).await;
    daemon.log.wait_times(WAITS, 2).await;
    assert_eq!(ran(&stage), "");
    stage.rules("accept", Value::Null).await;
    stage.ends(&mut daemon, &asking.message_id, 1).await;
    asking.answered().await;
    assert_eq!(ran(&stage), "ran\n");
    assert_eq!(daemon.stop().await, Some(0));
}

/// The daemon dies between the decision and its telling; Codex asks the next one again and hears it once.
#[tokio::test]
async fn f5_a_decision_outlives_the_daemon_untold() {
    let stage = Stage::new("").await;
    let work = stage.work.display().to_string();
    let args = ["run", "--workdir", &work];
    let mut dying = stage.world.command(&args);
    dying.env("CODEX_BRIDGE_FAIL_POINT", "decide.after");
    let mut dying = Daemon::of(dying).await;
    let asking = stage.asks(&mut dying, TEXT, 1).await;
    let id = stage.waiting().await["request_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let decided = stage.world.run(&["approve", &id]).await;
    assert_ne!(decided.code, Some(0), "{decided:?}");
    dying.ended().await;
    assert_eq!(ran(&stage), "");
    let mut daemon = stage.daemon().await;
    let shown = stage.ends(&mut daemon, &asking.message_id, 1).await;
    assert_eq!(shown["answer"]["text"], "done", "{shown:#}");
    assert_eq!(shown["attempt"], 1, "{shown:#}");
    assert_eq!(ran(&stage), "ran\n");
    assert_eq!(daemon.stop().await, Some(0));
}
