//! Tasks in memory.

use super::MemoryRows;
use super::apply::{found, guard};
use bridge_core::port::RowsError;
use bridge_core::value::{
    ConversationId, MessageId, Notification, NotifyState, Sandbox, Task, TaskId,
};

impl MemoryRows {
    pub(super) fn new_task(&mut self, task: &Task) -> Result<(), RowsError> {
        let known = self.tasks.iter().any(|(_, known)| {
            known.task_id == task.task_id || known.conversation_id == task.conversation_id
        });
        let parents = self.conversations.contains(&task.conversation_id)
            && self.messages.contains(&task.message_id);
        guard(!known && parents, || format!("new task {}", task.task_id))?;
        let last = self.tasks.iter().next_back();
        let row = last.map_or(1, |(last, _)| last + 1);
        self.tasks.put(row, task.clone());
        Ok(())
    }

    pub(super) fn notify(
        &mut self,
        id: &TaskId,
        from: NotifyState,
        to: &Notification,
    ) -> Result<(), RowsError> {
        let known = self.tasks.iter().find(|(_, task)| {
            task.task_id == *id && task.notification.state.as_str() == from.as_str()
        });
        let (row, task) = found(
            known.map(|(row, task)| (*row, task.clone())).as_ref(),
            || format!("notification of task {id}"),
        )?
        .clone();
        let task = Task {
            notification: to.clone(),
            ..task
        };
        self.tasks.put(row, task);
        Ok(())
    }

    /// The task goes with its first message.
    pub(super) fn forget_task(&mut self, message_id: &MessageId) {
        let gone: Vec<_> = self
            .tasks
            .iter()
            .filter(|(_, task)| task.message_id == *message_id)
            .map(|(row, _)| *row)
            .collect();
        for row in gone {
            self.tasks.remove(&row);
        }
    }

    pub(super) fn task_by_id(&self, id: &TaskId) -> Option<&Task> {
        let mut tasks = self.tasks.iter().map(|(_, task)| task);
        tasks.find(|task| task.task_id == *id)
    }

    pub(super) fn task_of_conversation(&self, id: &ConversationId) -> Option<&Task> {
        let mut tasks = self.tasks.iter().map(|(_, task)| task);
        tasks.find(|task| task.conversation_id == *id)
    }

    /// What the task that a conversation is may touch.
    pub(super) fn given(&self, id: &ConversationId) -> Option<Sandbox> {
        self.task_of_conversation(id).map(|task| task.terms.sandbox)
    }

    pub(super) fn newest_tasks(&self, before: Option<&TaskId>, limit: usize) -> Vec<Task> {
        let bound = before.map(|id| self.task_row(id));
        self.tasks
            .iter()
            .rev()
            .filter(|(row, _)| match bound {
                None => true,
                Some(None) => false,
                Some(Some(bound)) => **row < bound,
            })
            .map(|(_, task)| task.clone())
            .take(limit)
            .collect()
    }

    pub(super) fn tasks_untold(&self, after: Option<&TaskId>, limit: usize) -> Vec<Task> {
        let bound = after.and_then(|id| self.task_row(id)).unwrap_or(0);
        self.tasks
            .range(bound + 1..)
            .map(|(_, task)| task)
            .filter(|task| match task.notification.state {
                NotifyState::Pending { .. } | NotifyState::Sending => true,
                NotifyState::NoTarget | NotifyState::Sent { .. } | NotifyState::Failed { .. } => {
                    false
                }
            })
            .take(limit)
            .cloned()
            .collect()
    }

    fn task_row(&self, id: &TaskId) -> Option<u64> {
        let mut rows = self.tasks.iter();
        rows.find(|(_, task)| task.task_id == *id)
            .map(|(row, _)| *row)
    }
}
