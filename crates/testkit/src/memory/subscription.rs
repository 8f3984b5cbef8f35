//! Subscriptions in memory.

use super::MemoryRows;
use super::apply::guard;
use bridge_core::limits::PAGE_MAX;
use bridge_core::port::RowsError;
use bridge_core::value::{Subscription, TaskId};
use std::ops::Bound;

impl MemoryRows {
    pub(super) fn find_subscription(
        &self,
        task_id: &TaskId,
        subscription_id: &str,
    ) -> Option<Subscription> {
        let key = (task_id.clone(), subscription_id.to_owned());
        self.subscriptions.get(&key).cloned()
    }

    pub(super) fn list_subscriptions(&self, task_id: &TaskId) -> Vec<Subscription> {
        let first = (task_id.clone(), String::new());
        self.subscriptions
            .range(first..)
            .take_while(|((of, _), _)| of == task_id)
            .map(|(_, one)| one.clone())
            .collect()
    }

    pub(super) fn held_pushes(&self, owner: &str) -> u64 {
        let open = self
            .subscriptions
            .iter()
            .filter(|(_, it)| it.push().is_some() && it.state.is_open());
        let held =
            open.filter(|((id, _), _)| self.find_task(id).is_some_and(|task| task.owner == owner));
        held.count().try_into().unwrap_or(u64::MAX)
    }

    pub(super) fn open_subscriptions(
        &self,
        after: Option<(&TaskId, &str)>,
        limit: u32,
    ) -> Vec<Subscription> {
        let from = match after {
            Some((id, config)) => Bound::Excluded((id.clone(), config.to_owned())),
            None => Bound::Unbounded,
        };
        self.subscriptions
            .range((from, Bound::Unbounded))
            .map(|(_, one)| one)
            .filter(|one| one.state.is_open())
            .take(limit.min(PAGE_MAX) as usize)
            .cloned()
            .collect()
    }

    pub(super) fn put_subscription(&mut self, one: &Subscription) -> Result<(), RowsError> {
        let task = self.find_task(&one.task_id);
        guard(task.is_some(), || {
            format!(
                "subscription {} of task {}",
                one.subscription_id, one.task_id
            )
        })?;
        let key = (one.task_id.clone(), one.subscription_id.clone());
        self.subscriptions.put(key, one.clone());
        Ok(())
    }

    pub(super) fn drop_subscription(
        &mut self,
        task_id: &TaskId,
        subscription_id: &str,
    ) -> Result<(), RowsError> {
        let key = (task_id.clone(), subscription_id.to_owned());
        guard(self.subscriptions.contains(&key), || {
            format!("end of subscription {subscription_id} of task {task_id}")
        })?;
        self.subscriptions.remove(&key);
        Ok(())
    }

    pub(super) fn drop_pushes_of(&mut self, owner: &str) {
        let theirs = |id: &TaskId| {
            let task = self.find_task(id);
            task.is_some_and(|task| task.is_agents(owner))
        };
        let pushes = self.subscriptions.iter();
        let keys = pushes
            .filter(|(_, it)| it.push().is_some())
            .map(|(key, _)| key);
        let gone: Vec<_> = keys.filter(|(id, _)| theirs(id)).cloned().collect();
        for key in gone {
            self.subscriptions.remove(&key);
        }
    }
}
