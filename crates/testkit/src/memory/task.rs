//! Tasks and their inputs in memory, and what senders' turns cost.

use super::MemoryRows;
use super::apply::{found, guard};
use super::derived::page;
use bridge_core::budget::{DayBudget, Meter};
use bridge_core::port::{RowsError, TaskQuery};
use bridge_core::value::{
    ChannelId, ConversationId, MessageId, RequestId, Sandbox, StateName, Task, TaskId, TaskInput,
    TaskInputKind, Timestamp,
};
use std::cmp::Reverse;

impl MemoryRows {
    pub(super) fn find_task(&self, id: &TaskId) -> Option<Task> {
        self.tasks.get(id).map(|(task, _)| task.clone())
    }

    pub(super) fn task_changed_at(&self, id: &TaskId) -> Option<Timestamp> {
        self.tasks.get(id).map(|(_, at)| *at)
    }

    pub(super) fn inputs_of(&self, id: &TaskId) -> Vec<TaskInput> {
        let all = (id.clone(), 0)..=(id.clone(), u32::MAX);
        self.inputs
            .range(all)
            .map(|(_, input)| input.clone())
            .collect()
    }

    pub(super) fn task_with(&self, id: &MessageId) -> Option<TaskId> {
        self.input_of.get(id).map(|(task_id, _)| task_id.clone())
    }

    /// A task stands as its newest message does, so that one goes last: never before an earlier one that is kept
    /// longer.
    pub(super) fn may_leave_its_task(
        &self,
        id: &MessageId,
        state: StateName,
        before: Timestamp,
    ) -> bool {
        let Some((task_id, ordinal)) = self.input_of.get(id) else {
            return true;
        };
        let dead = |state: StateName| state == StateName::Dead;
        let goes = |id: &MessageId| {
            let known = self.messages.get(id).map(|known| &known.life);
            known.is_none_or(|life| {
                let theirs = life.state.name();
                theirs.finished() && dead(theirs) == dead(state) && life.updated_at < before
            })
        };
        self.inputs
            .range((task_id.clone(), 0)..(task_id.clone(), *ordinal))
            .all(|(_, input)| match &input.kind {
                TaskInputKind::Message(id) => goes(id),
                TaskInputKind::Answer(_) | TaskInputKind::End => true,
            })
    }

    pub(super) fn list_agent_tasks(&self, query: &TaskQuery) -> Vec<(Task, Timestamp)> {
        let mut found: Vec<_> = self.tasks_of(query).collect();
        found.sort_by_key(|(task, at)| Reverse((*at, task.task_id.clone())));
        let behind = |(task, at): &(Task, Timestamp)| match &query.before {
            Some((bound, id)) => (at, &task.task_id) < (bound, id),
            None => true,
        };
        let limit = page(query.limit);
        found.into_iter().filter(behind).take(limit).collect()
    }

    pub(super) fn count_agent_tasks(&self, query: &TaskQuery) -> u64 {
        u64::try_from(self.tasks_of(query).count()).unwrap_or(u64::MAX)
    }

    fn tasks_of(&self, query: &TaskQuery) -> impl Iterator<Item = (Task, Timestamp)> {
        let all = self.tasks.iter().map(|(_, known)| known);
        all.filter(|(task, at)| {
            task.is_agents(&query.owner)
                && query
                    .conversation
                    .as_ref()
                    .is_none_or(|id| task.conversation_id == *id)
                && query.since.is_none_or(|since| *at >= since)
        })
        .cloned()
    }

    pub(super) fn new_task(&mut self, task: &Task) -> Result<(), RowsError> {
        let id = &task.task_id;
        let taken =
            task.start.is_some() && self.task_of_conversation(&task.conversation_id).is_some();
        let holds = !self.tasks.contains(id)
            && !taken
            && self.conversations.contains(&task.conversation_id);
        guard(holds, || format!("new task {id}"))?;
        if task.start.is_some() {
            let last = self.started.iter().next_back();
            let row = last.map_or(1, |(last, _)| last + 1);
            self.started.put(row, id.clone());
        }
        self.tasks.put(id.clone(), (task.clone(), task.created_at));
        Ok(())
    }

    pub(super) fn task_of_conversation(&self, id: &ConversationId) -> Option<Task> {
        let mut started = self.started.iter().filter_map(|(_, id)| self.find_task(id));
        started.find(|task| task.conversation_id == *id)
    }

    /// What turns of a conversation may touch, where its task or its first message says so.
    pub(super) fn given(&self, id: &ConversationId) -> Option<Sandbox> {
        let task = self.task_of_conversation(id);
        let of_task = task.and_then(|task| task.terms().map(|terms| terms.sandbox));
        of_task.or_else(|| self.conversations.get(id)?.sandbox)
    }

    pub(super) fn started_by_prefix(&self, prefix: &str, limit: usize) -> Vec<Task> {
        let mut found = self.newest_started(None, usize::MAX);
        found.retain(|task| task.task_id.as_str().starts_with(prefix));
        found.sort_by(|a, b| a.task_id.cmp(&b.task_id));
        found.truncate(limit);
        found
    }

    pub(super) fn newest_started(&self, before: Option<&TaskId>, limit: usize) -> Vec<Task> {
        let row = |id: &TaskId| {
            let mut rows = self.started.iter();
            rows.find(|(_, known)| *known == id).map(|(row, _)| *row)
        };
        let bound = before.map(row);
        self.started
            .iter()
            .rev()
            .filter(|(row, _)| match bound {
                None => true,
                Some(None) => false,
                Some(Some(bound)) => **row < bound,
            })
            .filter_map(|(_, id)| self.find_task(id))
            .take(limit)
            .collect()
    }

    pub(super) fn new_input(&mut self, input: &TaskInput) -> Result<(), RowsError> {
        let key = (input.task_id.clone(), input.ordinal);
        let fits = match &input.kind {
            TaskInputKind::Message(id) => self.messages.contains(id) && !self.input_of.contains(id),
            TaskInputKind::Answer(_) | TaskInputKind::End => true,
        };
        let keyed = match &input.kind {
            TaskInputKind::Answer(_) => true,
            TaskInputKind::Message(_) | TaskInputKind::End => input.idempotency_key.is_none(),
        };
        let known = self.tasks.contains(&input.task_id);
        guard(
            known && fits && keyed && !self.inputs.contains(&key),
            || format!("new input {}/{}", input.task_id, input.ordinal),
        )?;
        if let TaskInputKind::Message(id) = &input.kind {
            self.input_of.put(id.clone(), key.clone());
        }
        self.inputs.put(key, input.clone());
        self.move_task(&input.task_id, input.at);
        Ok(())
    }

    pub(super) fn task_sequence(&mut self, id: &TaskId, sequence: u64) -> Result<(), RowsError> {
        let known = self
            .tasks
            .get(id)
            .filter(|(known, _)| known.sequence <= sequence);
        let (task, at) = found(known, || format!("news of task {id}"))?.clone();
        self.tasks.put(id.clone(), (Task { sequence, ..task }, at));
        Ok(())
    }

    /// A message changed, and with it the task that it is of.
    pub(super) fn touch_task(&mut self, id: &MessageId, at: Timestamp) {
        if let Some(task_id) = self.task_with(id) {
            self.move_task(&task_id, at);
        }
    }

    /// A question was decided.
    pub(super) fn touch_task_by_request(&mut self, id: &RequestId, at: Timestamp) {
        let message_id = self.requests.get(id).map(|known| known.message_id.clone());
        if let Some(message_id) = message_id {
            self.touch_task(&message_id, at);
        }
    }

    fn move_task(&mut self, id: &TaskId, at: Timestamp) {
        let older = self.tasks.get(id).filter(|(_, before)| *before < at);
        if let Some((task, _)) = older.cloned() {
            self.tasks.put(id.clone(), (task, at));
        }
    }

    /// An input goes with its message, and the task with its last one.
    pub(super) fn forget_input(&mut self, id: &MessageId) -> Result<(), RowsError> {
        let Some(key) = self.input_of.get(id).cloned() else {
            return Ok(());
        };
        self.input_of.remove(id);
        self.inputs.remove(&key);
        let (task_id, _) = key;
        let inputs = self.inputs_of(&task_id);
        let of_message = |input: &TaskInput| matches!(input.kind, TaskInputKind::Message(_));
        if inputs.iter().any(of_message) {
            return Ok(());
        }
        for one in self.list_subscriptions(&task_id) {
            self.drop_subscription(&task_id, &one.subscription_id)?;
        }
        let row = self.started.iter().find(|(_, id)| **id == task_id);
        if let Some(row) = row.map(|(row, _)| *row) {
            self.started.remove(&row);
        }
        for input in inputs {
            self.inputs.remove(&(input.task_id, input.ordinal));
        }
        self.tasks.remove(&task_id);
        Ok(())
    }

    /// What the turns of a sender cost, newest first; claimed messages count already.
    pub(super) fn costs(
        &self,
        channel: &ChannelId,
        sender: &str,
        since: Timestamp,
    ) -> Vec<(Timestamp, u64)> {
        let theirs = |id: &MessageId| {
            let known = self.messages.get(id);
            known.filter(|known| known.channel == *channel && known.sender == sender)
        };
        let mut claimed: Vec<_> = self
            .open
            .iter()
            .filter_map(|(id, ())| theirs(id))
            .filter(|message| message.life.state.name() == StateName::Claimed)
            .map(|message| (message.life.updated_at, 0))
            .collect();
        let mut turns: Vec<_> = self
            .turns
            .iter()
            .filter(|((id, _), _)| theirs(id).is_some())
            .map(|(_, turn)| {
                let tokens = |count: i64| u64::try_from(count).unwrap_or(0);
                let (read, written) = (turn.usage.input_tokens, turn.usage.output_tokens);
                (
                    turn.started_at,
                    tokens(read).saturating_add(tokens(written)),
                )
            })
            .collect();
        claimed.sort_by_key(|(at, _)| Reverse(*at));
        turns.sort_by_key(|(at, _)| Reverse(*at));
        claimed.append(&mut turns);
        claimed.retain(|(at, _)| *at > since);
        claimed
    }

    pub(super) fn reached_by(
        &self,
        channel: &ChannelId,
        sender: &str,
        since: Timestamp,
        budget: DayBudget,
    ) -> Option<Timestamp> {
        let mut meter = Meter::new(budget);
        self.costs(channel, sender, since)
            .into_iter()
            .find_map(|(at, tokens)| meter.add(at, tokens))
    }
}
