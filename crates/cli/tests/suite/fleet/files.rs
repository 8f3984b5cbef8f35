//! Files of messages and answers are on every node: what one took in or made is read on another, also when the first one is
//! gone with its disk.

use super::Fleet;
use crate::a2a_agent::{Agent, SERVED, said};
use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const FREE_PEERS: &str = "[tiers.peer]\nprofile = \"workspace-agent\"\nreads = \"disk\"\n";
/// Puts a file where the instructions say: in a conversation's own directory, whose name is the conversation's id.
const PUT: &str =
    "shell:d=outbox/$(basename \"$PWD\"); mkdir -p $d && printf made > $d/result.txt ;; echo:sent";

#[tokio::test]
async fn dead_nodes_file_reaches_turn_elsewhere() {
    let fleet = Fleet::new().await.with_short_lease();
    let (a, b) = (fleet.node("a"), fleet.node("b"));
    let on_a = a.daemon().await;
    let (_first, _) = a.sends("hold:gate echo:first").await;
    fleet.world.model.wait_held("gate").await.unwrap();
    // Longer than two pieces in the database.
    let bytes: Vec<u8> = (0..2_500_000_u32)
        .flat_map(u32::to_le_bytes)
        .step_by(4)
        .collect();
    let file = fleet.world.path().join("sent.bin");
    std::fs::write(&file, &bytes).unwrap();
    let text = "shell:sha256sum attachments/*/sent.bin ;; echo:read";
    let path = file.display().to_string();
    let args = ["send", "--conversation", "main", "--file", &path, text];
    let mut send = a.start(&args).await;
    let message_id = send.on_disk().await;
    let on_b = b.daemon().await;
    a.dies(on_a).await;
    a.loses_its_disk();
    fleet.world.model.release("gate");
    let shown = b.finished(&message_id).await;
    assert_eq!(shown["answer"]["text"], "read", "{shown:#}");
    let requests = fleet.world.model.requests();
    let printed: String = requests.into_iter().flat_map(|seen| seen.outputs).collect();
    let digest = HEXLOWER.encode(&Sha256::digest(&bytes));
    assert!(printed.contains(&digest), "{printed}");
    assert_eq!(on_b.stop().await, Some(0));
}

#[tokio::test]
async fn dead_nodes_answer_file_is_downloaded_elsewhere() {
    let fleet = Fleet::with_settings(&format!("{SERVED}{FREE_PEERS}")).await;
    let fleet = fleet.with_short_lease();
    let (a, b) = (fleet.node("a"), fleet.node("b"));
    let on_b = b.daemon().await;
    let added = b.run(&["peers", "add", "ann"]).await;
    let token = added.stdout.trim();
    let task = Agent::at(&b.state_dir(), token)
        .send(said("m", PUT, &json!({})))
        .await;
    let on_a = a.daemon().await;
    b.dies(on_b).await;
    b.loses_its_disk();
    let (id, message) = (&task["id"], &task["artifacts"][0]["artifactId"]);
    let [id, message] = [id, message].map(|id| id.as_str().unwrap());
    let ann = Agent::at(&a.state_dir(), token);
    let path = format!("/a2a/tasks/{id}/files/{message}/0");
    let (status, text) = ann.answer(ann.call("GET", &path)).await;
    assert_eq!((status.as_u16(), text.as_str()), (200, "made"), "{task:#}");
    let shown = a.json(&["show", "--json", message]).await;
    let Value::String(copy) = &shown["answer"]["files"][0]["path"] else {
        panic!("{shown:#}");
    };
    assert!(copy.starts_with(&a.state_dir().display().to_string()));
    assert_eq!(std::fs::read_to_string(copy).unwrap(), "made");
    assert_eq!(fleet.rows("SELECT count(*) FROM codex_bridge.file"), "1");
    assert_eq!(on_a.stop().await, Some(0));
}
