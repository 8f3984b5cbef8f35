//! Random histories of coalesced, lost, replaced and interrupted output and of restarts: what a subscriber assembles
//! from snapshots and events is the final task, and all subscribers get the same events under the same numbers.

use super::draft::Drafts;
use super::publisher::TaskPublisher;
use super::replay::{BufferRead, ReplayBuffer};
use super::snapshot::Snapshot;
use super::{TaskId, make_room};
use crate::a2a::extension::SEQUENCE_KEY as SEQUENCE;
use crate::a2a::task::answer_parts;
use a2a::{Artifact, Part, PartContent, StreamResponse, Task, TaskState, TaskStatus};
use bridge_core::port::{Extent, Phase, TextUpdate};
use bridge_core::value::{Answer, AnswerSource, ItemId, MessageId, Timestamp};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Numbers that come again with the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(bound).unwrap()).unwrap()
    }

    fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.below(of.len())]
    }

    fn text(&mut self) -> String {
        let begins = [
            "",
            "{\"a\": 1}",
            "```json\n[1, 2]\n```",
            "{not ",
            "[1",
            "```\n",
        ];
        let words = [
            "alpha ",
            "[",
            "beta\n",
            "\n\n",
            "[input-required]",
            "ß",
            "{}",
            "```",
            "x",
        ];
        let ends = [
            "",
            "",
            "\n[input-required]",
            "\n[rejected]\n",
            "[message]",
            "\n",
        ];
        let mut text = self.one(&begins).to_owned();
        for _ in 0..self.below(8) {
            text.push_str(self.one(&words));
        }
        text + self.one(&ends)
    }
}

/// The task that one subscriber has assembled.
#[derive(Default)]
struct Client {
    position: u64,
    artifacts: BTreeMap<String, Vec<Part>>,
    last_chunks: BTreeMap<String, bool>,
    state: Option<TaskState>,
    events: BTreeMap<u64, StreamResponse>,
}

impl Client {
    fn take(&mut self, seq: u64, event: &StreamResponse) {
        match event {
            StreamResponse::Task(task) => {
                let artifacts = task.artifacts.iter().flatten();
                self.artifacts = artifacts
                    .map(|one| (one.artifact_id.clone(), one.parts.clone()))
                    .collect();
                self.last_chunks.clear();
                self.state = Some(task.status.state.clone());
                assert_eq!(task.metadata.as_ref().unwrap()[SEQUENCE], seq);
            }
            StreamResponse::StatusUpdate(update) => {
                self.state = Some(update.status.state.clone());
                assert_eq!(update.metadata.as_ref().unwrap()[SEQUENCE], seq);
            }
            StreamResponse::ArtifactUpdate(update) => {
                assert_eq!(update.metadata.as_ref().unwrap()[SEQUENCE], seq);
                let id = update.artifact.artifact_id.clone();
                assert!(!update.artifact.parts.is_empty());
                let parts = self.artifacts.entry(id.clone()).or_default();
                if update.append != Some(true) {
                    parts.clear();
                }
                parts.extend(update.artifact.parts.clone());
                self.last_chunks.insert(id, update.last_chunk == Some(true));
            }
            StreamResponse::Message(_) => panic!("a message in a task's stream"),
        }
        self.position = seq;
    }

    fn drain(&mut self, replay: &ReplayBuffer, most: usize) -> bool {
        for _ in 0..most {
            match replay.after(self.position) {
                BufferRead::Next(event) => {
                    assert_eq!(event.sequence, self.position + 1, "a gap");
                    self.events.insert(event.sequence, (*event.event).clone());
                    self.take(event.sequence, &event.event);
                }
                BufferRead::Pending | BufferRead::End => return true,
                BufferRead::Lost => return false,
            }
        }
        true
    }

    /// Text in one piece, and whatever else there is.
    fn assembled(&self) -> BTreeMap<String, (String, Vec<Part>)> {
        let artifacts = self.artifacts.iter();
        let all = artifacts.map(|(id, parts)| (id.clone(), joined(parts)));
        all.filter(|(_, (text, rest))| !text.is_empty() || !rest.is_empty())
            .collect()
    }
}

fn joined(parts: &[Part]) -> (String, Vec<Part>) {
    let text = parts.iter().filter_map(Part::as_text).collect();
    let others = parts
        .iter()
        .filter(|part| !matches!(part.content, PartContent::Text(_)));
    (text, others.cloned().collect())
}

/// A publisher without its daemon.
struct Stage {
    dice: Dice,
    rows: Arc<Task>,
    snapshot: Snapshot,
    drafts: Drafts,
    replay: ReplayBuffer,
    /// The highest number that may have been used.
    reserved: u64,
    clients: [Client; 3],
}

const MESSAGE: &str = "m";

impl Stage {
    fn new(seed: u64) -> Self {
        let rows = Arc::new(Task {
            id: "t".to_owned(),
            context_id: "c".to_owned(),
            status: TaskStatus {
                state: TaskState::Working,
                message: None,
                timestamp: None,
            },
            artifacts: Some(Vec::new()),
            history: None,
            metadata: None,
        });
        let drafts = Drafts::default();
        let mut stage = Self {
            dice: Dice(seed),
            snapshot: Snapshot::new(drafts.merge(&rows, Vec::new())),
            drafts,
            replay: ReplayBuffer::default(),
            reserved: 0,
            rows,
            clients: Default::default(),
        };
        stage.restart();
        stage
    }

    /// The daemon begins again: all that is not in rows is gone, and so are the connections.
    fn restart(&mut self) {
        self.reserved += 256;
        self.drafts = Drafts::default();
        self.snapshot = Snapshot::new(self.drafts.merge(&self.rows, Vec::new()));
        self.replay = ReplayBuffer::starting_after(self.reserved);
        for n in 0..self.clients.len() {
            self.subscribe(n);
        }
    }

    fn subscribe(&mut self, client: usize) {
        let seq = self.replay.last();
        let snapshot = self.snapshot.event(seq);
        self.clients[client].take(seq, &snapshot);
        self.assert_known(client);
    }

    /// A subscriber that has every event knows the state of the rows.
    fn assert_known(&self, client: usize) {
        let client = &self.clients[client];
        if client.position == self.replay.last() {
            assert_eq!(client.state.as_ref(), Some(&self.rows.status.state));
        }
    }

    /// Somebody is waited for, or not any more.
    fn turn(&mut self) {
        let states = [
            TaskState::Working,
            TaskState::AuthRequired,
            TaskState::InputRequired,
            TaskState::Submitted,
        ];
        let state = states[self.dice.below(states.len())].clone();
        Arc::make_mut(&mut self.rows).status.state = state;
        let line = self.dice.one(&["", "", "runs a command"]).to_owned();
        self.publish(if line.is_empty() {
            Vec::new()
        } else {
            vec![line]
        });
    }

    fn publish(&mut self, progress: Vec<String>) {
        let now = self.drafts.merge(&self.rows, progress);
        let events = self.snapshot.update(now, self.replay.last() + 1);
        self.replay.push(events);
        self.reserved = self.reserved.max(self.replay.last());
        for n in 0..self.clients.len() {
            match self.dice.below(8) {
                0 => self.subscribe(n),
                pace => {
                    if !self.clients[n].drain(&self.replay, pace - 1) {
                        self.subscribe(n);
                    }
                    self.assert_known(n);
                }
            }
        }
    }

    /// Codex writes one message; its updates are coalesced, cut off or begun in the middle.
    fn write(&mut self, item: usize, text: &str, phase: Phase) {
        let mut begun = 0;
        let mut at = 0;
        while at < text.len() {
            at = text.ceil_char_boundary(at + 1 + self.dice.below(6));
            match self.dice.below(12) {
                0 => {
                    self.restart();
                    begun = at;
                }
                1 => continue,
                2 => self.turn(),
                _ => {}
            }
            let extent = match begun {
                0 => Extent::Head,
                _ => Extent::Middle,
            };
            self.apply(item, phase, extent, &text[begun..at]);
            if self.dice.below(40) == 0 {
                return;
            }
        }
        self.apply(item, phase, Extent::Whole, text);
    }

    fn apply(&mut self, item: usize, phase: Phase, extent: Extent, text: &str) {
        // What may be a secret is taken out while it is written, and put back when it is none.
        let redacted = match self.dice.below(15) {
            0 if extent != Extent::Whole => format!("{text}[withheld]"),
            _ => text.to_owned(),
        };
        let update = TextUpdate {
            item_id: ItemId::new(item.to_string()),
            phase,
            extent,
            text: redacted,
        };
        let line = self.drafts.apply(&MessageId::new(MESSAGE), &update);
        self.publish(line.into_iter().collect());
    }

    /// The turn is cut, and begins again later.
    fn cut(&mut self) {
        self.drafts = Drafts::default();
        self.publish(Vec::new());
    }

    fn answer(&mut self, text: &str) {
        let answer = Answer {
            message_id: MessageId::new(MESSAGE),
            attempt: 1,
            source: AnswerSource::Live,
            text: text.to_owned(),
            created_at: Timestamp(0),
        };
        let parts = answer_parts(&answer);
        let artifact = Artifact {
            artifact_id: MESSAGE.to_owned(),
            name: Some("answer".to_owned()),
            description: None,
            parts,
            metadata: None,
            extensions: None,
        };
        let made = Some(artifact).filter(|one| !one.parts.is_empty());
        let rows = Arc::make_mut(&mut self.rows);
        rows.artifacts = Some(made.into_iter().collect());
        rows.status.state = TaskState::Completed;
        self.drafts = Drafts::default();
        self.publish(Vec::new());
        self.replay.close();
    }

    fn play(&mut self) {
        for item in 0..self.dice.below(4) {
            let text = self.dice.text();
            let phase = match self.dice.below(3) {
                0 => Phase::Commentary,
                _ => Phase::Unmarked,
            };
            self.write(item, &text, phase);
            if self.dice.below(6) == 0 {
                self.cut();
            }
        }
        let text = self.dice.text();
        self.write(9, &text, Phase::Final);
        // The answer may say more than the message did, or something else.
        let answer = match self.dice.below(6) {
            0 => format!("first\n\n{text}"),
            1 => format!("{text}\n\n(a file was too long)"),
            2 => String::new(),
            _ => text,
        };
        self.answer(&answer);
    }
}

#[test]
fn assembled_stream_equals_final_answer() {
    for seed in 0..2_000 {
        let mut stage = Stage::new(seed);
        stage.play();
        let want: BTreeMap<String, (String, Vec<Part>)> = stage
            .rows
            .artifacts
            .iter()
            .flatten()
            .map(|one| (one.artifact_id.clone(), joined(&one.parts)))
            .collect();
        let mut seen: BTreeMap<u64, StreamResponse> = BTreeMap::new();
        for n in 0..stage.clients.len() {
            while !stage.clients[n].drain(&stage.replay, usize::MAX) {
                stage.subscribe(n);
            }
            let client = &stage.clients[n];
            assert_eq!(client.assembled(), want, "seed {seed}, client {n}");
            assert_eq!(client.state, Some(TaskState::Completed), "seed {seed}");
            assert!(client.last_chunks.values().all(|last| *last), "seed {seed}");
            for (seq, event) in &client.events {
                let same = seen.entry(*seq).or_insert_with(|| event.clone());
                assert_eq!(same, event, "seed {seed}, event {seq}");
            }
        }
    }
}

#[test]
fn growing_answer_is_streamed_once() {
    let mut stage = Stage::new(1);
    let text = "one two three\nfour five six\nseven";
    for at in 1..=text.len() {
        let update = TextUpdate {
            item_id: ItemId::new("i"),
            phase: Phase::Final,
            extent: Extent::Head,
            text: text[..at].to_owned(),
        };
        stage.drafts.apply(&MessageId::new(MESSAGE), &update);
        let now = stage.drafts.merge(&stage.rows, Vec::new());
        let events = stage.snapshot.update(now, stage.replay.last() + 1);
        stage.replay.push(events);
    }
    stage.answer(text);
    let mut client = Client {
        position: 256,
        ..Client::default()
    };
    assert!(client.drain(&stage.replay, usize::MAX));
    let updates: Vec<_> = client
        .events
        .values()
        .filter_map(|event| match event {
            StreamResponse::ArtifactUpdate(update) => Some(update),
            _ => None,
        })
        .collect();
    let streamed: usize = updates
        .iter()
        .flat_map(|update| &update.artifact.parts)
        .filter_map(Part::as_text)
        .map(str::len)
        .sum();
    assert_eq!(streamed, text.len());
    assert!(updates.len() > 10);
    let (first, rest) = updates.split_first().unwrap();
    assert_eq!(first.append, Some(false));
    assert!(rest.iter().all(|update| update.append == Some(true)));
    let (last, before) = updates.split_last().unwrap();
    assert_eq!(last.last_chunk, Some(true));
    assert!(before.iter().all(|update| update.last_chunk == Some(false)));
}

#[tokio::test(start_paused = true)]
async fn evicts_oldest_publisher_without_listeners() {
    let mut registry = HashMap::new();
    let new = |n: usize| {
        Arc::new(TaskPublisher::new(
            TaskId::new(n.to_string()),
            String::new(),
        ))
    };
    let publishers = [new(0), new(1), new(2)];
    for publisher in &publishers {
        registry.insert(publisher.task_id().clone(), Arc::clone(publisher));
        publisher.mark_active();
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
    }
    let first = publishers[0].subscribe();
    let fourth = TaskId::new("3");
    assert!(make_room(&mut registry, &fourth, 4));
    assert!(make_room(&mut registry, publishers[0].task_id(), 3));
    assert_eq!(registry.len(), 3, "nobody had to go");
    assert!(make_room(&mut registry, &fourth, 3));
    assert!(publishers[1].replay().is_invalid(), "the oldest idle one");
    assert!(!registry.contains_key(publishers[1].task_id()));
    assert!(!publishers[0].replay().is_invalid() && !publishers[2].replay().is_invalid());
    let third = publishers[2].subscribe();
    assert!(
        !make_room(&mut registry, &fourth, 2),
        "all have subscribers"
    );
    drop((first, third));
    assert!(make_room(&mut registry, &fourth, 2));
}
