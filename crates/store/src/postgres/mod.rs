//! stub
use crate::sql::Params;
use bridge_core::port::RowsError;
use rusqlite::types::ValueRef;
#[derive(Debug)]
pub(crate) struct Session;
#[derive(Debug)]
pub(crate) struct SessionRow;
pub(crate) enum Expected {
    Any,
    One { what: String },
}
impl SessionRow {
    pub(crate) fn value(&self, _at: usize) -> Result<ValueRef<'_>, rusqlite::Error> {
        Err(rusqlite::Error::InvalidQuery)
    }
}
impl Session {
    pub(crate) fn query(&self, _sql: &str, _p: &impl Params) -> Result<Vec<SessionRow>, RowsError> {
        Ok(vec![])
    }
    pub(crate) fn write(
        &self,
        _sql: &str,
        _p: &impl Params,
        _e: Expected,
    ) -> Result<(), RowsError> {
        Ok(())
    }
    #[cfg(test)]
    pub(crate) fn control(&self, _sql: &str) -> Result<(), RowsError> {
        Ok(())
    }
}
