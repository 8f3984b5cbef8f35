//! How the fake misbehaves: lines of `$CODEX_HOME/fake.jsonl`, each a point and what to do there.
//!
//! A point is `start`, the method of a request, or the method of a notification that is about to be written. Every
//! arrival at a point is a line of `fake-calls.jsonl`, so that `nth` counts over all lives of the fake and a test
//! can see what was asked. Doing it is `server`.

use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// What to do, and when.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rule {
    /// The point.
    at: String,
    /// At which arrival, counted from 1; at all of them when absent.
    nth: Option<u64>,
    /// Up to which arrival, beginning with `nth`.
    until: Option<u64>,
    /// After the request was served, not before.
    #[serde(default)]
    after: bool,
    #[serde(flatten)]
    pub(super) act: Act,
}

/// One misbehaviour.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "camelCase")]
pub(super) enum Act {
    /// Does nothing any more, but lives.
    Hang,
    /// Ends with this code.
    Exit { code: u8 },
    /// Drops the request, or the notification.
    Drop,
    /// Serves the request and keeps the answer to itself.
    Mute,
    /// Answers with this error instead.
    Error { code: i64, message: String },
    /// Answers with this result instead, after serving the request.
    Result { value: Value },
    /// Leaves one member out of the answer, or of the notification: a JSON pointer to it.
    Omit { member: String },
    /// Writes no thread down from here on, as on a full disk.
    Forget,
    /// Answers under wrong ids as well: one never used, one of the wrong type, and the right one twice.
    Misaddress,
    /// Writes these characters as bytes (each below 256), as they are.
    Raw { latin1: String },
    /// Writes one line of so many bytes.
    Long { bytes: u64 },
    /// Writes so many notifications of so many bytes each.
    Flood {
        method: String,
        lines: u64,
        bytes: u64,
    },
    /// Writes so many bytes to stderr.
    Stderr { bytes: u64 },
    /// Writes this notification.
    Notify { method: String, params: Value },
    /// Leaves a process in a session of its own.
    Child { argv: Vec<String> },
}

/// The rules, and how often each point was reached.
#[derive(Debug)]
pub(super) struct Script {
    rules: Vec<Rule>,
    reached: HashMap<String, u64>,
    calls: File,
}

impl Script {
    pub(super) fn read(home: &Path) -> Result<Self, String> {
        let rules = read_lines(&home.join("fake.jsonl"))?;
        let path = home.join("fake-calls.jsonl");
        let mut reached = HashMap::new();
        for call in read_lines::<Value>(&path)? {
            if let Some(at) = call.get("at").and_then(Value::as_str) {
                *reached.entry(at.to_owned()).or_insert(0) += 1;
            }
        }
        let calls = File::options().create(true).append(true).open(&path);
        Ok(Self {
            rules,
            reached,
            calls: calls.map_err(|error| format!("{}: {error}", path.display()))?,
        })
    }

    /// Notes an arrival; gives what is to be done before and after.
    pub(super) fn reach(&mut self, at: &str, what: &Value) -> (Vec<Act>, Vec<Act>) {
        let count = self.reached.entry(at.to_owned()).or_insert(0);
        *count += 1;
        let count = *count;
        let line = json!({"at": at, "nth": count, "pid": std::process::id(), "what": what});
        // A full disk must not keep the fake from misbehaving in the way it was told to.
        let _lost = writeln!(self.calls, "{line}");
        let due = |after: bool| {
            self.rules
                .iter()
                .filter(|rule| rule.at == at && rule.after == after && rule.is_due(count))
                .map(|rule| rule.act.clone())
                .collect()
        };
        (due(false), due(true))
    }
}

impl Rule {
    fn is_due(&self, count: u64) -> bool {
        let first = self.nth.unwrap_or(1);
        let last = self.until.or(self.nth).unwrap_or(u64::MAX);
        (first..=last).contains(&count)
    }
}

fn read_lines<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Vec<T>, String> {
    let Ok(text) = std::fs::read_to_string(path) else {
        return Ok(Vec::new());
    };
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| {
            serde_json::from_str(line).map_err(|error| format!("{}: {error}", path.display()))
        })
        .collect()
}
