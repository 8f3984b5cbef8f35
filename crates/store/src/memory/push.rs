//! Push configurations in memory.

use super::MemoryRows;
use bridge_core::port::RowsError;
use bridge_core::value::{ErrandId, Push};

impl MemoryRows {
    pub(super) fn find_push(&self, _: &ErrandId, _config_id: &str) -> Option<Push> {
        None
    }

    pub(super) fn list_pushes(&self, _: &ErrandId) -> Vec<Push> {
        Vec::new()
    }

    pub(super) fn open_pushes(&self, _: Option<(&ErrandId, &str)>, _limit: u32) -> Vec<Push> {
        Vec::new()
    }

    pub(super) fn put_push(&mut self, _: &Push) -> Result<(), RowsError> {
        Err(RowsError::Backend {
            what: "push configurations are not stored yet".to_owned(),
        })
    }

    pub(super) fn drop_push(&mut self, _: &ErrandId, _config_id: &str) -> Result<(), RowsError> {
        Ok(())
    }
}
