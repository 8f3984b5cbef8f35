//! The feed: order, cursors, filters, and rows that no well-behaved platform would write.

use std::time::Duration;

use bridge_sim::molecule::{Edition, Said, SaidFile};
use reqwest::Method;
use serde_json::json;

use crate::rig::{Rig, texts};

#[tokio::test]
async fn cursor_pages_oldest_first_otherwise_newest() {
    for edition in [Edition::Seed, Edition::New] {
        let rig = Rig::start(edition).await;
        let rows: Vec<String> = ["one", "two", "three"]
            .iter()
            .map(|text| rig.platform.canvas_says(&rig.alpha, text).unwrap())
            .collect();
        assert_eq!(
            texts(&rig.page(&rig.alpha, "?limit=2").await),
            ["three", "two"]
        );
        let after = format!("?since_id={}", rows[0]);
        assert_eq!(texts(&rig.page(&rig.alpha, &after).await), ["two", "three"]);
        let last = format!("?since_id={}", rows[2]);
        assert!(rig.page(&rig.alpha, &last).await.is_empty());
        assert!(rig.page(&rig.beta, "").await.is_empty());
    }
}

#[tokio::test]
async fn seed_cursor_skips_simultaneous_rows() {
    for (edition, after) in [
        (Edition::Seed, vec![]),
        (Edition::New, vec!["two", "three"]),
    ] {
        let rig = Rig::start(edition).await;
        let said = rig
            .platform
            .canvas_says_at_once(&rig.alpha, &["one", "two", "three"]);
        let query = format!("?since_id={}", said.unwrap()[0]);
        assert_eq!(texts(&rig.page(&rig.alpha, &query).await), after);
    }
}

#[tokio::test]
async fn sequence_numbers_exist_only_in_new_edition() {
    let rig = Rig::start(Edition::New).await;
    for text in ["one", "two"] {
        rig.platform.canvas_says(&rig.alpha, text).unwrap();
    }
    let page = rig.page(&rig.alpha, "").await;
    assert_eq!((&page[1]["seq"], &page[0]["seq"]), (&json!(1), &json!(3)));
    let rig = Rig::start(Edition::Seed).await;
    rig.platform.canvas_says(&rig.alpha, "one").unwrap();
    assert!(rig.page(&rig.alpha, "").await[0].get("seq").is_none());
}

#[tokio::test]
async fn pruned_cursor_returns_410() {
    let rig = Rig::start(Edition::New).await;
    let old = rig.platform.canvas_says(&rig.alpha, "old").unwrap();
    rig.platform.canvas_says(&rig.alpha, "new").unwrap();
    rig.platform.prune(&rig.alpha, 1);
    let (status, _) = rig
        .page_status(&rig.alpha, &format!("?since_id={old}"))
        .await;
    assert_eq!(status, 410);
    assert_eq!(texts(&rig.page(&rig.alpha, "").await), ["new"]);
}

#[tokio::test]
async fn retention_deletes_acknowledged_rows_first() {
    let rig = Rig::start(Edition::New).await;
    rig.platform.canvas_says(&rig.alpha, "acked").unwrap();
    rig.platform.canvas_says(&rig.alpha, "unread").unwrap();
    let ack = rig.own(Method::POST, &rig.alpha, "/activity/ack");
    ack.json(&json!({"acked_seq": 1})).send().await.unwrap();
    assert_eq!(rig.platform.acked(&rig.alpha), 1);
    for (days, left) in [
        (6, vec!["unread", "acked"]),
        (2, vec!["unread"]),
        (30, vec![]),
    ] {
        rig.platform.advance(Duration::from_secs(days * 24 * 3_600));
        rig.platform.sweep_retention();
        assert_eq!(texts(&rig.page(&rig.alpha, "").await), left);
    }
}

#[tokio::test]
async fn planted_rows_are_shown_as_they_stand() {
    let rig = Rig::start(Edition::New).await;
    let row = json!({"method": "tasks/get", "id": "not-a-uuid", "request_body": 7});
    rig.platform.plant_row(&rig.alpha, row).unwrap();
    rig.platform
        .plant_raw(&rig.alpha, json!("no row at all"))
        .unwrap();
    let page = rig.page(&rig.alpha, "").await;
    assert_eq!(page[0], json!("no row at all"));
    assert_eq!(page[1]["method"], "tasks/get");
    assert_eq!(page[1]["request_body"], 7);
    assert_eq!(page[1]["workspace_id"], rig.alpha.id.as_str());
    let (status, body) = rig.page_status(&rig.alpha, "?since_id=not-a-uuid").await;
    assert_eq!(
        (status, &body["error"]),
        (500, &json!("cursor lookup failed"))
    );
}

#[tokio::test]
async fn seed_edition_drops_file_after_ack() {
    for (edition, after) in [(Edition::Seed, 404), (Edition::New, 200)] {
        let rig = Rig::start(edition).await;
        let said = Said {
            files: vec![SaidFile {
                name: "a.png".to_owned(),
                media_type: "image/png".to_owned(),
                bytes: b"pixels".to_vec(),
            }],
            context: Some("c1".to_owned()),
            ..Said::text("look")
        };
        rig.platform.canvas_says_with(&rig.alpha, &said).unwrap();
        let page = rig.page(&rig.alpha, "?include=peer_info").await;
        assert_eq!(page[1]["method"], "chat_upload_receive");
        let message = &page[0]["request_body"]["params"]["message"];
        assert_eq!(message["contextId"], "c1");
        let uri = message["parts"][1]["file"]["uri"].as_str().unwrap();
        let file = uri.rsplit('/').next().unwrap();
        let content = format!("/pending-uploads/{file}/content");
        let got = rig
            .own(Method::GET, &rig.alpha, &content)
            .send()
            .await
            .unwrap();
        assert_eq!(got.bytes().await.unwrap().as_ref(), b"pixels");
        let ack = rig.own(
            Method::POST,
            &rig.alpha,
            &format!("/pending-uploads/{file}/ack"),
        );
        assert_eq!(ack.send().await.unwrap().status(), 200);
        assert!(rig.platform.files_of(&rig.alpha)[0].acked);
        let got = rig
            .own(Method::GET, &rig.alpha, &content)
            .send()
            .await
            .unwrap();
        assert_eq!(got.status(), after);
    }
}
