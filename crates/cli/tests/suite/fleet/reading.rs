//! A platform's feed is read by one node at a time; when that one dies another goes on.

use super::Fleet;
use crate::stand::{answers, talks};
use bridge_sim::SinkKind;
use bridge_sim::history::Event;

const FREE_PEERS: &str = "[tiers.peer]\nprofile = \"workspace-agent\"\nreads = \"disk\"\n";

#[tokio::test]
async fn dead_readers_feed_is_read_elsewhere() {
    let fleet = Fleet::with_settings(FREE_PEERS).await.with_short_lease();
    let talks = talks(&fleet.world, SinkKind::Idempotent, "").await;
    let (a, b) = (fleet.node("a"), fleet.node("b"));
    let on_a = a.daemon().await;
    let first = talks.post("main", "echo:first").unwrap();
    let answered = |row| move |history: &[Event]| answers(history, row) > 0;
    talks.wait_for("an answer", answered(first)).await.unwrap();
    let on_b = b.daemon().await;
    let nodes = b.json(&["node", "list", "--json"]).await;
    let reads = |place: usize| nodes["nodes"][place]["reads"].as_array().map(Vec::len);
    assert_eq!((reads(0), reads(1)), (Some(1), None), "{nodes:#}");
    assert_eq!(talks.platform.listening(&talks.served()[0]), 1);
    a.dies(on_a).await;
    let second = talks.post("main", "echo:second").unwrap();
    talks.wait_for("an answer", answered(second)).await.unwrap();
    let history = talks.history();
    assert_eq!(
        (answers(&history, first), answers(&history, second)),
        (1, 1)
    );
    assert_eq!(on_b.stop().await, Some(0));
}
