//! What the daemon's log tells of its work at the default level, and of its end.

use crate::requests::Stage;
use crate::world::{Daemon, World};

/// The lines about this message.
fn lines_of(daemon: &Daemon, id: &str) -> Vec<String> {
    let text = daemon.log.text();
    let short = &id[id.len() - 8..];
    let about = text.lines().filter(|line| line.contains(short));
    about.map(ToOwned::to_owned).collect()
}

fn has(lines: &[String], words: &[&str]) {
    let fits = |line: &&String| words.iter().all(|word| line.contains(word));
    assert!(
        lines.iter().any(|line| fits(&line)),
        "{words:?}: {lines:#?}"
    );
}

#[tokio::test]
async fn log_tells_of_each_message() {
    let world = World::with_settings("[turn]\nbackoff_base_ms = 10\n").await;
    let mut daemon = world.daemon().await;
    daemon.log.wait_for("codex-bridge send").await;
    assert!(
        !daemon.log.text().contains("schema"),
        "{}",
        daemon.log.text()
    );
    let good = world
        .run(&["send", "--json", "-c", "talk", "echo:a-secret-word"])
        .await;
    assert_eq!(good.code, Some(0), "{good:?}");
    daemon.log.wait_for(" answered id=").await;
    let bad = world.run(&["send", "-c", "talk", "fail:400"]).await;
    let bad = bad.kept();
    daemon.log.wait_for(" failed id=").await;
    let lines = lines_of(&daemon, &bad);
    has(
        &lines,
        &[
            "INFO taken in",
            "conversation=talk channel=local",
            "sender=\"local owner\"",
        ],
    );
    has(
        &lines,
        &[
            "WARN failed",
            "conversation=talk",
            "reason=\"",
            "next=\"codex-bridge retry ",
        ],
    );
    let text = daemon.log.text();
    let answered = text
        .lines()
        .find(|line| line.contains(" answered id="))
        .unwrap();
    assert!(
        answered.contains(" seconds=") && answered.contains(" tokens="),
        "{answered}"
    );
    for leak in ["a-secret-word", "fail:400", "Some(", "=\"\""] {
        assert!(!text.contains(leak), "{leak}: {text}");
    }
    assert_eq!(daemon.stop().await, Some(0));
    let mut again = world.daemon().await;
    again.log.wait_for("ready ").await;
    assert!(!again.log.text().contains("codex-bridge send"));
    assert_eq!(again.stop().await, Some(0));
}

#[tokio::test]
async fn log_tells_of_questions_and_decisions() {
    let stage = Stage::new("").await;
    let mut daemon = stage.daemon().await;
    let asking = stage
        .asks(&mut daemon, "escal:touch made ;; echo:done", 1)
        .await;
    stage.rules("accept", serde_json::Value::Null).await;
    stage.ends(&mut daemon, &asking.message_id, 1).await;
    daemon.log.wait_for(" answered id=").await;
    let lines = lines_of(&daemon, &asking.message_id);
    has(
        &lines,
        &[
            "INFO Codex asks",
            "request=",
            "kind=command",
            "next=\"codex-bridge approve ",
        ],
    );
    has(&lines, &["INFO approved", "by=\"local owner", "via="]);
    assert_eq!(daemon.stop().await, Some(0));
}

/// A turn that only waits for a person does not hold the stop, and its question can be answered after the next start.
#[tokio::test]
async fn drain_does_not_wait_for_people() {
    let stage = Stage::new("[daemon]\ndrain_secs = 3600\n").await;
    let mut daemon = stage.daemon().await;
    let asking = stage
        .asks(&mut daemon, "escal:touch made ;; echo:done", 1)
        .await;
    let mut log = daemon.log.clone();
    assert_eq!(daemon.stop().await, Some(0));
    log.wait_for("waits only for a person").await;
    let mut daemon = stage.daemon().await;
    daemon.log.wait_times(crate::requests::WAITS, 1).await;
    stage.rules("accept", serde_json::Value::Null).await;
    stage.world.finished(&asking.message_id).await;
    assert!(stage.made("made"));
    assert_eq!(daemon.stop().await, Some(0));
}
