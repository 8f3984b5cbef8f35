//! Questions of Codex and deaths: of the daemon while one waits, of Codex while it asks.

use crate::requests::{Asking, Stage, WAITS, api};
use crate::world::kill_9;
use serde_json::{Value, json};

/// kill -9 of the daemon while an approval waits: it is still there after the restart, the answer works, and the
/// command runs once.
#[tokio::test]
async fn approval_request_survives_daemon_kill() {
    // Over pipes, which a slow machine falls back to, Codex would die with the daemon.
    let stage = Stage::new("[codex]\ntransport = \"socket\"\n").await;
    let mut daemon = stage.daemon().await;
    let text = "escal:echo ran >> log ;; echo:done";
    let asking = stage.asks(&mut daemon, text, 1).await;
    let before = stage.waiting().await;
    let said = daemon.log.text();
    daemon.kill_9().await;
    let mut daemon = stage.daemon().await;
    let after = stage.waiting().await;
    let logs = || format!("{said}\n{}", daemon.log.text());
    assert_eq!(after["request_id"], before["request_id"], "{}", logs());
    assert_eq!(after["state"], "open", "{after:#}\n{}", logs());
    stage.rules("accept", Value::Null).await;
    let shown = stage.ends(&mut daemon, &asking.message_id, 1).await;
    assert_eq!(shown["answer"]["text"], "done", "{shown:#}");
    assert_eq!(shown["attempt"], before["attempt"], "{shown:#}");
    let log = std::fs::read_to_string(stage.work.join("log")).unwrap();
    assert_eq!(log, "ran\n");
    let (_, all) = api(&stage.world, "GET", "/v1/requests?state=all", &Value::Null).await;
    assert_eq!(all["requests"].as_array().unwrap().len(), 1, "{all:#}");
    assert_eq!(daemon.stop().await, Some(0));
}

/// A cut message waits for a word, so that the time between two lives of Codex is the test's.
const PARKED: &str =
    "codex.restarts_per_minute = 600\nturn.backoff_base_ms = 50\n[tiers.owner]\non_cut = \"ask\"\n";

/// Codex dies while it asks, and its message waits for a word; gives the message's id.
async fn dies_asking(stage: &Stage, asking: Asking) -> String {
    kill_9(stage.world.codex_pid());
    let ended = asking.send.ended().await;
    assert_ne!(ended.code, Some(0), "{ended:?}");
    let shown = stage
        .world
        .json(&["show", "--json", &asking.message_id])
        .await;
    assert_eq!(shown["state"], "parked", "{shown:#}");
    assert_eq!(shown["requests"][0]["state"], "orphaned", "{shown:#}");
    asking.message_id
}

/// C11, as it is ruled: Codex dies while it asks. A decision is a grant that answers the same command once in the turn
/// that goes on; the same again, and another command, ask again.
#[tokio::test]
async fn c11_grant_answers_same_command_once() {
    let stage = Stage::new(PARKED).await;
    let mut daemon = stage.daemon().await;
    let text =
        "escal:echo one >> log ;; escal:echo one >> log ;; escal:echo two >> log ;; echo:done";
    let asking = stage.asks(&mut daemon, text, 1).await;
    let first = stage.waiting().await;
    let message_id = dies_asking(&stage, asking).await;
    let id = first["request_id"].as_str().unwrap();
    let (status, granted) = stage.decide(id, "accept", Value::Null).await;
    assert_eq!((status, &granted["outcome"]), (200, &json!("granted")));
    let (status, late) = stage.decide(id, "decline", Value::Null).await;
    assert_eq!(status, 409, "{late:#}");
    let again = stage.world.run(&["dead", "redrive", &message_id]).await;
    assert_eq!(again.code, Some(0), "{again:?}");
    daemon.log.wait_times(WAITS, 2).await;
    let log = || std::fs::read_to_string(stage.work.join("log")).unwrap();
    assert_eq!(log(), "one\n", "the grant answered once");
    for times in [3, 4] {
        stage.rules("decline", Value::Null).await;
        if times == 3 {
            daemon.log.wait_times(WAITS, times).await;
            let asked = stage.waiting().await;
            assert!(asked["shown"].as_str().unwrap().contains("echo two"));
        }
    }
    let shown = stage.world.finished(&message_id).await;
    assert_eq!(shown["answer"]["text"], "done", "{shown:#}");
    assert_eq!(log(), "one\n");
    let vias: Vec<_> = shown["requests"].as_array().unwrap().iter().collect();
    assert_eq!(vias[1]["via"], "grant", "{shown:#}");
    assert_eq!(daemon.stop().await, Some(0));
}

/// C12: the ids of a new Codex begin at 0 again, and a decision about the old 0 is none about the new.
#[tokio::test]
async fn c12_stale_decision_never_answers_new_codex() {
    let stage = Stage::new(PARKED).await;
    let mut daemon = stage.daemon().await;
    let asking = stage
        .asks(&mut daemon, "escal:touch one ;; echo:done", 1)
        .await;
    let old = stage.waiting().await;
    dies_asking(&stage, asking).await;
    let mut other = stage
        .world
        .start(&["send", "-c", "b", "escal:touch two ;; echo:done"])
        .await;
    other.on_disk().await;
    daemon.log.wait_times(WAITS, 2).await;
    let new = stage.waiting().await;
    assert_ne!(new["incarnation"], old["incarnation"], "{new:#}");
    let id = old["request_id"].as_str().unwrap();
    let (status, granted) = stage.decide(id, "accept", Value::Null).await;
    assert_eq!((status, &granted["outcome"]), (200, &json!("granted")));
    let still = stage.waiting().await;
    assert_eq!(still["request_id"], new["request_id"], "{still:#}");
    assert_eq!(still["state"], "open", "{still:#}");
    stage.rules("decline", Value::Null).await;
    let ended = other.ended().await;
    assert_eq!(ended.stdout, "done\n", "{ended:?}");
    assert!(!stage.made("one") && !stage.made("two"));
    assert_eq!(daemon.stop().await, Some(0));
}

/// Over pipes Codex dies with the daemon: the turn goes on with another, asks the same again, and the question that is
/// answered then runs its command once.
#[tokio::test]
async fn piped_approval_is_requested_again_after_kill() {
    let settings = "[codex]\ntransport = \"stdio\"\nrestarts_per_minute = 600\n[tiers.owner]\non_cut = \"continue\"\n";
    let stage = Stage::new(settings).await;
    let mut daemon = stage.daemon().await;
    let text = "escal:echo ran >> log ;; echo:done";
    let asking = stage.asks(&mut daemon, text, 1).await;
    let before = stage.waiting().await;
    daemon.kill_9().await;
    let mut daemon = stage.daemon().await;
    daemon.log.wait_times(WAITS, 1).await;
    let after = stage.waiting().await;
    assert_ne!(after["request_id"], before["request_id"], "{after:#}");
    assert_eq!(after["digest"], before["digest"], "{after:#}");
    assert_eq!(after["deadline"], before["deadline"], "{after:#}");
    let id = before["request_id"].as_str().unwrap();
    let (status, late) = stage.decide(id, "accept", Value::Null).await;
    assert_eq!(status, 409, "{late:#}");
    let detail = late["detail"].as_str().unwrap();
    assert!(detail.contains("asked again as"), "{detail}");
    stage.rules("accept", Value::Null).await;
    let shown = stage.world.finished(&asking.message_id).await;
    assert_eq!(shown["answer"]["text"], "done", "{shown:#}");
    let log = std::fs::read_to_string(stage.work.join("log")).unwrap();
    assert_eq!(log, "ran\n");
    assert_eq!(daemon.stop().await, Some(0));
}
