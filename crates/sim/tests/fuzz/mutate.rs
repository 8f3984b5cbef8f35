//! Makes inputs of inputs: JSON is changed as JSON where there is some, everything else as bytes.

use bridge_sim::Dice;
use serde_json::{Map, Value, json};

/// The longest input that is made; longer ones only take time.
const INPUT_MAX_BYTES: usize = 256 << 10;
/// How deep a made-up nesting goes: beyond what serde_json reads (128), and enough to overflow a stack that recurses.
const DEPTH_MAX: u64 = 60_000;

/// Makes inputs for one target.
pub(crate) struct Mutator {
    dice: Dice,
    dictionary: &'static [&'static str],
}

impl Mutator {
    pub(crate) fn new(seed: u64, dictionary: &'static [&'static str]) -> Self {
        Self {
            dice: Dice::new(seed),
            dictionary,
        }
    }

    pub(crate) fn pick(&mut self, count: usize) -> usize {
        usize::try_from(self.dice.below(count as u64)).unwrap()
    }

    /// A new input from one, with pieces of another.
    pub(crate) fn make(&mut self, input: &[u8], other: &[u8]) -> Vec<u8> {
        let mut made = input.to_vec();
        for _ in 0..self.dice.between(1, 3) {
            made = match self.dice.below(10) {
                0..6 => self.change_json(&made, other),
                6..9 => self.change_bytes(made, other),
                _ => self.grow(&made),
            };
        }
        made.truncate(INPUT_MAX_BYTES);
        made
    }

    /// Changes one of the JSON values in the input.
    fn change_json(&mut self, input: &[u8], other: &[u8]) -> Vec<u8> {
        let places = json_in(input);
        let Some((from, to, value)) = places.get(self.pick(places.len())) else {
            return self.change_bytes(input.to_vec(), other);
        };
        let mut value = value.clone();
        let foreign = json_in(other);
        let foreign = foreign.get(self.pick(foreign.len()));
        let foreign = foreign.map_or(&Value::Null, |(_, _, value)| value);
        for _ in 0..self.dice.between(1, 3) {
            self.bend(&mut value, foreign);
        }
        let mut made = input[..*from].to_vec();
        self.write(&value, &mut made);
        made.extend_from_slice(&input[*to..]);
        made
    }

    /// Replaces, removes, doubles or moves one random node.
    fn bend(&mut self, value: &mut Value, foreign: &Value) {
        match value {
            Value::Object(members) if !members.is_empty() && self.dice.below(10) > 0 => {
                let keys: Vec<String> = members.keys().cloned().collect();
                let key = keys[self.pick(keys.len())].clone();
                match self.dice.below(12) {
                    0 => drop(members.remove(&key)),
                    1 => {
                        let moved = members.remove(&key).unwrap();
                        members.insert(self.word(), moved);
                    }
                    2 => drop(members.insert(self.word(), self.odd(foreign))),
                    _ => self.bend(&mut members[&key], foreign),
                }
            }
            Value::Array(items) if !items.is_empty() && self.dice.below(10) > 0 => {
                let at = self.pick(items.len());
                match self.dice.below(8) {
                    0 => drop(items.remove(at)),
                    1 => items.insert(at, items[at].clone()),
                    2 => items.insert(at, self.odd(foreign)),
                    _ => self.bend(&mut items[at], foreign),
                }
            }
            Value::String(text) if self.dice.below(3) > 0 => {
                let mut bytes = std::mem::take(text).into_bytes();
                bytes = self.change_bytes(bytes, b"");
                *text = String::from_utf8_lossy(&bytes).into_owned();
            }
            other => *other = self.odd(foreign),
        }
    }

    fn word(&mut self) -> String {
        let words = self.dictionary;
        match words.get(self.pick(words.len() + 1)) {
            Some(word) => (*word).to_owned(),
            None => "\u{7}é\u{202e}".to_owned(),
        }
    }

    /// A value that nobody expects there.
    fn odd(&mut self, foreign: &Value) -> Value {
        match self.dice.below(18) {
            0 => Value::Null,
            1 => json!(true),
            2 => json!(-1),
            3 => json!(u64::MAX),
            4 => json!(i64::MIN),
            5 => json!(1.5e300),
            6 => json!(""),
            7 => json!("\u{0}\u{202e}é\n\r\t'`\u{1b}[2J".repeat(20)),
            8 => json!([]),
            9 => json!({}),
            10 => json!([[[{"a": [null, 1]}]]]),
            11 => json!(self.dice.roll().to_string()),
            12 => json!("9999-12-31T23:59:59.999999999Z"),
            13..15 => part_of(foreign, &mut self.dice),
            _ => json!(self.word()),
        }
    }

    /// Writes JSON as not everybody does: escapes, blanks, and now and then a key twice.
    fn write(&mut self, value: &Value, out: &mut Vec<u8>) {
        match value {
            Value::Object(members) => self.write_object(members, out),
            Value::Array(items) => {
                out.push(b'[');
                for (n, item) in items.iter().enumerate() {
                    if n > 0 {
                        out.push(b',');
                    }
                    self.write(item, out);
                }
                out.push(b']');
            }
            Value::String(text) if self.dice.chance(15) => {
                let escaped = text.encode_utf16().map(|unit| format!("\\u{unit:04x}"));
                out.extend(format!("\"{}\"", escaped.collect::<String>()).bytes());
            }
            Value::Number(number) if self.dice.chance(30) => {
                out.extend(format!("{number}e1").bytes());
            }
            plain => out.extend(plain.to_string().bytes()),
        }
    }

    fn write_object(&mut self, members: &Map<String, Value>, out: &mut Vec<u8>) {
        out.push(b'{');
        for (n, (key, value)) in members.iter().enumerate() {
            if n > 0 {
                out.push(b',');
            }
            let times = if self.dice.chance(10) { 2 } else { 1 };
            for time in 0..times {
                if time > 0 {
                    out.push(b',');
                }
                self.write(&Value::String(key.clone()), out);
                out.extend(if self.dice.chance(20) { " : " } else { ":" }.bytes());
                self.write(value, out);
            }
        }
        out.push(b'}');
    }

    fn change_bytes(&mut self, mut bytes: Vec<u8>, other: &[u8]) -> Vec<u8> {
        let at = self.pick(bytes.len() + 1);
        let end = at + self.pick((bytes.len() - at).min(40) + 1);
        let word = self.word();
        match self.dice.below(9) {
            0 if at < bytes.len() => bytes[at] = self.dice.roll().to_le_bytes()[0],
            1 => bytes.truncate(at),
            2 => drop(bytes.splice(at..at, word.bytes())),
            3 => drop(bytes.splice(at..end, word.bytes())),
            4 => drop(bytes.drain(at..end)),
            5 => {
                let again = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, again));
            }
            6 => {
                let from = self.pick(other.len() + 1);
                let to = from + self.pick((other.len() - from).min(200) + 1);
                drop(bytes.splice(at..end, other[from..to].iter().copied()));
            }
            7 if at < bytes.len() => bytes[at] ^= 1 << self.dice.below(8),
            _ => {
                let odd = b"\n\r\"\\{}[]:, \0\xff\xc3\x7f%/?#";
                bytes.insert(at, odd[self.pick(odd.len())]);
            }
        }
        bytes
    }

    /// A piece of the input many times over, or a deep nesting.
    fn grow(&mut self, input: &[u8]) -> Vec<u8> {
        let at = self.pick(input.len() + 1);
        let end = at + self.pick((input.len() - at).min(60) + 1);
        let times = self.pick(3_000);
        let piece = match self.dice.below(4) {
            0 => b"[".repeat(self.dice.below(DEPTH_MAX) as usize),
            1 => b"{\"a\":".repeat(self.dice.below(DEPTH_MAX / 4) as usize),
            2 => b"0,".repeat(times),
            _ => input[at..end].repeat(times),
        };
        let mut made = input[..at].to_vec();
        made.extend(piece);
        made.extend_from_slice(&input[end..]);
        made
    }
}

/// Where there is JSON in the input: at its start, and behind line feeds and blanks.
fn json_in(input: &[u8]) -> Vec<(usize, usize, Value)> {
    let mut found = Vec::new();
    let mut from = 0;
    while from < input.len() && found.len() < 20 {
        let opens = matches!(input[from], b'{' | b'[');
        let stands = from == 0 || matches!(input[from - 1], b'\n' | b' ');
        if opens && stands {
            let mut values = serde_json::Deserializer::from_slice(&input[from..]).into_iter();
            if let Some(Ok(value)) = values.next() {
                let to = from + values.byte_offset();
                found.push((from, to, value));
                from = to;
                continue;
            }
        }
        from += 1;
    }
    found
}

/// A random piece of a value.
fn part_of(value: &Value, dice: &mut Dice) -> Value {
    let mut here = value;
    while dice.chance(750) {
        let inside: Vec<&Value> = match here {
            Value::Object(members) => members.values().collect(),
            Value::Array(items) => items.iter().collect(),
            _ => break,
        };
        let at = usize::try_from(dice.below(inside.len() as u64)).unwrap();
        match inside.get(at) {
            Some(next) => here = next,
            None => break,
        }
    }
    here.clone()
}
