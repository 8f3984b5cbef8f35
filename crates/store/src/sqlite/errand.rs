//! The `errand` and `word` tables: work of other agents, and what its owners said.

use bridge_core::port::{ErrandQuery, RowsError, Spent};
use bridge_core::value::{ChannelId, Errand, ErrandId, MessageId, Timestamp, Word};
use rusqlite::Connection;

fn unbuilt<T>() -> Result<T, RowsError> {
    Err(RowsError::Backend {
        what: "errands are not stored yet".to_owned(),
    })
}

pub(super) fn by_id(_conn: &Connection, _id: &ErrandId) -> Result<Option<Errand>, RowsError> {
    Ok(None)
}

pub(super) fn words(_conn: &Connection, _id: &ErrandId) -> Result<Vec<Word>, RowsError> {
    Ok(Vec::new())
}

pub(super) fn of(_conn: &Connection, _id: &MessageId) -> Result<Option<ErrandId>, RowsError> {
    Ok(None)
}

pub(super) fn list(
    _conn: &Connection,
    _query: &ErrandQuery,
) -> Result<Vec<(Errand, Timestamp)>, RowsError> {
    Ok(Vec::new())
}

pub(super) fn count(_conn: &Connection, _query: &ErrandQuery) -> Result<u64, RowsError> {
    Ok(0)
}

pub(super) fn spent(
    _conn: &Connection,
    _channel: &ChannelId,
    _sender: &str,
    _since: Timestamp,
) -> Result<Spent, RowsError> {
    Ok(Spent::default())
}

pub(super) fn insert(_conn: &Connection, _errand: &Errand) -> Result<(), RowsError> {
    unbuilt()
}

pub(super) fn insert_word(_conn: &Connection, _word: &Word) -> Result<(), RowsError> {
    unbuilt()
}

pub(super) fn told(_conn: &Connection, _id: &ErrandId, _told: u64) -> Result<(), RowsError> {
    unbuilt()
}
