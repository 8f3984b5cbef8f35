//! The log as JSON: one object per line, whose events have the names that the guide lists.

use crate::world::World;
use serde_json::Value;

#[tokio::test]
async fn json_log_names_events_of_a_message() {
    let world = World::with_settings("log.format = \"json\"\n").await;
    let mut daemon = world.daemon().await;
    assert_eq!(world.ask("c", "echo:one").await, "one");
    daemon.log.wait_for("message.answered").await;
    let log = daemon.log.clone();
    assert_eq!(daemon.stop().await, Some(0));
    let text = log.text();
    let lines = text.lines().map(serde_json::from_str::<Value>);
    let lines: Vec<Value> = lines.collect::<Result<_, _>>().unwrap();
    let guide = include_str!("../../../../docs/guides/telemetry.md");
    let mut told = Vec::new();
    for event in lines.iter().filter_map(|line| line["event"].as_str()) {
        assert!(guide.contains(&format!("| `{event}` |")), "{event}");
        told.push(event);
    }
    for event in [
        "daemon.ready",
        "message.received",
        "message.answered",
        "daemon.stopped",
    ] {
        assert!(told.contains(&event), "{event} is not in {told:?}");
    }
    let answered = lines
        .iter()
        .find(|line| line["event"] == "message.answered");
    let answered = answered.unwrap();
    assert_eq!(answered["level"], "info");
    assert_eq!(answered["fields"]["conversation"], "c");
    assert_eq!(answered["fields"]["attempt"], 1);
}
