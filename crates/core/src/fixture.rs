//! Rows for unit tests: one message of one conversation, in the state the test asks for.

use crate::value::{
    ChannelId, ConversationId, Deciders, EffectDigest, ExternalId, IncarnationId, Life, Message,
    MessageId, MessageState, Request, RequestId, RequestKind, RequestState, Round, SenderKind, Seq,
    Tier, Timestamp, Wants,
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
        attachments: Vec::new(),
        said_at: Timestamp(0),
        hops: 0,
        round: Round(1),
        received_at: Timestamp(0),
        trace: None,
        life,
    }
}

/// An approval request of its turn, with an hour to decide.
pub(crate) fn request(state: RequestState) -> Request {
    Request {
        request_id: RequestId::new("k3v9qaxxxxxxxxxxxxxxxxxxxx"),
        message_id: MessageId::new("m"),
        attempt: 1,
        incarnation: IncarnationId::new("i"),
        rpc_id: "0".to_owned(),
        item_id: None,
        method: "item/commandExecution/requestApproval".to_owned(),
        kind: RequestKind::Command,
        headline: "run make".to_owned(),
        shown: "make".to_owned(),
        digest: EffectDigest::of(&RequestKind::Command, "make"),
        payload: "{}".to_owned(),
        wants: Wants::Approval,
        secret_answer: false,
        deciders: Deciders::Sender,
        state,
        created_at: Timestamp(0),
        deadline: Timestamp(3_600_000),
        effect: None,
        reminded: false,
        resends: 0,
    }
}
