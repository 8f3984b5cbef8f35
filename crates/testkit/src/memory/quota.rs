//! Reports of accounts' limits in memory, and who waits for them.

use super::MemoryRows;
use super::derived::page;
use bridge_core::limits::QUOTAS_MAX;
use bridge_core::port::{CapacityWaiters, Head, QueuePosition, QuotaRead, RowsError};
use bridge_core::value::{
    Class, Conversation, Message, MessageId, Quota, Round, SenderKind, Timestamp,
};

/// The order of service.
type Service<'m> = (SenderKind, Round, Timestamp, &'m MessageId);

fn service(message: &Message) -> Service<'_> {
    (
        message.kind,
        message.round,
        message.received_at,
        &message.message_id,
    )
}

impl QuotaRead for MemoryRows {
    fn quotas(&self) -> Result<Vec<Quota>, RowsError> {
        let all = self.quotas.iter().map(|(_, quota)| quota.clone());
        Ok(all.take(page(QUOTAS_MAX)).collect())
    }

    fn held_for_capacity(&self, now: Timestamp, limit: u32) -> Result<Vec<Head>, RowsError> {
        let held = self.first_waiting().into_iter().filter(|(_, hold)| {
            hold.is_some_and(|hold| {
                hold.until > now && matches!(hold.failure.class, Class::Capacity { .. })
            })
        });
        let mut held: Vec<_> = held.map(|(message, _)| message).collect();
        held.sort_by_key(|message| service(message));
        let heads = held.into_iter().filter_map(|message| {
            let conversation = self.conversations.get(&message.conversation_id)?;
            Some(self.head(message, conversation))
        });
        Ok(heads.take(page(limit)).collect())
    }

    fn capacity_waiters(&self, now: Timestamp) -> Result<CapacityWaiters, RowsError> {
        let held = self.held_for_capacity(now, u32::MAX)?;
        let (people, agents): (Vec<_>, Vec<_>) = held
            .iter()
            .partition(|head| head.message.kind == SenderKind::Person);
        Ok(CapacityWaiters {
            people: people.len() as u64,
            agents: agents.len() as u64,
        })
    }

    fn queue_position(&self, message: &Message) -> Result<QueuePosition, RowsError> {
        let waiting = self.first_waiting();
        let ahead = waiting
            .iter()
            .filter(|(other, _)| service(other) < service(message));
        Ok(QueuePosition {
            ahead: ahead.count() as u64,
            waiting: waiting.len() as u64,
        })
    }
}

impl MemoryRows {
    pub(super) fn head(&self, message: &Message, conversation: &Conversation) -> Head {
        let task = self.task_of_conversation(&message.conversation_id);
        Head {
            message: message.clone(),
            conversation: conversation.clone(),
            given: self.given(&message.conversation_id),
            codex_home: task.and_then(|task| task.terms()?.codex_home.clone()),
        }
    }

    pub(super) fn forget_quotas(&mut self, before: Timestamp) {
        let old = self.quotas.iter();
        let old = old.filter(|(_, quota)| quota.reported_at < before);
        let old: Vec<_> = old.map(|(source, _)| source.clone()).collect();
        for source in old {
            self.quotas.remove(&source);
        }
    }
}
