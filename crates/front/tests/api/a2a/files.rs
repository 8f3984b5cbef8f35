//! Data and files of answers: inline while they are small, by an address of their own when they are not.

use super::{World, says};
use bridge_core::value::{Attachment, FileDigest};
use serde_json::json;

pub(super) fn file(name: &str, content: &str, bytes: u64) -> Attachment {
    let mut digest = [0; 32];
    digest[..content.len()].copy_from_slice(content.as_bytes());
    Attachment {
        name: name.to_owned(),
        media_type: "text/plain".to_owned(),
        digest: FileDigest::new(digest),
        bytes,
    }
}

#[tokio::test(start_paused = true)]
async fn large_files_are_fetched_by_owner_only() {
    let world = World::new().await;
    world.gives("ann", says("make files")).await;
    let files = vec![
        file("small.txt", "tck", 3),
        file("long.txt", "so long", 300 * 1024),
        file("gone.txt", "", 3),
    ];
    world.answers_with("m1", "two files", files).await;
    let task = world.task("ann", "e1").await;
    let parts = &task["artifacts"][0]["parts"];
    assert_eq!(parts[0], json!({"text": "two files"}));
    let small = json!({"raw": "dGNr", "filename": "small.txt", "mediaType": "text/plain"});
    assert_eq!(parts[1], small);
    assert_eq!(parts[2]["filename"], "long.txt");
    let url = parts[2]["url"].as_str().unwrap();
    let path = url.strip_prefix("http://127.0.0.1:4141").unwrap();
    assert_eq!(path, "/a2a/tasks/e1/files/m1/1");
    let fetched = world
        .call(super::by("ann", "GET", path), String::new())
        .await;
    assert_eq!(fetched.text, "so long");
    assert_eq!(fetched.header("content-type"), "text/plain");
    assert_eq!(fetched.header("content-disposition"), "attachment");
    assert_eq!(fetched.header("x-content-type-options"), "nosniff");
    for (who, path) in [
        ("bob", path),
        ("ann", "/a2a/tasks/e1/files/m1/9"),
        ("ann", "/a2a/tasks/e1/files/m9/0"),
        (
            "ann",
            parts[3]["url"]
                .as_str()
                .unwrap()
                .trim_start_matches("http://127.0.0.1:4141"),
        ),
    ] {
        let refused = world.call(super::by(who, "GET", path), String::new()).await;
        assert_eq!(refused.status, 404, "{who} {path}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_json_is_data() {
    let world = World::new().await;
    world.gives("ann", says("as json")).await;
    world
        .answers("m1", "```json\n{\"key\": \"value\"}\n```")
        .await;
    let task = world.task("ann", "e1").await;
    let part = &task["artifacts"][0]["parts"][0];
    assert_eq!(
        *part,
        json!({"data": {"key": "value"}, "mediaType": "application/json"})
    );
}
