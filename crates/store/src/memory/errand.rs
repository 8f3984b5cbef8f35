//! Errands in memory, and what their owners said.

use super::MemoryRows;
use bridge_core::port::{ErrandQuery, RowsError, Spent};
use bridge_core::value::{ChannelId, Errand, ErrandId, MessageId, Timestamp, Word};

fn unbuilt<T>() -> Result<T, RowsError> {
    Err(RowsError::Backend {
        what: "errands are not stored yet".to_owned(),
    })
}

impl MemoryRows {
    pub(super) fn find_errand(&self, _id: &ErrandId) -> Option<Errand> {
        None
    }

    pub(super) fn words_of(&self, _id: &ErrandId) -> Vec<Word> {
        Vec::new()
    }

    pub(super) fn errand_with(&self, _id: &MessageId) -> Option<ErrandId> {
        None
    }

    pub(super) fn list_errands(&self, _query: &ErrandQuery) -> Vec<(Errand, Timestamp)> {
        Vec::new()
    }

    pub(super) fn count_errands(&self, _query: &ErrandQuery) -> u64 {
        0
    }

    pub(super) fn spent_by(&self, _: &ChannelId, _sender: &str, _since: Timestamp) -> Spent {
        Spent::default()
    }

    pub(super) fn new_errand(&mut self, _errand: &Errand) -> Result<(), RowsError> {
        unbuilt()
    }

    pub(super) fn new_word(&mut self, _word: &Word) -> Result<(), RowsError> {
        unbuilt()
    }

    pub(super) fn errand_told(&mut self, _id: &ErrandId, _told: u64) -> Result<(), RowsError> {
        unbuilt()
    }
}
