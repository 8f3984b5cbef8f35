//! Reading in memory. Written to be obviously right: other stores are compared with it.
//!
//! Nothing is cached or indexed beyond the sorted tables; the cost of a claim grows with what is unfinished.

use super::MemoryRows;
use bridge_core::port::{Head, Read, RowsError, StateCount};
use bridge_core::value::{
    Ack, Answer, ChannelId, Conversation, ConversationId, ExternalId, Hold, Incarnation, ItemEvent,
    Message, MessageId, MessageState, Reply, Request, RequestId, Seq, StateName, Timestamp, Turn,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

fn page(limit: u32) -> usize {
    usize::try_from(crate::page(limit)).unwrap_or(usize::MAX)
}

impl MemoryRows {
    fn open_messages(&self) -> impl Iterator<Item = &Message> {
        self.open
            .iter()
            .filter_map(|(id, ())| self.messages.get(id))
    }

    /// The first waiting message of each conversation with nothing in flight, and why it is held.
    fn first_waiting(&self) -> Vec<(&Message, Option<&Hold>)> {
        let mut busy = BTreeSet::new();
        let mut first: BTreeMap<&ConversationId, (&Message, Option<&Hold>)> = BTreeMap::new();
        for message in self.open_messages() {
            let conversation = &message.conversation_id;
            if let MessageState::Received { hold } = &message.life.state {
                let entry = first
                    .entry(conversation)
                    .or_insert((message, hold.as_ref()));
                if message.seq < entry.0.seq {
                    *entry = (message, hold.as_ref());
                }
            } else if message.life.state.name().in_flight() {
                busy.insert(conversation);
            }
        }
        first.retain(|conversation, _| !busy.contains(conversation));
        first.into_values().collect()
    }
}

impl Read for MemoryRows {
    fn message(&self, message_id: &MessageId) -> Result<Option<Message>, RowsError> {
        Ok(self.messages.get(message_id).cloned())
    }

    fn message_by_external(
        &self,
        channel: &ChannelId,
        external_id: &ExternalId,
    ) -> Result<Option<Message>, RowsError> {
        let key = (channel.clone(), external_id.clone());
        let id = self.externals.get(&key);
        Ok(id.and_then(|id| self.messages.get(id)).cloned())
    }

    fn message_ids_by_prefix(&self, prefix: &str, limit: u32) -> Result<Vec<MessageId>, RowsError> {
        Ok(self
            .messages
            .range(MessageId::new(prefix)..)
            .map(|(id, _)| id)
            .take_while(|id| id.as_str().starts_with(prefix))
            .take(page(limit))
            .cloned()
            .collect())
    }

    fn newest_messages(&self, limit: u32) -> Result<Vec<Message>, RowsError> {
        Ok(self
            .arrivals
            .iter()
            .rev()
            .filter_map(|(_, id)| self.messages.get(id))
            .take(page(limit))
            .cloned()
            .collect())
    }

    fn conversation(&self, id: &ConversationId) -> Result<Option<Conversation>, RowsError> {
        Ok(self.conversations.get(id).cloned())
    }

    fn conversation_by_key(
        &self,
        channel: &ChannelId,
        external_key: &str,
    ) -> Result<Option<Conversation>, RowsError> {
        let key = (channel.clone(), external_key.to_owned());
        let id = self.conversation_keys.get(&key);
        Ok(id.and_then(|id| self.conversations.get(id)).cloned())
    }

    fn last_seq(&self, id: &ConversationId) -> Result<Option<Seq>, RowsError> {
        let all = (id.clone(), Seq(i64::MIN))..=(id.clone(), Seq(i64::MAX));
        Ok(self.seqs.range(all).next_back().map(|((_, seq), _)| *seq))
    }

    fn unanswered_before(
        &self,
        id: &ConversationId,
        seq: Seq,
    ) -> Result<Option<MessageId>, RowsError> {
        let before = (id.clone(), Seq(i64::MIN))..(id.clone(), seq);
        Ok(self
            .seqs
            .range(before)
            .map(|(_, id)| id)
            .find(|id| {
                self.messages
                    .get(id)
                    .is_some_and(|message| message.life.state.name().awaits_answer())
            })
            .cloned())
    }

    fn turn(&self, message_id: &MessageId, attempt: u32) -> Result<Option<Turn>, RowsError> {
        Ok(self.turns.get(&(message_id.clone(), attempt)).cloned())
    }

    fn answer(&self, message_id: &MessageId) -> Result<Option<Answer>, RowsError> {
        Ok(self.answers.get(message_id).cloned())
    }

    fn replies(&self, message_id: &MessageId) -> Result<Vec<Reply>, RowsError> {
        let all = (message_id.clone(), 0)..=(message_id.clone(), u32::MAX);
        let replies = self.replies.range(all);
        Ok(replies.map(|(_, reply)| reply.clone()).collect())
    }

    fn next_reply(&self, id: &ConversationId) -> Result<Option<Reply>, RowsError> {
        let lane = (id.clone(), Seq(i64::MIN), 0)..=(id.clone(), Seq(i64::MAX), u32::MAX);
        let first = self.lanes.range(lane).next();
        Ok(first
            .and_then(|((_, _, ordinal), id)| self.replies.get(&(id.clone(), *ordinal)))
            .cloned())
    }

    fn lanes(
        &self,
        after: Option<&ConversationId>,
        limit: u32,
    ) -> Result<Vec<ConversationId>, RowsError> {
        let lanes: BTreeSet<_> = self
            .lanes
            .iter()
            .map(|((id, _, _), _)| id)
            .filter(|id| after.is_none_or(|after| *id > after))
            .collect();
        Ok(lanes.into_iter().take(page(limit)).cloned().collect())
    }

    fn ack(&self, message_id: &MessageId) -> Result<Option<Ack>, RowsError> {
        Ok(self.acks.get(message_id).copied())
    }

    fn heads(&self, now: Timestamp, limit: u32) -> Result<Vec<Head>, RowsError> {
        let mut due: Vec<&Message> = self
            .first_waiting()
            .into_iter()
            .filter(|(_, hold)| hold.is_none_or(|hold| hold.until <= now))
            .map(|(message, _)| message)
            .collect();
        due.sort_by_key(|message| (message.kind, message.received_at, &message.message_id));
        Ok(due
            .into_iter()
            .filter_map(|message| {
                let conversation = self.conversations.get(&message.conversation_id)?;
                Some(Head {
                    message: message.clone(),
                    conversation: conversation.clone(),
                })
            })
            .take(page(limit))
            .collect())
    }

    fn next_due(&self) -> Result<Option<Timestamp>, RowsError> {
        let held = self.first_waiting();
        Ok(held
            .into_iter()
            .filter_map(|(_, hold)| hold.map(|hold| hold.until))
            .min())
    }

    fn in_flight(&self) -> Result<u32, RowsError> {
        let flying = self
            .open_messages()
            .filter(|message| message.life.state.name().in_flight());
        Ok(u32::try_from(flying.count()).unwrap_or(u32::MAX))
    }

    fn backlog(&self) -> Result<u32, RowsError> {
        Ok(u32::try_from(self.open.len()).unwrap_or(u32::MAX))
    }

    fn unfinished(&self, after: Option<&MessageId>, limit: u32) -> Result<Vec<Message>, RowsError> {
        let start = after.cloned().map_or(Bound::Unbounded, Bound::Excluded);
        Ok(self
            .open
            .range((start, Bound::Unbounded))
            .filter_map(|(id, ())| self.messages.get(id))
            .take(page(limit))
            .cloned()
            .collect())
    }

    fn counts(&self) -> Result<Vec<StateCount>, RowsError> {
        let mut counts: BTreeMap<StateName, u64> = BTreeMap::new();
        for (_, message) in self.messages.iter() {
            *counts.entry(message.life.state.name()).or_default() += 1;
        }
        Ok(counts
            .into_iter()
            .map(|(state, count)| StateCount { state, count })
            .collect())
    }

    fn events(
        &self,
        message_id: &MessageId,
        after: u32,
        limit: u32,
    ) -> Result<Vec<ItemEvent>, RowsError> {
        let start = Bound::Excluded((message_id.clone(), after));
        let end = Bound::Included((message_id.clone(), u32::MAX));
        Ok(self
            .events
            .range((start, end))
            .take(page(limit))
            .map(|(_, event)| event.clone())
            .collect())
    }

    fn last_event(&self, message_id: &MessageId) -> Result<u32, RowsError> {
        let all = (message_id.clone(), 0)..=(message_id.clone(), u32::MAX);
        let last = self.events.range(all).next_back();
        Ok(last.map_or(0, |((_, ordinal), _)| *ordinal))
    }

    fn request(&self, request_id: &RequestId) -> Result<Option<Request>, RowsError> {
        Ok(self.requests.get(request_id).cloned())
    }

    fn requests(&self, message_id: &MessageId) -> Result<Vec<Request>, RowsError> {
        let all = (message_id.clone(), 0)..=(message_id.clone(), u64::MAX);
        Ok(self
            .asked
            .range(all)
            .filter_map(|(_, id)| self.requests.get(id))
            .cloned()
            .collect())
    }

    fn live_incarnations(&self) -> Result<Vec<Incarnation>, RowsError> {
        let mut live: Vec<Incarnation> = self
            .incarnations
            .iter()
            .map(|(_, incarnation)| incarnation)
            .filter(|incarnation| incarnation.ended_at.is_none())
            .cloned()
            .collect();
        live.sort_by(|a, b| {
            (a.started_at, &a.incarnation_id).cmp(&(b.started_at, &b.incarnation_id))
        });
        Ok(live)
    }
}
