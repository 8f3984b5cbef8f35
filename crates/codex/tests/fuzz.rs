//! Golden lines, bent in every way a seeded generator can think of.
//!
//! Nothing may panic, and what comes out stays bounded. A failing case prints its seed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;

use bridge_codex::frame::LineReader;
use bridge_codex::link::{Link, LinkEvent, LinkOptions, MAX_COUNTED_METHODS};
use bridge_codex::oracle::{Wanted, history};
use bridge_codex::turn::TurnFold;
use bridge_codex::wire::{Item, Notification, ServerRequest, Turn};
use bridge_core::value::{ClientId, ThreadId, TurnId};
use serde_json::{Value, json};

/// Bent lines per golden line.
const ROUNDS: u64 = 40;

/// Prints the seed when its round panics.
struct TellSeed(u64);

impl Drop for TellSeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}", self.0);
        }
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

fn golden() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "jsonl"))
        .collect();
    paths.sort();
    let texts = paths
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap());
    let messages: Vec<Value> = texts
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .map(|line| serde_json::from_str::<Value>(&line).unwrap()["msg"].take())
        .collect();
    assert!(messages.len() > 250, "the golden transcripts are there");
    messages
}

/// Replaces, removes or doubles one random node.
fn bend(value: &mut Value, random: &mut Random) {
    match value {
        Value::Object(members) if !members.is_empty() && random.below(8) > 0 => {
            let key = members
                .keys()
                .nth(random.below(members.len()))
                .unwrap()
                .clone();
            match random.below(6) {
                0 => drop(members.remove(&key)),
                1 => drop(members.insert(format!("{key}\u{7}é"), odd(random))),
                _ => bend(&mut members[&key], random),
            }
        }
        Value::Array(items) if !items.is_empty() && random.below(8) > 0 => {
            let index = random.below(items.len());
            match random.below(4) {
                0 => items.insert(0, odd(random)),
                _ => bend(&mut items[index], random),
            }
        }
        other => *other = odd(random),
    }
}

fn odd(random: &mut Random) -> Value {
    match random.below(10) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(-1),
        3 => json!(u64::MAX),
        4 => json!(1.5e300),
        5 => json!(""),
        6 => json!("\u{0}\u{202e}é\n\r\t'`".repeat(200)),
        7 => json!([]),
        8 => json!({"type": "other", "id": 7}),
        _ => json!([[[{"a": [null, 1]}]]]),
    }
}

fn bend_bytes(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len());
        match random.below(4) {
            0 => bytes[at] = random.next() as u8,
            1 => bytes.truncate(at),
            2 => bytes.insert(at, b"\n\"\\{}[]\xff\0"[random.below(9)]),
            _ => drop(bytes.remove(at)),
        }
    }
}

fn digest(link: &mut Link, fold: &mut TurnFold, text: &str) {
    match link.handle(text, 0) {
        LinkEvent::Request(request) => digest_request(link, &request),
        LinkEvent::Notification(notification) => {
            fold.concerns(&notification);
            fold.apply(&notification);
            digest_items(&notification);
        }
        LinkEvent::Response { result, .. } => {
            if let Ok(value) = result {
                digest_history(&value);
            }
        }
        LinkEvent::Ignored(_) => {}
    }
}

fn digest_request(link: &Link, request: &ServerRequest) {
    assert!(request.headline().len() <= 160);
    for outcome in [request.decline(), request.cancel()] {
        let text = link.respond(&request.id, outcome);
        assert!(!text.contains('\n'));
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["id"], Value::from(request.id.clone()));
    }
    let _ = (request.accept(), request.accept_for_session());
}

fn digest_items(notification: &Notification) {
    if let Notification::ItemStarted(notice) | Notification::ItemCompleted(notice) = notification {
        assert!(notice.item.headline().len() <= 160);
        if let Item::Other(_) = notice.item {
            assert!(notice.item.is_effect());
        }
    }
}

fn digest_history(value: &Value) {
    for turns in [
        &value["thread"]["turns"],
        &value["data"],
        &value["initialTurnsPage"]["data"],
    ] {
        if let Ok(turns) = serde_json::from_value::<Vec<Turn>>(turns.clone()) {
            for turn in &turns {
                look(&turns, "m5.1", Some(&turn.id));
            }
            look(&turns, "e4.1", None);
        }
    }
}

fn fold_for(message: &Value) -> TurnFold {
    let thread_id = message["params"]["threadId"].as_str().unwrap_or("t");
    TurnFold::new(ThreadId::new(thread_id), None, None)
}

#[test]
fn bent_golden_lines_never_panic() {
    let messages = golden();
    let mut link = Link::new(LinkOptions::default());
    let mut fold = fold_for(&Value::Null);
    for (index, message) in messages.iter().enumerate() {
        if message["method"] == "turn/started" {
            fold = fold_for(message);
        }
        for round in 0..ROUNDS {
            let seed = (index as u64 + 1) * 1_000_003 + round;
            let _seed = TellSeed(seed);
            let mut random = Random(seed);
            let mut bent = message.clone();
            for _ in 0..=random.below(3) {
                bend(&mut bent, &mut random);
            }
            digest(&mut link, &mut fold, &bent.to_string());
            digest_history(&bent["result"]);
            digest(&mut link, &mut fold, &message.to_string());
        }
    }
    assert!(link.counters().unknown_notifications.len() <= MAX_COUNTED_METHODS + 1);
}

#[test]
fn bent_bytes_never_panic() {
    let messages = golden();
    let mut link = Link::new(LinkOptions::default());
    let mut lines = 0;
    for (index, message) in messages.iter().enumerate() {
        let mut fold = fold_for(message);
        for round in 0..ROUNDS / 4 {
            let seed = (index as u64 + 1) * 7_000_003 + round;
            let _seed = TellSeed(seed);
            let mut random = Random(seed);
            let mut bytes = message.to_string().into_bytes();
            bend_bytes(&mut bytes, &mut random);
            bytes.push(b'\n');
            let mut reader = LineReader::default();
            let cut = random.below(bytes.len());
            let (left, right) = bytes.split_at(cut);
            for text in reader
                .feed(left)
                .into_iter()
                .chain(reader.feed(right))
                .flatten()
            {
                lines += 1;
                digest(&mut link, &mut fold, &text);
            }
            assert_eq!(reader.finish(), None, "the stream ended with a line feed");
        }
    }
    assert!(lines > messages.len() && link.counters().malformed_lines > 0);
}

fn look(turns: &[Turn], client_id: &str, after: Option<&TurnId>) {
    let (client_id, turn_id) = (ClientId::new(client_id), turns.last().map(|turn| &turn.id));
    for turn_id in [None, turn_id] {
        let wanted = Wanted {
            client_id: &client_id,
            turn_id,
            after,
        };
        drop(history(turns, wanted));
    }
}
