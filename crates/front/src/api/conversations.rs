//! Conversations: their JSON form, the list, and one with its messages.

use super::extract::{PageQuery, Params, Who};
use super::messages::rows_of;
use super::{Context, ProblemResponse};
use crate::message_view::MessageRows;
use crate::{BridgeService, MessageView};
use axum::Json;
use axum::extract::{Path, State};
use bridge_core::port::{Read, RowsError};
use bridge_core::step::Claim;
use bridge_core::value::{Conversation, ConversationId, MessageId};
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
    /// The conversation.
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

pub(super) async fn list<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
    Params(page): Params<PageQuery>,
) -> Result<Json<ConversationList>, ProblemResponse> {
    let limit = page.limit();
    let before = page.before.map(ConversationId::new);
    let found = service
        .read(move |rows| rows.conversations(before.as_ref(), limit))
        .await?;
    let next = PageQuery::next(&found, limit, |last| last.conversation_id.to_string());
    let seen = found
        .into_iter()
        .filter(|conversation| caller.sees_conversation(conversation));
    let conversations: Vec<_> = seen.map(ConversationView::from).collect();
    Ok(Json(ConversationList {
        conversations,
        next,
    }))
}

pub(super) async fn show<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
    Path(id): Path<String>,
    Params(page): Params<PageQuery>,
) -> Result<Json<ConversationStory>, ProblemResponse> {
    let (now, claim, limit) = (service.now(), service.claim(), page.limit());
    let found = service
        .read(move |rows| story(rows, &ConversationId::new(id), &page, &claim))
        .await?;
    let seen = found.filter(|(conversation, _)| caller.sees_conversation(conversation));
    let Some((conversation, messages)) = seen else {
        return Err(ProblemResponse::not_found("there is no such conversation"));
    };
    let messages: Vec<MessageView> = messages.into_iter().map(|rows| rows.view(now)).collect();
    let next = PageQuery::next(&messages, limit, |last| last.message_id.clone());
    Ok(Json(ConversationStory {
        conversation: conversation.into(),
        messages,
        next,
    }))
}

type Story = (Conversation, Vec<MessageRows>);

fn story(
    rows: &dyn Read,
    id: &ConversationId,
    page: &PageQuery,
    claim: &Claim,
) -> Result<Option<Story>, RowsError> {
    let Some(conversation) = rows.conversation(id)? else {
        return Ok(None);
    };
    let before = match &page.before {
        Some(before) => rows.message(&MessageId::new(before.clone()))?,
        None => None,
    };
    let mut messages = Vec::new();
    for message in rows.messages_before(id, before.map(|message| message.seq), page.limit())? {
        messages.extend(rows_of(rows, &message.message_id, claim)?);
    }
    Ok(Some((conversation, messages)))
}
