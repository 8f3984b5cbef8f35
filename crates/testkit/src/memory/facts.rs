//! What several questions in memory have in common: who waits first, what is over, what is owed.

use super::MemoryRows;
use bridge_core::limits::PAGE_MAX;
use bridge_core::value::{
    Ack, AckMode, AckState, ConversationId, Hold, Message, MessageId, MessageState, Reply,
    ReplyState, StateName, Timestamp,
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

    /// Whether a message has come to its end, with nothing of it on its way.
    pub(super) fn is_over(&self, id: &MessageId) -> bool {
        let ended = self.messages.get(id).is_some_and(|message| {
            let state = message.life.state.name();
            state.finished() || state == StateName::Replied
        });
        ended && self.settled(id)
    }

    /// Whether an ack may be given now.
    pub(super) fn payable(&self, id: &MessageId, ack: &Ack) -> bool {
        ack.state == AckState::Due
            && match ack.mode {
                AckMode::None => false,
                AckMode::OnCustody => true,
                AckMode::AfterReply => self.is_over(id),
            }
    }

    pub(super) fn settled(&self, id: &MessageId) -> bool {
        let all = (id.clone(), 0)..=(id.clone(), u32::MAX);
        self.replies
            .range(all)
            .all(|(_, reply)| reply.state.settled())
    }

    pub(super) fn owes_nothing(&self, id: &MessageId) -> bool {
        let due = self
            .acks
            .get(id)
            .is_some_and(|ack| ack.state == AckState::Due);
        !due && self.settled(id)
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
