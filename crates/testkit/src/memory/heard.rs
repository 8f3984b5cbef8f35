//! What agents said, in memory: what their budgets are counted from.

use super::MemoryRows;
use bridge_core::port::Heard;
use bridge_core::value::{ChannelId, ConversationId, Message, SenderKind, Seq, Timestamp};
use std::cmp::Reverse;

impl MemoryRows {
    pub(super) fn heard_of(&self, channel: &ChannelId, sender: &str, most: usize) -> Vec<Heard> {
        let newest = self.arrivals.iter().rev();
        let mut heard: Vec<Heard> = newest
            .filter_map(|(_, id)| self.messages.get(id))
            .filter(|message| is_of(message, channel, sender))
            .map(Heard::of)
            .collect();
        heard.sort_by_key(|heard| Reverse(heard.said_at));
        heard.truncate(most);
        heard
    }

    pub(super) fn heard_within(
        &self,
        id: &ConversationId,
        sender: &str,
        most: usize,
    ) -> Vec<Heard> {
        let all = (id.clone(), Seq(i64::MIN))..=(id.clone(), Seq(i64::MAX));
        let said = self.seqs.range(all).rev();
        said.filter_map(|(_, id)| self.messages.get(id))
            .filter(|message| message.kind == SenderKind::Agent && message.sender == sender)
            .map(Heard::of)
            .take(most)
            .collect()
    }

    pub(super) fn nth_said(
        &self,
        channel: &ChannelId,
        sender: &str,
        nth: u32,
    ) -> Option<Timestamp> {
        let messages = self.messages.iter().map(|(_, message)| message);
        let mut said: Vec<Timestamp> = messages
            .filter(|message| is_of(message, channel, sender))
            .map(|message| message.said_at)
            .collect();
        said.sort_by_key(|at| Reverse(*at));
        let nth = usize::try_from(nth.saturating_sub(1)).unwrap_or(usize::MAX);
        said.get(nth).copied()
    }
}

fn is_of(message: &Message, channel: &ChannelId, sender: &str) -> bool {
    message.kind == SenderKind::Agent && message.channel == *channel && message.sender == sender
}
