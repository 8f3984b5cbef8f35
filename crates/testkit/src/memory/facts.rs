//! What several questions in memory have in common: who waits first, and which replies are settled.

use super::MemoryRows;
use bridge_core::limits::PAGE_MAX;
use bridge_core::value::{
    ConversationId, Hold, Message, MessageId, MessageState, Reply, ReplyState, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn page(limit: u32) -> usize {
    usize::try_from(limit.min(PAGE_MAX)).unwrap_or(usize::MAX)
}

impl MemoryRows {
    pub(super) fn open_messages(&self) -> impl Iterator<Item = &Message> {
        self.open
            .iter()
            .filter_map(|(id, ())| self.messages.get(id))
    }

    /// The first waiting message of each conversation with nothing in flight, and why it is held.
    pub(super) fn first_waiting(&self) -> Vec<(&Message, Option<&Hold>)> {
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
            } else if message.life.state.name().awaits_answer() {
                busy.insert(conversation);
            }
        }
        first.retain(|conversation, _| !busy.contains(conversation));
        first.into_values().collect()
    }

    pub(super) fn settled(&self, id: &MessageId) -> bool {
        let all = (id.clone(), 0)..=(id.clone(), u32::MAX);
        self.replies
            .range(all)
            .all(|(_, reply)| reply.state.settled())
    }
}

pub(super) fn sent_at(reply: &Reply) -> Option<Timestamp> {
    match reply.state {
        ReplyState::Sent { at, .. } => at,
        ReplyState::Queued { .. } | ReplyState::Sending | ReplyState::Dead { .. } => None,
    }
}

pub(super) fn parked_until(message: &Message) -> Option<Timestamp> {
    match &message.life.state {
        MessageState::Parked { until, .. } => Some(*until),
        _ => None,
    }
}
