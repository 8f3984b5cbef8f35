//! What a turn writes on one node is seen on another, also when the first one dies.

use super::{Fleet, Node};
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
    let (_send, message_id) = b.sends("say:here I am ;; hold:gate echo:the answer").await;
    fleet.world.model.wait_held("gate").await.unwrap();
    let on_a = a.daemon().await;
    let mut news = News::of(&a, &message_id).await;
    assert!(news.until("here I am").await, "{}", news.text);
    b.dies(on_b).await;
    fleet.world.model.release("gate");
    assert!(news.until("event: end").await, "{}", news.text);
    assert!(news.text.contains("the answer"), "{}", news.text);
    assert_eq!(on_a.stop().await, Some(0));
}
