//! One message is one message by its sender and `messageId`, whatever rows carry it.

use crate::stage::{Fetching, Tray, channel, platform};
use bridge_sim::molecule::{Edition, MoleculePlatform, Workspace};
use serde_json::{Value, json};

const ROWS: &str = include_str!("../../../sim/tests/golden/molecule/rows-2026-08.jsonl");

/// A message's body with this id and text.
fn body(id: &str, text: &str) -> Value {
    let parts = json!([{"kind": "text", "text": text}]);
    json!({
        "method": "message/send",
        "params": {"message": {"role": "user", "messageId": id, "parts": parts}},
    })
}

/// Reads the feed until everything that was planted is in, and gives all texts.
async fn read(platform: &MoleculePlatform, own: &Workspace, tray: &Tray) -> Vec<String> {
    let before = tray.held().arrivals.len();
    let fetching = Fetching::start(channel(platform, own), tray.clone());
    let last = format!("last {before}");
    platform.canvas_says(own, &last).unwrap();
    let held = fetching
        .tray
        .until("the last", |held| held.texts().contains(&last.as_str()))
        .await;
    let texts = held.texts().into_iter();
    let texts = texts.filter(|text| !text.starts_with("last "));
    texts.map(ToOwned::to_owned).collect()
}

#[tokio::test]
async fn d2_recorded_rows_are_one_message() {
    let (platform, own) = platform(Edition::New).await;
    let rows = ROWS.lines().map(|line| serde_json::from_str(line).unwrap());
    let rows: Vec<Value> = rows
        .filter(|line: &Value| line["label"].as_str().unwrap().contains("two rows"))
        .collect();
    assert_eq!(rows.len(), 2);
    let source = platform.add_workspace("beta").id;
    for row in &rows {
        let row = &row["row"];
        for source in [Value::Null, json!(source)] {
            let fields = json!({
                "summary": row["summary"], "source_id": source, "request_body": row["request_body"],
                "response_body": row["response_body"], "duration_ms": row["duration_ms"],
            });
            platform.plant_row(&own, fields).unwrap();
        }
    }
    let texts = read(&platform, &own, &Tray::new()).await;
    assert_eq!(
        texts, ["ans:t71811693"; 2],
        "one of the canvas, one of the peer"
    );
}

/// What was written before the first register, more of it than a page has.
#[tokio::test]
async fn d2_rows_before_register_are_one_message() {
    let (platform, own) = platform(Edition::New).await;
    let peer = platform.add_workspace("beta");
    platform.push_until_registered(&own);
    let mut said = Vec::new();
    for number in 0..40 {
        let text = format!("text {number}");
        platform.canvas_says(&own, &text).unwrap();
        platform.peer_says(&peer, &own, &text).unwrap();
        said.extend([text.clone(), text]);
    }
    assert_eq!(platform.rows(&own).len(), 4 * 40);
    let texts = read(&platform, &own, &Tray::new()).await;
    assert_eq!(texts, said);
}

/// The second row is seen by the next life of the daemon only.
#[tokio::test]
async fn d2_duplicate_row_after_restart_is_known() {
    for edition in [Edition::Seed, Edition::New] {
        let (platform, own) = platform(edition).await;
        let tray = Tray::new();
        let row = json!({"request_body": body("m1", "hello")});
        platform.plant_row(&own, row.clone()).unwrap();
        assert_eq!(read(&platform, &own, &tray).await, ["hello"]);
        platform.plant_row(&own, row).unwrap();
        assert_eq!(read(&platform, &own, &tray).await, ["hello"], "{edition:?}");
    }
}

/// An earlier version stored messages under the ids of their rows; these are shown again after an upgrade.
#[tokio::test]
async fn d2_messages_of_earlier_versions_are_known() {
    let (platform, own) = platform(Edition::New).await;
    platform.push_until_registered(&own);
    platform.canvas_says(&own, "hello").unwrap();
    let tray = Tray::new();
    assert_eq!(read(&platform, &own, &tray).await, ["hello"]);
    tray.forget_names();
    assert_eq!(read(&platform, &own, &tray).await, ["hello"]);
}

#[tokio::test]
async fn d2_two_senders_may_use_one_id() {
    let (platform, own) = platform(Edition::New).await;
    let peers = ["beta", "gamma"].map(|name| platform.add_workspace(name).id);
    let sources = [json!(peers[0]), Value::Null, json!(peers[1])];
    for source in &sources {
        let row = json!({"source_id": source, "request_body": body("m1", &source.to_string())});
        platform.plant_row(&own, row).unwrap();
    }
    let texts = read(&platform, &own, &Tray::new()).await;
    assert_eq!(texts, sources.map(|source| source.to_string()));
}

/// Without an id the row counts, as ever.
#[tokio::test]
async fn d2_rows_without_id_are_messages_each() {
    let (platform, own) = platform(Edition::Seed).await;
    for id in [json!(null), json!(""), json!(7)] {
        let mut row = json!({"request_body": body("", "hello")});
        row["request_body"]["params"]["message"]["messageId"] = id;
        platform.plant_row(&own, row).unwrap();
    }
    let texts = read(&platform, &own, &Tray::new()).await;
    assert_eq!(texts, ["hello"; 3]);
}
