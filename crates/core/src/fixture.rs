//! Rows for unit tests: one message of one conversation, in the state the test asks for.

use crate::value::{
    ChannelId, ConversationId, ExternalId, Life, Message, MessageId, MessageState, SenderKind, Seq,
    Tier, Timestamp,
};

/// Message `m` of conversation `c`, received at 0.
pub(crate) fn message(state: MessageState, change: impl FnOnce(&mut Life)) -> Message {
    let mut life = Life::new(Timestamp(0));
    life.state = state;
    change(&mut life);
    Message {
        message_id: MessageId::new("m"),
        conversation_id: ConversationId::new("c"),
        seq: Seq(1),
        channel: ChannelId::new("local"),
        external_id: ExternalId::new("e"),
        kind: SenderKind::Person,
        sender: "me".to_owned(),
        tier: Tier::Owner,
        body: "do it".to_owned(),
        received_at: Timestamp(0),
        life,
    }
}
