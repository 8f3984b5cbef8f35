//! Finding things over the API of the built daemon: by a part of an id, by a conversation, and what the figures say of
//! Codex itself.

use crate::world::{World, gone, kill_9, within};
use reqwest::Client;
use serde_json::Value;

const SERVED: &str = "[http]\nlisten = \"127.0.0.1:0\"\n";

struct Reader {
    client: Client,
    base: String,
    token: String,
}

impl Reader {
    async fn of(world: &World) -> Self {
        let address = std::fs::read_to_string(world.state_dir().join("listen")).unwrap();
        Self {
            client: Client::builder().tls_certs_only([]).build().unwrap(),
            base: format!("http://{}", address.trim()),
            token: world.owner_token().await,
        }
    }

    async fn text(&self, path: &str) -> String {
        let call = self.client.get(format!("{}{path}", self.base));
        let call = call.bearer_auth(&self.token).send();
        let response = within("an answer", call).await.unwrap();
        response.text().await.unwrap()
    }

    async fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.text(path).await).unwrap()
    }

    /// What a reference names: short ids with their conversations.
    async fn finds(&self, reference: &str) -> Vec<(String, String)> {
        let found = self.json(&format!("/v1/find?ref={reference}")).await;
        let candidates = found["candidates"].as_array().unwrap().iter();
        let word = |one: &Value, key: &str| one[key].as_str().unwrap().to_owned();
        let pairs = candidates.map(|one| (word(one, "short_id"), word(one, "conversation")));
        pairs.collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn references_and_logs_find_messages() {
    let world = World::with_settings(SERVED).await;
    let daemon = world.daemon().await;
    let reader = Reader::of(&world).await;
    for (conversation, text) in [
        ("main", "echo:one"),
        ("other", "echo:two\nmore"),
        ("main", "echo:three"),
    ] {
        world.ask(conversation, text).await;
    }
    let log = reader
        .json("/v1/messages?conversation=main&after=start&limit=1")
        .await;
    let first = &log["messages"][0];
    assert_eq!(
        (&first["text"], &first["phase"]),
        (&"echo:one".into(), &"done".into())
    );
    let next = log["next"].as_str().unwrap();
    let rest = reader
        .json(&format!("/v1/messages?conversation=main&after={next}"))
        .await;
    assert_eq!(rest["messages"].as_array().unwrap().len(), 1, "{rest:#}");
    assert_eq!(rest["messages"][0]["answer"]["text"], "three");

    let list = reader.json("/v1/conversations").await;
    let line = |n: usize| {
        let one = &list["conversations"][n];
        ["key", "phase", "line", "channel"].map(|key| one[key].as_str().unwrap().to_owned())
    };
    assert_eq!(line(0), ["main", "done", "echo:three", "local"]);
    assert_eq!(line(1), ["other", "done", "echo:two", "local"]);
    assert_eq!(list["conversations"][0]["open_requests"], 0);
    let page = reader.json("/v1/conversations?limit=1").await;
    let before = page["next"].as_str().unwrap();
    let older = reader
        .json(&format!("/v1/conversations?before={before}"))
        .await;
    assert_eq!(older["conversations"][0]["key"], "other");

    let id = first["message_id"].as_str().unwrap();
    let short = &id[id.len() - 8..];
    let mine = vec![(short.to_owned(), "main".to_owned())];
    for reference in [id, short, &id[id.len() - 6..], &id.to_uppercase()] {
        assert_eq!(reader.finds(reference).await, mine, "{reference}");
    }
    let newest = reader.finds("main").await;
    assert_ne!(newest, mine);
    assert_eq!(reader.finds(&id[..6]).await.len(), 3);
    assert_eq!(reader.finds("nothing").await, []);
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_lives_of_codex() {
    let world = World::with_settings(SERVED).await;
    let daemon = world.daemon().await;
    let reader = Reader::of(&world).await;
    world.ask("a", "echo:one").await;
    let figures = reader.text("/metrics").await;
    assert!(
        figures.contains("codex_bridge_codex_starts_total 1\n"),
        "{figures}"
    );
    assert!(
        figures.contains("codex_bridge_codex_ends_total 0\n"),
        "{figures}"
    );
    let pid = world.codex_pid();
    kill_9(pid);
    gone(pid).await;
    world.ask("a", "echo:two").await;
    let figures = reader.text("/metrics").await;
    assert!(
        figures.contains("codex_bridge_codex_starts_total 2\n"),
        "{figures}"
    );
    assert!(
        figures.contains("codex_bridge_codex_ends_total 1\n"),
        "{figures}"
    );
    assert_eq!(daemon.stop().await, Some(0));
}
