//! How far the feed was read, as the ledger keeps it: one JSON text that only this channel reads.
//!
//! The cursor stays behind the newest row, because rows become visible behind it; what was seen beyond it is
//! remembered here in memory, so that reading it again costs nothing.

use crate::molecule::wire::{Row, Stamp};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// How far the cursor stays behind: longer than the platform's slowest insert was ever seen to take.
pub(crate) const HOLD_BACK: Duration = Duration::from_secs(30);
/// The platform's own clock may be off by this much against the clock of its rows; a row that is further ahead moves
/// nothing.
const AHEAD_MAX_MS: i64 = 60_000;
/// Rows and messages that are remembered as read, two names for most; what is forgotten is found again in the ledger.
const SEEN_MAX: usize = 20_000;
/// The form of the JSON text.
const FORM: u32 = 1;

/// Which kind of platform this is, as its rows show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Edition {
    /// No row was seen yet.
    #[default]
    Unknown,
    /// Rows have no sequence number: a message that is sent twice is shown twice.
    Plain,
    /// Rows have a sequence number: a message id is shown once.
    Sequenced,
}

/// How far the feed was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cursor {
    form: u32,
    /// Everything up to this row is in the ledger. Absent while the feed has none that old.
    pub(crate) row: Option<Uuid>,
    /// That row's time; without a row, where reading began.
    pub(crate) at: Stamp,
    /// Rows from before this are not ours to answer: the first start decided so.
    pub(crate) from: Stamp,
    /// Everything up to this sequence number is in the ledger.
    pub(crate) seq: Option<i64>,
    /// What the rows show of the platform.
    pub(crate) edition: Edition,
}

impl Cursor {
    /// Before the first row.
    pub(crate) fn begin(from: Stamp) -> Self {
        Self {
            form: FORM,
            row: None,
            at: from,
            from,
            seq: None,
            edition: Edition::Unknown,
        }
    }

    /// Reads what the ledger kept.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let cursor: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        match cursor.form {
            FORM => Ok(cursor),
            form => Err(format!("its form is {form}, and this version knows {FORM}")),
        }
    }

    pub(crate) fn write(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }

    /// Moves to a row that is old enough.
    pub(crate) fn move_to(&mut self, row: Uuid, at: Stamp, seq: Option<i64>) {
        self.row = Some(row);
        self.at = at;
        self.seq = self.seq.max(seq);
    }
}

/// Rows that were read and are in the ledger, or need not be, and since when.
#[derive(Debug, Default)]
pub(crate) struct SeenRows {
    since: HashMap<String, Instant>,
    order: VecDeque<String>,
    /// The newest row's time.
    newest: Option<Stamp>,
}

impl SeenRows {
    pub(crate) fn has(&self, id: &str) -> bool {
        self.since.contains_key(id)
    }

    pub(crate) fn add(&mut self, id: String) {
        if self.since.contains_key(&id) {
            return;
        }
        self.since.insert(id.clone(), Instant::now());
        self.order.push_back(id);
        if self.order.len() > SEEN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.since.remove(&oldest);
        }
    }

    /// Notes the newest time that rows show; a time that is ahead of the platform's own clock is not believed.
    pub(crate) fn note_time(&mut self, at: Stamp, date: Option<Stamp>) {
        if date.is_some_and(|date| at > date.plus_ms(AHEAD_MAX_MS)) {
            return;
        }
        self.newest = self.newest.max(Some(at));
    }

    /// The newest time that rows have shown.
    pub(crate) fn newest(&self) -> Option<Stamp> {
        self.newest
    }

    /// Whether nothing can appear behind a row any more: a newer row is [`HOLD_BACK`] younger by the platform's own
    /// time, or we have looked at it for that long. No clock of ours is compared with one of theirs.
    pub(crate) fn is_settled(&self, row: &Row, id: &str) -> bool {
        let hold_ms = i64::try_from(HOLD_BACK.as_millis()).unwrap_or(i64::MAX);
        let passed = match (row.at(), self.newest) {
            (Some(at), Some(newest)) => at.plus_ms(hold_ms) <= newest,
            (_, _) => false,
        };
        let watched = self.since.get(id);
        // The second clause is for a quiet feed, where no newer row ever comes.
        passed || watched.is_some_and(|since| since.elapsed() >= HOLD_BACK)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.since.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(second: u32) -> Row {
        let at = format!("2026-11-15T20:00:{second:02}Z");
        let raw = json!({"id": format!("r{second}"), "created_at": at}).to_string();
        Row::split(&serde_json::value::RawValue::from_string(raw).unwrap())
    }

    #[test]
    fn cursor_roundtrips_and_rejects_unknown_forms() {
        let mut cursor = Cursor::begin(Stamp(5));
        cursor.move_to(Uuid::from_u128(7), Stamp(9), Some(3));
        cursor.move_to(Uuid::from_u128(8), Stamp(10), Some(2));
        assert_eq!(cursor.seq, Some(3));
        assert_eq!(Cursor::read(&cursor.write().unwrap()), Ok(cursor.clone()));
        let odd = cursor.write().unwrap().replace("0000-000000000008", "x");
        assert!(Cursor::read(&odd).is_err());
        let newer = cursor.write().unwrap().replace("\"form\":1", "\"form\":2");
        assert!(Cursor::read(&newer).unwrap_err().contains("form is 2"));
    }

    #[tokio::test(start_paused = true)]
    async fn cursor_waits_for_late_rows() {
        let mut seen = SeenRows::default();
        let date = row(31).at();
        seen.note_time(row(1).at().unwrap(), date);
        seen.add("r1".to_owned());
        assert!(!seen.is_settled(&row(1), "r1"));
        seen.note_time(row(30).at().unwrap(), date);
        assert!(!seen.is_settled(&row(1), "r1"));
        // A row that claims to be from next year settles nothing.
        seen.note_time(Stamp::read("2027-11-15T20:00:00Z").unwrap(), date);
        assert!(!seen.is_settled(&row(1), "r1"));
        seen.note_time(row(31).at().unwrap(), date);
        assert!(seen.is_settled(&row(1), "r1"));
        seen.add("r31".to_owned());
        assert!(!seen.is_settled(&row(31), "r31"));
        tokio::time::advance(HOLD_BACK).await;
        assert!(seen.is_settled(&row(31), "r31"));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut seen = SeenRows::default();
        for id in 0..SEEN_MAX + 5 {
            seen.add(id.to_string());
        }
        assert_eq!(seen.len(), SEEN_MAX);
        assert!(!seen.has("4") && seen.has("5"));
    }
}
