//! Questions of Codex and deaths: of the daemon while one waits, of Codex while it asks.

use crate::requests::{Stage, WAITS, api};
use crate::world::{kill_9, within};
use serde_json::{Value, json};

/// kill -9 of the daemon while an approval waits: it is still there after the restart, the answer works, and the
/// command runs once.
#[tokio::test]
async fn a_question_outlives_the_daemon_and_its_command_runs_once() {
    let stage = Stage::new("").await;
    let mut daemon = stage.daemon().await;
    let text = "escal:echo ran >> log ;; echo:done";
    let asking = stage.asks(&mut daemon, text, 1).await;
    let before = stage.waiting().await;
    daemon.kill_9().await;
    let daemon = stage.daemon().await;
    let after = stage.waiting().await;
    assert_eq!(after["request_id"], before["request_id"], "{after:#}");
    assert_eq!(after["state"], "open", "{after:#}");
    stage.rules("accept", Value::Null).await;
    let shown = stage.world.finished(&asking.message_id).await;
    assert_eq!(shown["answer"]["text"], "done", "{shown:#}");
    assert_eq!(shown["attempt"], 1, "{shown:#}");
    let log = std::fs::read_to_string(stage.work.join("log")).unwrap();
    assert_eq!(log, "ran\n");
    let (_, all) = api(&stage.world, "GET", "/v1/requests?state=all", &Value::Null).await;
    assert_eq!(all["requests"].as_array().unwrap().len(), 1, "{all:#}");
    assert_eq!(daemon.stop().await, Some(0));
}

/// C11, as it is ruled: Codex dies while it asks. A decision is a grant that answers the same command once in the turn
/// that goes on; another command asks again.
#[tokio::test]
async fn c11_a_decision_after_codex_died_answers_the_same_once_and_nothing_else() {
    let settings = "codex.restarts_per_minute = 600\nturn.backoff_base_ms = 50\n";
    let stage = Stage::new(settings).await;
    let mut daemon = stage.daemon().await;
    let text =
        "escal:echo one >> log ;; escal:echo one >> log ;; escal:echo two >> log ;; echo:done";
    let asking = stage.asks(&mut daemon, text, 1).await;
    let first = stage.waiting().await;
    let id = first["request_id"].as_str().unwrap().to_owned();
    kill_9(stage.world.codex_pid());
    // The turn that goes on asks the same again: the new question stands for the old one.
    daemon.log.wait_times(WAITS, 2).await;
    let second = stage.waiting().await;
    assert_ne!(second["request_id"], first["request_id"], "{second:#}");
    assert_eq!(second["digest"], first["digest"], "{second:#}");
    assert_eq!(second["deadline"], first["deadline"], "{second:#}");
    let (status, late) = stage.decide(&id, "accept", json!(null)).await;
    assert_eq!(status, 409, "{late:#}");
    assert!(
        late["detail"].as_str().unwrap().contains("asked again"),
        "{late:#}"
    );
    stage.rules("accept", Value::Null).await;
    daemon.log.wait_times(WAITS, 3).await;
    assert_eq!(
        std::fs::read_to_string(stage.work.join("log")).unwrap(),
        "one\n"
    );
    stage.rules("decline", Value::Null).await;
    daemon.log.wait_times(WAITS, 4).await;
    stage.rules("decline", Value::Null).await;
    within("the answer", asking.answered()).await;
    assert_eq!(
        std::fs::read_to_string(stage.work.join("log")).unwrap(),
        "one\n"
    );
    assert_eq!(daemon.stop().await, Some(0));
}
