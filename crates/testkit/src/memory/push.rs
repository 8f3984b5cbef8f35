//! Push configurations in memory.

use super::MemoryRows;
use super::apply::guard;
use bridge_core::limits::PAGE_MAX;
use bridge_core::port::RowsError;
use bridge_core::value::{Push, TaskId};
use std::ops::Bound;

impl MemoryRows {
    pub(super) fn find_push(&self, task_id: &TaskId, config_id: &str) -> Option<Push> {
        let key = (task_id.clone(), config_id.to_owned());
        self.pushes.get(&key).cloned()
    }

    pub(super) fn list_pushes(&self, task_id: &TaskId) -> Vec<Push> {
        let first = (task_id.clone(), String::new());
        self.pushes
            .range(first..)
            .take_while(|((of, _), _)| of == task_id)
            .map(|(_, push)| push.clone())
            .collect()
    }

    pub(super) fn held_pushes(&self, owner: &str) -> u64 {
        let open = self.pushes.iter().filter(|(_, push)| push.state.is_open());
        let held = open.filter(|((id, _), _)| {
            self.find_a2a_task(id)
                .is_some_and(|task| task.owner == owner)
        });
        held.count().try_into().unwrap_or(u64::MAX)
    }

    pub(super) fn open_pushes(&self, after: Option<(&TaskId, &str)>, limit: u32) -> Vec<Push> {
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
        let task = self.find_a2a_task(&push.task_id);
        guard(task.is_some(), || {
            format!("push {} of task {}", push.config_id, push.task_id)
        })?;
        let key = (push.task_id.clone(), push.config_id.clone());
        self.pushes.put(key, push.clone());
        Ok(())
    }

    pub(super) fn drop_push(&mut self, task_id: &TaskId, config_id: &str) -> Result<(), RowsError> {
        let key = (task_id.clone(), config_id.to_owned());
        guard(self.pushes.contains(&key), || {
            format!("end of push {config_id} of task {task_id}")
        })?;
        self.pushes.remove(&key);
        Ok(())
    }

    pub(super) fn drop_pushes_of(&mut self, owner: &str) {
        let theirs = |id: &TaskId| {
            let task = self.find_a2a_task(id);
            task.is_some_and(|task| task.owner == owner)
        };
        let keys = self.pushes.iter().map(|(key, _)| key);
        let gone: Vec<_> = keys.filter(|(id, _)| theirs(id)).cloned().collect();
        for key in gone {
            self.pushes.remove(&key);
        }
    }
}
