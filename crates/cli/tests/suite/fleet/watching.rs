//! What a turn writes on one node is seen on another, also when the first one dies.

use super::{Fleet, Node};
use crate::a2a_wire::{SETTINGS, Wire, assembled, said, text_of};
use crate::world::within;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

/// `watch --json` of one message on one node.
struct Watch {
    _child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    told: Vec<Value>,
}

impl Watch {
    fn on(node: &Node<'_>, message_id: &str) -> Self {
        let mut command = node.command(&["watch", "--json", message_id]);
        let mut child = command.spawn().unwrap();
        Self {
            lines: BufReader::new(child.stdout.take().unwrap()).lines(),
            _child: child,
            told: Vec::new(),
        }
    }

    async fn next(&mut self) -> Option<&Value> {
        let line = within("a line", self.lines.next_line()).await.unwrap()?;
        self.told.push(serde_json::from_str(&line).unwrap());
        self.told.last()
    }

    /// Reads until Codex has written this much.
    async fn until(&mut self, text: &str) {
        loop {
            match self.next().await {
                Some(told) if told["event"] == "text" && told["data"]["text"] == text => return,
                Some(_) => {}
                None => panic!("it ended before: {:#?}", self.told),
            }
        }
    }

    async fn read_to_end(&mut self) {
        while self.next().await.is_some() {}
    }

    fn texts(&self) -> Vec<&str> {
        let texts = self.told.iter().filter(|told| told["event"] == "text");
        texts
            .filter_map(|told| told["data"]["text"].as_str())
            .collect()
    }

    /// The numbers of what may not be lost.
    fn numbers(&self) -> Vec<usize> {
        let ids = self.told.iter().filter_map(|told| told["id"].as_str());
        let ids = ids.filter(|id| !id.is_empty());
        ids.map(|id| id.parse().unwrap()).collect()
    }
}

#[tokio::test]
async fn watch_survives_another_nodes_death() {
    let fleet = Fleet::new().await.with_short_lease();
    let (a, b, c) = (fleet.node("a"), fleet.node("b"), fleet.node("c"));
    // Longer than some notes between nodes.
    let answer = (0..600).map(|n| format!("word {n}, ")).collect::<String>() + "and no more.";
    let (half, _) = answer.split_at(answer.len() / 2);
    let on_b = b.daemon().await;
    let (_send, message_id) = b.sends(&format!("pause:gate echo:{answer}")).await;
    fleet.world.model.wait_held("gate").await.unwrap();
    let (on_a, on_c) = (a.daemon().await, c.daemon().await);
    let person = a.start(&["watch", &message_id]).await;
    let mut watch = Watch::on(&a, &message_id);
    watch.until(half).await;
    let mut late = Watch::on(&c, &message_id);
    late.until(half).await;
    b.dies(on_b).await;
    for watch in [&mut watch, &mut late] {
        // The second turn, wherever it runs, is as far.
        watch.until(half).await;
    }
    fleet.world.model.release("gate");
    for watch in [&mut watch, &mut late] {
        watch.read_to_end().await;
        let texts = watch.texts();
        assert!(texts.iter().all(|text| answer.starts_with(text)));
        let lengths: Vec<usize> = texts.iter().map(|text| text.len()).collect();
        let begun_again = lengths.windows(2).filter(|pair| pair[1] < pair[0]);
        assert!(
            begun_again.count() <= 1,
            "only with the second turn: {lengths:?}"
        );
        let numbers = watch.numbers();
        assert_eq!(numbers, (1..=numbers.len()).collect::<Vec<_>>());
        let end = watch.told.last().unwrap();
        assert_eq!(
            (&end["event"], &end["data"]["answer"]["text"]),
            (&"end".into(), &(*answer).into())
        );
    }
    let person = person.ended().await;
    person.must(0, &[]);
    assert_eq!(person.stdout.matches(&answer).count(), 1, "{person:?}");
    assert_eq!(on_a.stop().await, Some(0));
    assert_eq!(on_c.stop().await, Some(0));
}

const ANSWER: &str = "The first half of the answer, and then the second half of it.";

#[tokio::test(flavor = "multi_thread")]
async fn a2a_stream_survives_another_nodes_death() {
    let fleet = Fleet::with_settings(SETTINGS).await.with_short_lease();
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
