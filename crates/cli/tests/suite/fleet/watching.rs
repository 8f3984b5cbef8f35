//! What a turn writes on one node is seen on another, also when the first one dies.

use super::{Fleet, Node};
use crate::a2a_wire::{SETTINGS, Wire, assembled, said, text_of};
use crate::world::within;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// A stream of news of one message, as a client of this node gets it.
struct News {
    stream: UnixStream,
    text: String,
}

impl News {
    async fn of(node: &Node<'_>, message_id: &str) -> Self {
        let socket = node.state_dir().join("api.sock");
        let mut stream = UnixStream::connect(socket).await.unwrap();
        let ask = format!(
            "GET /v1/messages/{message_id}/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(ask.as_bytes()).await.unwrap();
        let text = String::new();
        Self { stream, text }
    }

    /// Reads until these words came; false where the stream ends before.
    async fn until(&mut self, words: &str) -> bool {
        let mut part = vec![0; 4096];
        while !self.text.contains(words) {
            let read = self.stream.read(&mut part);
            let bytes = within(words, read).await.unwrap();
            if bytes == 0 {
                return false;
            }
            self.text.push_str(&String::from_utf8_lossy(&part[..bytes]));
        }
        true
    }
}

#[tokio::test]
async fn other_nodes_see_what_codex_writes() {
    let fleet = Fleet::new().await;
    let (a, b) = (fleet.node("a"), fleet.node("b"));
    let on_b = b.daemon().await;
    let text = "pause:gate echo:The first half of the answer, and the second half.";
    let (_send, message_id) = b.sends(text).await;
    fleet.world.model.wait_held("gate").await.unwrap();
    let on_a = a.daemon().await;
    let mut news = News::of(&a, &message_id).await;
    assert!(news.until("The first half").await, "{}", news.text);
    b.dies(on_b).await;
    fleet.world.model.release("gate");
    assert!(news.until("event: end").await, "{}", news.text);
    assert!(news.text.contains("the second half."), "{}", news.text);
    assert_eq!(on_a.stop().await, Some(0));
}

const ANSWER: &str = "The first half of the answer, and then the second half of it.";

#[tokio::test(flavor = "multi_thread")]
async fn a2a_stream_survives_another_nodes_death() {
    let fleet = Fleet::with_settings(SETTINGS).await;
    let (a, b) = (fleet.node("a"), fleet.node("b"));
    let on_b = b.daemon().await;
    let token = b
        .run(&["token", "add", "peer", "--scope", "admin,a2a"])
        .await;
    let token = token.stdout.trim().to_owned();
    let text = format!("hold:begin phase:final_answer pause:gate echo:{ANSWER}");
    let wire = Wire::at(&b.state_dir(), token.clone());
    let mut begun = wire.stream(said("m-1", &text)).await;
    begun.next().await.unwrap();
    let on_a = a.daemon().await;
    let wire = Wire::at(&a.state_dir(), token);
    let mut events = wire.subscribe(&begun.task_id(), None).await;
    events.next().await.unwrap();
    fleet.world.model.release("begin");
    let is_chunk = |event: &serde_json::Value| !event["artifactUpdate"].is_null();
    events.until(is_chunk).await;
    b.dies(on_b).await;
    fleet.world.model.release("gate");
    let id = begun.task_id();
    let told = events.rest().await;
    assert_eq!(assembled(&told), ANSWER, "{told:#?}");
    let mut numbers = told.iter().map(|told| told.seq);
    let first = numbers.next().unwrap();
    assert!(
        numbers
            .enumerate()
            .all(|(place, seq)| seq == first + place as u64 + 1),
        "{told:#?}"
    );
    let task = wire.task(&id).await;
    assert_eq!(text_of(&task["artifacts"]), ANSWER, "{task:#}");
    assert_eq!(on_a.stop().await, Some(0));
}
