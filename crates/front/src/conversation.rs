//! Conversations as JSON.

use crate::view::MessageView;
use bridge_core::value::Conversation;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Answer to `GET /v1/conversations`: newest first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ConversationList {
    /// The conversations.
    pub conversations: Vec<ConversationView>,
    /// What to give as `before` for the next page; absent on the last one.
    pub next: Option<String>,
}

/// A conversation.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ConversationView {
    /// Its id.
    pub conversation_id: String,
    /// The channel.
    pub channel: String,
    /// The platform's name for it.
    pub key: String,
    /// Codex's thread.
    pub thread_id: Option<String>,
    /// Where it works.
    pub workdir: String,
    /// Milliseconds since the epoch.
    pub created_at: i64,
}

/// Answer to `GET /v1/conversations/{id}`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ConversationStory {
    /// Which.
    #[serde(flatten)]
    pub conversation: ConversationView,
    /// Its messages, newest first.
    pub messages: Vec<MessageView>,
    /// What to give as `before` for the next page; absent on the last one.
    pub next: Option<String>,
}

impl From<Conversation> for ConversationView {
    fn from(conversation: Conversation) -> Self {
        Self {
            conversation_id: conversation.conversation_id.to_string(),
            channel: conversation.channel.to_string(),
            key: conversation.external_key,
            thread_id: conversation.thread.map(|thread| thread.to_string()),
            workdir: conversation.workdir,
            created_at: conversation.created_at.0,
        }
    }
}
