//! A platform, the channel that speaks to it, and messages as the ledger would hold them.

use bridge_channel::loopback::{Loopback, Settings};
use bridge_core::port::SinkClass;
use bridge_core::value::{
    ChannelId, ConversationId, ExternalId, Life, Message, MessageId, Reply, ReplyKey, ReplyKind,
    ReplyState, Round, SenderKind, Seq, Tier, Timestamp,
};
use bridge_sim::{Memory, Platform, PlatformOptions};

pub(crate) async fn platform(memory: Memory) -> Platform {
    let options = PlatformOptions {
        memory,
        ..PlatformOptions::default()
    };
    Platform::start(options).await.unwrap()
}

pub(crate) fn channel(platform: &Platform) -> Loopback {
    let settings = Settings {
        url: platform.url(),
        class: SinkClass::Idempotent,
        tier: Tier::Owner,
        kind: SenderKind::Person,
    };
    Loopback::open(settings).unwrap()
}

pub(crate) fn message(external_id: &str) -> Message {
    Message {
        message_id: MessageId::new("m1"),
        conversation_id: ConversationId::new("c1"),
        seq: Seq(1),
        channel: ChannelId::new("loopback"),
        external_id: ExternalId::new(external_id),
        kind: SenderKind::Person,
        sender: "ann".to_owned(),
        tier: Tier::Owner,
        body: "hello".to_owned(),
        attachments: Vec::new(),
        said_at: Timestamp(0),
        hops: 0,
        round: Round(0),
        received_at: Timestamp(0),
        life: Life::new(Timestamp(0)),
    }
}

pub(crate) fn reply(message: &Message) -> Reply {
    Reply {
        message_id: message.message_id.clone(),
        ordinal: 0,
        conversation_id: message.conversation_id.clone(),
        seq: message.seq,
        key: ReplyKey::of(&message.message_id, 0),
        kind: ReplyKind::Answer,
        body: "hi".to_owned(),
        attachments: Vec::new(),
        state: ReplyState::Sending,
        tries: 1,
        first_try_at: Some(Timestamp(0)),
        created_at: Timestamp(0),
    }
}
