//! Tasks in memory, what their owners said, and what senders' turns cost.

use super::MemoryRows;
use super::apply::{found, guard};
use super::derived::page;
use bridge_core::budget::{DayBudget, Meter};
use bridge_core::port::{RowsError, TaskQuery};
use bridge_core::value::{
    A2aTask, ChannelId, MessageId, RequestId, StateName, TaskId, TaskInput, TaskInputKind,
    Timestamp,
};
use std::cmp::Reverse;

impl MemoryRows {
    pub(super) fn find_a2a_task(&self, id: &TaskId) -> Option<A2aTask> {
        self.a2a_tasks.get(id).map(|(task, _)| task.clone())
    }

    pub(super) fn task_changed_at(&self, id: &TaskId) -> Option<Timestamp> {
        self.a2a_tasks.get(id).map(|(_, at)| *at)
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

    pub(super) fn list_a2a_tasks(&self, query: &TaskQuery) -> Vec<(A2aTask, Timestamp)> {
        let mut found: Vec<_> = self.tasks_of(query).collect();
        found.sort_by_key(|(task, at)| Reverse((*at, task.task_id.clone())));
        let behind = |(task, at): &(A2aTask, Timestamp)| match &query.before {
            Some((bound, id)) => (at, &task.task_id) < (bound, id),
            None => true,
        };
        let limit = page(query.limit);
        found.into_iter().filter(behind).take(limit).collect()
    }

    pub(super) fn count_a2a_tasks(&self, query: &TaskQuery) -> u64 {
        u64::try_from(self.tasks_of(query).count()).unwrap_or(u64::MAX)
    }

    fn tasks_of(&self, query: &TaskQuery) -> impl Iterator<Item = (A2aTask, Timestamp)> {
        let all = self.a2a_tasks.iter().map(|(_, known)| known);
        all.filter(|(task, at)| {
            task.owner == query.owner
                && query
                    .conversation
                    .as_ref()
                    .is_none_or(|id| task.conversation_id == *id)
                && query.since.is_none_or(|since| *at >= since)
        })
        .cloned()
    }

    pub(super) fn new_a2a_task(&mut self, task: &A2aTask) -> Result<(), RowsError> {
        let id = &task.task_id;
        let holds =
            !self.a2a_tasks.contains(id) && self.conversations.contains(&task.conversation_id);
        guard(holds, || format!("new task {id}"))?;
        let at = task.created_at;
        self.a2a_tasks.put(id.clone(), (task.clone(), at));
        Ok(())
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
        let known = self.a2a_tasks.contains(&input.task_id);
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
            .a2a_tasks
            .get(id)
            .filter(|(known, _)| known.sequence <= sequence);
        let (task, at) = found(known, || format!("news of task {id}"))?.clone();
        self.a2a_tasks
            .put(id.clone(), (A2aTask { sequence, ..task }, at));
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
        let older = self.a2a_tasks.get(id).filter(|(_, before)| *before < at);
        if let Some((task, _)) = older.cloned() {
            self.a2a_tasks.put(id.clone(), (task, at));
        }
    }

    /// A input goes with its message, and the task with its last one.
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
        for push in self.list_pushes(&task_id) {
            self.drop_push(&task_id, &push.config_id)?;
        }
        for input in inputs {
            self.inputs.remove(&(input.task_id, input.ordinal));
        }
        self.a2a_tasks.remove(&task_id);
        Ok(())
    }

    /// What the turns of a sender cost, newest first; claimed messages count already.
    fn costs(&self, channel: &ChannelId, sender: &str, since: Timestamp) -> Vec<(Timestamp, u64)> {
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
