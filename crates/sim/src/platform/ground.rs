//! What the platform knows: rows, replies, acks, and the history of what could be seen.
//! Pure but for the clock; who is answered what is decided here, how it travels is not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::fault::{Call, Fault, Faults};
use super::wire::NewReply;
use crate::clock::now_ms;
use crate::history::{Event, Fact, RowId, Word};

/// Rows that one platform keeps.
const ROWS_MOST: usize = 100_000;
/// Facts that one platform keeps; what is shown again and again is the bulk of them.
const HISTORY_MOST: usize = 1_000_000;
/// Rows that are shown at once, whatever is asked for.
const PAGE_MOST: usize = 500;

/// The beginnings of notices that end nothing: a message waits, or Codex lost the thread and the answer comes on a new
/// one.
const UNENDING: [&str; 2] = [
    "This message waits",
    "Codex's record of this conversation is lost",
];

/// What a platform does with a reply that comes twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// It knows the key, shows nothing new and gives the first receipt again.
    Idempotent,
    /// It shows it twice, but can be asked whether a key arrived.
    Probeable,
    /// It shows it twice and can't be asked.
    Blind,
}

#[derive(Debug)]
struct Row {
    conversation: String,
    /// As it is shown; `row` is added to it.
    shape: Value,
    acked: bool,
    /// Grows with every time that it becomes news.
    mark: u64,
}

/// The platform's own state.
#[derive(Debug)]
pub(super) struct Ground {
    memory: Memory,
    rows: BTreeMap<RowId, Row>,
    open: BTreeSet<RowId>,
    /// Said, and without an end that can be seen.
    waiting: BTreeSet<RowId>,
    receipts: BTreeMap<String, String>,
    marks: u64,
    pub(super) history: Vec<Event>,
    pub(super) visible: Vec<(RowId, String)>,
    pub(super) faults: Faults,
}

/// The ground as everybody holds it.
pub(super) type Shared = Arc<watch::Sender<Ground>>;

/// Changes the ground and gives back what came of it.
pub(super) fn change<T: Default>(ground: &Shared, change: impl FnOnce(&mut Ground) -> T) -> T {
    let mut came = T::default();
    ground.send_modify(|ground| came = change(ground));
    came
}

/// What the inbox shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Page {
    pub(super) rows: Vec<Value>,
    /// The newest of these, for the next call.
    pub(super) mark: u64,
}

impl Ground {
    pub(super) fn new(memory: Memory, seed: u64) -> Self {
        Self {
            memory,
            rows: BTreeMap::new(),
            open: BTreeSet::new(),
            waiting: BTreeSet::new(),
            receipts: BTreeMap::new(),
            marks: 0,
            history: Vec::new(),
            visible: Vec::new(),
            faults: Faults::new(seed),
        }
    }

    pub(super) fn post(&mut self, conversation: &str, sender: &str, text: &str) -> Option<RowId> {
        let shape = json!({"conversation": conversation, "sender": sender, "text": text});
        self.add(conversation, shape, true)
    }

    pub(super) fn plant(&mut self, shape: Value) -> Option<RowId> {
        self.add("", shape, false)
    }

    /// What is planted is no message, so nobody waits for a reply to it.
    fn add(&mut self, conversation: &str, shape: Value, said: bool) -> Option<RowId> {
        if self.rows.len() >= ROWS_MOST {
            return None;
        }
        let row = RowId(u64::try_from(self.rows.len()).ok()? + 1);
        let mark = self.next_mark();
        self.rows.insert(
            row,
            Row {
                conversation: conversation.to_owned(),
                shape: with_id(shape, row),
                acked: false,
                mark,
            },
        );
        self.open.insert(row);
        if said {
            self.waiting.insert(row);
            let conversation = conversation.to_owned();
            self.note(Fact::Posted { row, conversation });
        }
        Some(row)
    }

    fn next_mark(&mut self) -> u64 {
        self.marks += 1;
        self.marks
    }

    fn note(&mut self, fact: Fact) {
        if self.history.len() < HISTORY_MOST {
            let at_ms = now_ms();
            self.history.push(Event { at_ms, fact });
        }
    }

    /// How many messages wait for an end, by conversation.
    pub(super) fn waiting(&self) -> BTreeMap<String, usize> {
        let mut waiting = BTreeMap::new();
        for row in self.waiting.iter().filter_map(|id| self.rows.get(id)) {
            *waiting.entry(row.conversation.clone()).or_default() += 1;
        }
        waiting
    }

    pub(super) fn open_rows(&self) -> Vec<RowId> {
        self.open.iter().copied().collect()
    }

    fn page_rows(&self, limit: usize) -> impl Iterator<Item = (RowId, &Row)> {
        let open = self.open.iter().take(limit.min(PAGE_MOST));
        open.filter_map(|id| self.rows.get(id).map(|row| (*id, row)))
    }

    /// Whether the page holds something that became news after `mark`.
    pub(super) fn has_news(&self, limit: usize, mark: u64) -> bool {
        self.page_rows(limit).any(|(_, row)| row.mark > mark)
    }

    pub(super) fn show(&mut self, limit: usize, mark: u64) -> Page {
        let shown: Vec<_> = self
            .page_rows(limit)
            .map(|(id, row)| (id, row.mark, row.shape.clone()))
            .collect();
        let mut page = Page {
            rows: Vec::with_capacity(shown.len()),
            mark,
        };
        for (id, row_mark, shape) in shown {
            page.mark = page.mark.max(row_mark);
            page.rows.push(shape);
            self.note(Fact::Shown { row: id });
        }
        page
    }

    /// Takes a reply and gives its receipt; none when there is no such row in that conversation.
    pub(super) fn reply(&mut self, reply: NewReply) -> Option<String> {
        let row = RowId::read(&reply.row)?;
        let fits = self
            .rows
            .get(&row)
            .is_some_and(|known| known.conversation == reply.conversation);
        if !fits {
            return None;
        }
        if self.memory == Memory::Idempotent
            && let Some(receipt) = self.receipts.get(&reply.key)
        {
            return Some(receipt.clone());
        }
        let receipt = format!("v{}", self.visible.len() + 1);
        let word = match reply.is_answer {
            true => Word::Answer,
            false if UNENDING.iter().any(|begin| reply.text.starts_with(begin)) => Word::Waits,
            false => Word::Buried,
        };
        self.receipts
            .entry(reply.key.clone())
            .or_insert_with(|| receipt.clone());
        if word != Word::Waits {
            self.waiting.remove(&row);
        }
        self.visible.push((row, reply.text));
        self.note(Fact::Visible {
            row,
            ordinal: reply.ordinal,
            key: reply.key,
            word,
        });
        Some(receipt)
    }

    /// The receipt of a reply that arrived; the outer none where nobody can ask.
    pub(super) fn probe(&self, key: &str) -> Option<Option<String>> {
        match self.memory {
            Memory::Idempotent | Memory::Probeable => Some(self.receipts.get(key).cloned()),
            Memory::Blind => None,
        }
    }

    /// False when there is no such row.
    pub(super) fn ack(&mut self, row: &str) -> bool {
        let Some(id) = RowId::read(row) else {
            return false;
        };
        let Some(row) = self.rows.get_mut(&id) else {
            return false;
        };
        row.acked = true;
        self.open.remove(&id);
        self.note(Fact::Acked { row: id });
        true
    }

    pub(super) fn redeliver(&mut self, id: RowId) -> bool {
        let mark = self.next_mark();
        let Some(row) = self.rows.get_mut(&id).filter(|row| row.acked) else {
            return false;
        };
        row.acked = false;
        row.mark = mark;
        self.open.insert(id);
        self.note(Fact::Redelivered { row: id });
        true
    }

    /// What the next call of this kind meets; the inbox may also find an old row in it again.
    pub(super) fn meet(&mut self, call: Call, about: Option<RowId>) -> Fault {
        let redeliver = self.faults.weather.redeliver;
        if call == Call::Inbox && self.faults.dice.chance(redeliver) && !self.rows.is_empty() {
            let count = u64::try_from(self.rows.len()).unwrap_or(u64::MAX);
            let row = RowId(self.faults.dice.below(count) + 1);
            self.redeliver(row);
        }
        // Rows that nobody posted have no weather of their own, so that what is counted by row is bounded.
        let about = about.filter(|row| self.rows.contains_key(row));
        self.faults.next(call, about)
    }
}

fn with_id(mut shape: Value, row: RowId) -> Value {
    if let Some(fields) = shape.as_object_mut() {
        fields
            .entry("row")
            .or_insert_with(|| Value::String(row.to_string()));
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ground(memory: Memory) -> Ground {
        let mut ground = Ground::new(memory, 1);
        ground.post("a", "ann", "hello").unwrap();
        ground
    }

    fn reply(key: &str) -> NewReply {
        NewReply {
            key: key.to_owned(),
            conversation: "a".to_owned(),
            row: "r1".to_owned(),
            ordinal: 0,
            is_answer: true,
            text: "hi".to_owned(),
        }
    }

    #[test]
    fn shows_unacknowledged_and_redelivered_rows() {
        let mut ground = ground(Memory::Idempotent);
        ground.post("b", "bob", "hey").unwrap();
        let page = ground.show(10, 0);
        assert_eq!(page.rows.len(), 2);
        assert_eq!(page.rows[0]["row"], "r1");
        assert!(!ground.has_news(10, page.mark));
        assert_eq!(ground.show(10, page.mark), page, "shown again all the same");
        assert!(ground.ack("r1") && !ground.ack("r9") && !ground.ack("x"));
        assert_eq!(ground.show(10, 0).rows.len(), 1);
        assert!(!ground.redeliver(RowId(2)), "never acknowledged");
        assert!(ground.redeliver(RowId(1)));
        assert!(ground.has_news(10, page.mark));
        assert!(!ground.has_news(0, page.mark), "not on the page");
    }

    #[test]
    fn duplicate_reply_depends_on_platform_memory() {
        for (memory, seen, probed) in [
            (Memory::Idempotent, 1, Some(Some("v1"))),
            (Memory::Probeable, 2, Some(Some("v1"))),
            (Memory::Blind, 2, None),
        ] {
            let mut ground = ground(memory);
            assert_eq!(ground.reply(reply("k")).as_deref(), Some("v1"));
            assert!(ground.reply(reply("k")).is_some());
            assert_eq!(ground.visible.len(), seen, "{memory:?}");
            let found = ground.probe("k");
            assert_eq!(found.as_ref().map(Option::as_deref), probed);
            assert_eq!(ground.probe("other").flatten(), None);
        }
    }

    #[test]
    fn a_reply_to_nothing_is_refused() {
        let mut ground = ground(Memory::Idempotent);
        for (row, conversation) in [("r2", "a"), ("r1", "b"), ("", "a")] {
            let lost = NewReply {
                row: row.to_owned(),
                conversation: conversation.to_owned(),
                ..reply("k")
            };
            assert_eq!(ground.reply(lost), None);
        }
        assert!(ground.visible.is_empty());
    }

    #[test]
    fn planted_row_is_shown_verbatim() {
        let mut ground = Ground::new(Memory::Idempotent, 1);
        ground.plant(json!({"text": 7})).unwrap();
        ground.plant(json!("nonsense")).unwrap();
        let rows = ground.show(10, 0).rows;
        assert_eq!(rows, [json!({"text": 7, "row": "r1"}), json!("nonsense")]);
        let posted = |event: &Event| matches!(event.fact, Fact::Posted { .. });
        assert!(!ground.history.iter().any(posted));
    }
}
