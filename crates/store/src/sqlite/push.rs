//! The `push` table: where owners of errands want to be told how they stand.

use bridge_core::port::RowsError;
use bridge_core::value::{ErrandId, Push};
use rusqlite::Connection;

pub(super) fn one(
    _conn: &Connection,
    _errand_id: &ErrandId,
    _config_id: &str,
) -> Result<Option<Push>, RowsError> {
    Ok(None)
}

pub(super) fn of(_conn: &Connection, _errand_id: &ErrandId) -> Result<Vec<Push>, RowsError> {
    Ok(Vec::new())
}

pub(super) fn open(
    _conn: &Connection,
    _after: Option<(&ErrandId, &str)>,
    _limit: u32,
) -> Result<Vec<Push>, RowsError> {
    Ok(Vec::new())
}

pub(super) fn put(_conn: &Connection, _push: &Push) -> Result<(), RowsError> {
    Err(RowsError::Backend {
        what: "push configurations are not stored yet".to_owned(),
    })
}

pub(super) fn remove(
    _conn: &Connection,
    _errand_id: &ErrandId,
    _config_id: &str,
) -> Result<(), RowsError> {
    Ok(())
}
