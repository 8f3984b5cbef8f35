//! What the outside world saw, and whether every promise was kept. Pure: records in, verdict out.
//! The records come from a platform, a model and the files that turns touched; never from our own tables,
//! because a daemon that is wrong about itself would then be believed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A message as the platform knows it; later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(pub u64);

impl fmt::Display for RowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

impl RowId {
    /// Reads what `Display` writes.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        text.strip_prefix('r')?.parse().ok().map(Self)
    }
}

/// One thing that somebody outside could see, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// What it was.
    pub fact: Fact,
}

/// What can be seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// Somebody said something.
    Posted {
        /// Which message.
        row: RowId,
        /// Where.
        conversation: String,
    },
    /// It was shown to the daemon, perhaps again.
    Shown {
        /// Which message.
        row: RowId,
    },
    /// A reply became visible to whoever waits; twice when it is seen twice.
    Visible {
        /// To which message.
        row: RowId,
        /// Which piece of it.
        ordinal: u32,
        /// What the sender of the reply calls it.
        key: String,
        /// Whether it ends the wait.
        word: Word,
    },
    /// The platform shows a message again.
    Redelivered {
        /// Which message.
        row: RowId,
    },
    /// The model was asked to begin on a message.
    Asked {
        /// Which message.
        row: RowId,
    },
    /// A turn did to the world what the message asked for.
    Touched {
        /// Which message.
        row: RowId,
    },
}

/// What a visible reply means to whoever waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// The answer.
    Answer,
    /// It takes longer; the answer is still promised.
    Waits,
    /// There will be no answer, and why.
    Buried,
    /// An answer, and not to this message.
    Wrong,
}

/// What the daemon under test promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    /// A reply is seen once; not so on a platform that can neither dedupe nor be asked, when told to resend.
    pub seen_once: bool,
    /// Every answer fits one reply, so that a second one is a second answer.
    pub single_piece: bool,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Violation {
    /// Neither an answer nor a last word.
    Lost {
        /// Which message.
        row: RowId,
    },
    /// A reply was seen twice, or a message has two ends.
    Doubled {
        /// Which message.
        row: RowId,
    },
    /// A reply was seen after one that belongs behind it.
    OutOfOrder {
        /// Which message came late.
        row: RowId,
        /// What it should have come before.
        after: RowId,
    },
    /// The world was touched more than once for one message.
    TouchedTwice {
        /// Which message.
        row: RowId,
        /// How often.
        times: usize,
    },
    /// The model was asked after the answer was visible.
    AskedAgain {
        /// Which message.
        row: RowId,
    },
    /// The model worked on it without an earlier message of its conversation.
    Forgot {
        /// Which message.
        row: RowId,
        /// What it was not shown, although that was answered before.
        earlier: RowId,
    },
    /// The answer of another message.
    Misdirected {
        /// Which message got it.
        row: RowId,
    },
    /// A reply to a message that nobody sent.
    Strange {
        /// What it claims to reply to.
        row: RowId,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { row } => write!(f, "{row} has neither an answer nor a last word"),
            Self::Doubled { row } => write!(f, "{row} was replied to twice"),
            Self::OutOfOrder { row, after } => write!(f, "{row} was replied to after {after}"),
            Self::TouchedTwice { row, times } => {
                write!(f, "{row} touched the world {times} times")
            }
            Self::AskedAgain { row } => {
                write!(
                    f,
                    "the model was asked again about {row}, which was answered"
                )
            }
            Self::Forgot { row, earlier } => {
                write!(f, "{row} was worked on without {earlier} before it")
            }
            Self::Misdirected { row } => write!(f, "{row} got an answer that is not its own"),
            Self::Strange { row } => write!(f, "a reply to {row}, which nobody sent"),
        }
    }
}

/// What the outside history amounts to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Messages said.
    pub sent: usize,
    /// Of these, with a visible answer.
    pub answered: usize,
    /// Of these, with a visible last word instead.
    pub dead: usize,
    /// Model calls beyond one per message: what crashes cost.
    pub calls_beyond: usize,
    /// The longest time from a message to its end.
    pub longest_delay_ms: u64,
    /// Every broken promise.
    pub violations: Vec<Violation>,
}

impl Verdict {
    /// How many violations of this kind there are.
    pub fn count(&self, kind: impl Fn(&Violation) -> bool) -> usize {
        self.violations
            .iter()
            .filter(|violation| kind(violation))
            .count()
    }
}

/// Judges a history at a time when everything is quiet.
#[must_use]
pub fn judge(events: &[Event], promises: Promises) -> Verdict {
    let mut rows: BTreeMap<RowId, Row> = BTreeMap::new();
    let mut lanes: BTreeMap<&str, (RowId, u32)> = BTreeMap::new();
    let mut verdict = Verdict::default();
    for event in events {
        if let Fact::Posted { row, conversation } = &event.fact {
            rows.insert(*row, Row::new(conversation, event.at_ms));
        }
    }
    for event in events {
        let found = note(&mut rows, &mut lanes, event);
        verdict.violations.extend(found);
    }
    for (id, row) in &rows {
        row.close(*id, promises, &mut verdict);
    }
    verdict.violations.sort();
    verdict
}

/// What is known of one message.
#[derive(Debug)]
struct Row<'a> {
    conversation: &'a str,
    posted_ms: u64,
    seen: BTreeSet<(u32, &'a str)>,
    ends: Vec<(Word, u64)>,
    doubled: bool,
    asked_ms: Vec<u64>,
    touched: usize,
}

impl<'a> Row<'a> {
    fn new(conversation: &'a str, posted_ms: u64) -> Self {
        Self {
            conversation,
            posted_ms,
            seen: BTreeSet::new(),
            ends: Vec::new(),
            doubled: false,
            asked_ms: Vec::new(),
            touched: 0,
        }
    }

    fn has(&self, wanted: Word) -> bool {
        self.ends.iter().any(|(word, _)| *word == wanted)
    }

    fn close(&self, id: RowId, promises: Promises, verdict: &mut Verdict) {
        verdict.sent += 1;
        if self.has(Word::Wrong) {
            verdict.violations.push(Violation::Misdirected { row: id });
        }
        let (answered, buried) = (self.has(Word::Answer), self.has(Word::Buried));
        match (answered, buried) {
            (true, _) => verdict.answered += 1,
            (false, true) => verdict.dead += 1,
            (false, false) => verdict.violations.push(Violation::Lost { row: id }),
        }
        let two_ends = (answered && buried) || (promises.single_piece && self.ends.len() > 1);
        if promises.seen_once && (self.doubled || two_ends) {
            verdict.violations.push(Violation::Doubled { row: id });
        }
        if self.touched > 1 {
            let times = self.touched;
            let violation = Violation::TouchedTwice { row: id, times };
            verdict.violations.push(violation);
        }
        verdict.calls_beyond += self.asked_ms.len().saturating_sub(1);
        let Some((_, end_ms)) = self.ends.first() else {
            return;
        };
        if self.asked_ms.iter().any(|asked| asked > end_ms) {
            verdict.violations.push(Violation::AskedAgain { row: id });
        }
        let delay = end_ms.saturating_sub(self.posted_ms);
        verdict.longest_delay_ms = verdict.longest_delay_ms.max(delay);
    }
}

fn note<'a>(
    rows: &mut BTreeMap<RowId, Row<'a>>,
    lanes: &mut BTreeMap<&'a str, (RowId, u32)>,
    event: &'a Event,
) -> Option<Violation> {
    match &event.fact {
        Fact::Posted { .. } | Fact::Shown { .. } | Fact::Redelivered { .. } => None,
        Fact::Visible {
            row: id,
            ordinal,
            key,
            word,
        } => {
            let Some(row) = rows.get_mut(id) else {
                return Some(Violation::Strange { row: *id });
            };
            let same_place = row.seen.iter().any(|(known, _)| known == ordinal);
            let same_key = row.seen.iter().any(|(_, known)| known == key);
            if same_place || same_key {
                row.doubled = true;
                return None;
            }
            row.seen.insert((*ordinal, key));
            if *word != Word::Waits {
                row.ends.push((*word, event.at_ms));
            }
            let place = (*id, *ordinal);
            let last = lanes.entry(row.conversation).or_insert(place);
            if *last > place {
                let after = last.0;
                return Some(Violation::OutOfOrder { row: *id, after });
            }
            *last = place;
            None
        }
        Fact::Asked { row: id } => {
            if let Some(row) = rows.get_mut(id) {
                row.asked_ms.push(event.at_ms);
            }
            None
        }
        Fact::Touched { row: id } => {
            if let Some(row) = rows.get_mut(id) {
                row.touched += 1;
            }
            None
        }
    }
}

#[cfg(test)]
mod tests;
