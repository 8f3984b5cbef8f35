//! What was seen from outside, put together: the platform's history, the model's requests, and the lines that turns
//! left in files.

use super::traffic::{EFFECTS, Traffic};
use crate::Seen;
use crate::history::{Event, Fact, Promises, RowId, Verdict, Violation, Word, judge};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Requests of the model, counted here because it keeps only the latest, and those of them that began a turn.
#[derive(Debug, Default)]
pub(super) struct Asked {
    events: Vec<Event>,
    next: u64,
    /// Turns that began for a message: when, and in which CODEX_HOME.
    begun: BTreeMap<RowId, Vec<(u64, String)>>,
    /// What the model was shown with each of them.
    shown: Vec<Shown>,
    calls: usize,
    bytes: u64,
}

/// A turn's first request: for which message, when, and with which others before it.
#[derive(Debug)]
struct Shown {
    row: RowId,
    at_ms: u64,
    with: BTreeSet<RowId>,
}

/// A node that died.
#[derive(Clone, Debug)]
pub(super) struct Death {
    pub(super) at_ms: u64,
    pub(super) node: String,
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
                let users = seen.users.iter();
                self.shown.push(Shown {
                    row,
                    at_ms: seen.at_ms,
                    with: users.filter_map(|text| traffic.message_of(text)).collect(),
                });
                let begun = self.begun.entry(row).or_default();
                begun.extend(seen.home.clone().map(|home| (seen.at_ms, home)));
            }
        }
    }
}

/// Turns that worked without an earlier message of their conversation which was answered by then.
pub(super) fn forgotten(history: &[Event], asked: &Asked, traffic: &Traffic) -> Vec<Violation> {
    let answers = history.iter().filter_map(|event| match event.fact {
        Fact::Visible {
            row,
            word: Word::Answer,
            ..
        } => Some((row, event.at_ms)),
        _ => None,
    });
    let answers: BTreeMap<RowId, u64> = answers.collect();
    let missed = |shown: &Shown, earlier: &RowId| {
        let answered = answers.get(earlier).is_some_and(|at| *at < shown.at_ms);
        answered && !shown.with.contains(earlier)
    };
    let missing = asked.shown.iter().flat_map(|shown| {
        let earlier = traffic.before(shown.row).iter();
        let missing = earlier.filter(move |earlier| missed(shown, earlier));
        missing.map(|earlier| Violation::Forgot {
            row: shown.row,
            earlier: *earlier,
        })
    });
    let missing: BTreeSet<Violation> = missing.collect();
    missing.into_iter().collect()
}

/// How long it took from each death until a turn that it cut went on elsewhere, shortest first.
pub(super) fn elsewhere(history: &[Event], asked: &Asked, deaths: &[Death]) -> Vec<u64> {
    let mut ends: BTreeMap<RowId, u64> = BTreeMap::new();
    for event in history {
        if let Fact::Visible { row, word, .. } = event.fact
            && word != Word::Waits
        {
            ends.entry(row).or_insert(event.at_ms);
        }
    }
    let cut = |death: &Death, row: &RowId, begun: &[(u64, String)]| {
        let (before, after): (Vec<_>, Vec<_>) =
            begun.iter().partition(|(at_ms, _)| *at_ms <= death.at_ms);
        let (_, last) = before.last()?;
        let open = ends.get(row).is_none_or(|end| *end > death.at_ms);
        let (again, home) = after.first()?;
        let moved = open && *last == death.node && *home != death.node;
        moved.then(|| again.saturating_sub(death.at_ms))
    };
    let mut times: Vec<u64> = deaths
        .iter()
        .flat_map(|death| {
            let turns = asked.begun.iter();
            turns.filter_map(move |(row, begun)| cut(death, row, begun))
        })
        .collect();
    times.sort_unstable();
    times
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

    /// The history as lines, one fact each in the order of time, for whoever looks what went wrong; with what was done to
    /// the drilled.
    pub(super) fn lines(&self, faults: &[(u64, String)]) -> String {
        let facts = self.events.iter();
        let facts = facts.map(|event| (event.at_ms, format!("{:?}", event.fact)));
        let mut lines: Vec<_> = facts.chain(faults.iter().cloned()).collect();
        lines.sort_by_key(|(at_ms, _)| *at_ms);
        let lines = lines.iter();
        lines
            .map(|(at_ms, what)| format!("{at_ms} {what}\n"))
            .collect()
    }
}
