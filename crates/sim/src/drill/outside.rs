//! What was seen from outside, put together: the platform's history, the model's requests, and the lines that turns
//! left in files.

use super::traffic::{EFFECTS, Traffic};
use crate::Seen;
use crate::history::{Event, Fact, Promises, Verdict, judge};
use std::collections::BTreeMap;
use std::path::Path;

/// Requests of the model, counted here because it keeps only the latest, and those of them that began a turn.
#[derive(Debug, Default)]
pub(super) struct Asked {
    events: Vec<Event>,
    next: u64,
    calls: usize,
    bytes: u64,
}

impl Asked {
    /// The number of the first request that is not known yet.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Turns that were begun, each time that they were.
    pub(super) fn begun(&self) -> usize {
        self.events.len()
    }

    /// Every request, whatever came of it.
    pub(super) fn calls(&self) -> usize {
        self.calls
    }

    /// The size of what was sent with all of them.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn note(&mut self, requests: &[Seen], traffic: &Traffic) {
        for seen in requests {
            self.next = self.next.max(seen.number + 1);
            self.calls += 1;
            self.bytes += seen.body_bytes as u64;
            let row = traffic.message_of(seen.last());
            if let (0, Some(row)) = (seen.step(), row) {
                self.events.push(Event {
                    at_ms: seen.at_ms,
                    fact: Fact::Asked { row },
                });
            }
        }
    }
}

/// Everything that was seen, ready to be judged.
pub(super) struct Outside {
    events: Vec<Event>,
}

impl Outside {
    pub(super) fn new(mut events: Vec<Event>, asked: Asked) -> Self {
        events.extend(asked.events);
        Self { events }
    }

    /// Adds the lines that turns left in the working directories.
    pub(super) fn add_effects(&mut self, work: &Path, traffic: &Traffic) -> std::io::Result<()> {
        for entry in std::fs::read_dir(work)? {
            let file = entry?.path().join(EFFECTS);
            let Ok(text) = std::fs::read_to_string(&file) else {
                continue;
            };
            let rows = text
                .lines()
                .filter_map(|line| traffic.message_of_line(line));
            self.events.extend(rows.map(|row| Event {
                at_ms: 0,
                fact: Fact::Touched { row },
            }));
        }
        Ok(())
    }

    pub(super) fn judge(&self) -> Verdict {
        let promises = Promises {
            seen_once: true,
            single_piece: true,
        };
        judge(&self.events, promises)
    }

    /// The history as lines, one fact each in the order of time, for whoever looks what went wrong.
    pub(super) fn lines(&self) -> String {
        let mut by_time: BTreeMap<u64, Vec<&Fact>> = BTreeMap::new();
        for event in &self.events {
            by_time.entry(event.at_ms).or_default().push(&event.fact);
        }
        let mut lines = String::new();
        for (at_ms, facts) in by_time {
            for fact in facts {
                lines.push_str(&format!("{at_ms} {fact:?}\n"));
            }
        }
        lines
    }
}
