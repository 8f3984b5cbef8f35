//! Push configurations in memory.

use super::MemoryRows;
use super::apply::guard;
use bridge_core::limits::PAGE_MAX;
use bridge_core::port::RowsError;
use bridge_core::value::{ErrandId, Push};
use std::ops::Bound;

impl MemoryRows {
    pub(super) fn find_push(&self, errand_id: &ErrandId, config_id: &str) -> Option<Push> {
        let key = (errand_id.clone(), config_id.to_owned());
        self.pushes.get(&key).cloned()
    }

    pub(super) fn list_pushes(&self, errand_id: &ErrandId) -> Vec<Push> {
        let first = (errand_id.clone(), String::new());
        self.pushes
            .range(first..)
            .take_while(|((of, _), _)| of == errand_id)
            .map(|(_, push)| push.clone())
            .collect()
    }

    pub(super) fn held_pushes(&self, owner: &str) -> u64 {
        let open = self.pushes.iter().filter(|(_, push)| push.state.is_open());
        let held = open.filter(|((id, _), _)| {
            self.find_errand(id)
                .is_some_and(|errand| errand.owner == owner)
        });
        held.count().try_into().unwrap_or(u64::MAX)
    }

    pub(super) fn open_pushes(&self, after: Option<(&ErrandId, &str)>, limit: u32) -> Vec<Push> {
        let from = match after {
            Some((id, config)) => Bound::Excluded((id.clone(), config.to_owned())),
            None => Bound::Unbounded,
        };
        self.pushes
            .range((from, Bound::Unbounded))
            .map(|(_, push)| push)
            .filter(|push| push.state.is_open())
            .take(limit.min(PAGE_MAX) as usize)
            .cloned()
            .collect()
    }

    pub(super) fn put_push(&mut self, push: &Push) -> Result<(), RowsError> {
        let errand = self.find_errand(&push.errand_id);
        guard(errand.is_some(), || {
            format!("push {} of errand {}", push.config_id, push.errand_id)
        })?;
        let key = (push.errand_id.clone(), push.config_id.clone());
        self.pushes.put(key, push.clone());
        Ok(())
    }

    pub(super) fn drop_push(
        &mut self,
        errand_id: &ErrandId,
        config_id: &str,
    ) -> Result<(), RowsError> {
        let key = (errand_id.clone(), config_id.to_owned());
        guard(self.pushes.contains(&key), || {
            format!("end of push {config_id} of errand {errand_id}")
        })?;
        self.pushes.remove(&key);
        Ok(())
    }

    pub(super) fn drop_pushes_of(&mut self, owner: &str) {
        let theirs = |id: &ErrandId| {
            let errand = self.find_errand(id);
            errand.is_some_and(|errand| errand.owner == owner)
        };
        let keys = self.pushes.iter().map(|(key, _)| key);
        let gone: Vec<_> = keys.filter(|(id, _)| theirs(id)).cloned().collect();
        for key in gone {
            self.pushes.remove(&key);
        }
    }
}
