//! Turns at work, in memory.

use super::MemoryRows;
use bridge_core::port::{Flight, Workplace};

impl MemoryRows {
    pub(super) fn turns_at_work(&self, workdirs: &[String]) -> Vec<Flight> {
        let each = self
            .open_messages()
            .filter(|message| message.life.state.takes_place())
            .filter_map(|message| {
                let conversation = self.conversations.get(&message.conversation_id)?;
                let at = workdirs.contains(&conversation.workdir).then(|| Workplace {
                    workdir: conversation.workdir.clone(),
                    tier: message.tier,
                    given: self.given(&message.conversation_id),
                });
                Some(Flight {
                    channel: message.channel.clone(),
                    sender: message.sender.clone(),
                    tier: message.tier,
                    kind: message.kind,
                    turns: 1,
                    waiting: self.is_asked(&message.message_id).into(),
                    suspects: message.life.suspect.into(),
                    at,
                })
            });
        Flight::gather(each)
    }
}
