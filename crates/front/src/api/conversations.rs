//! Conversations: list them, and show one with its messages.

use super::messages::rows_of;
use super::page::Page;
use super::read::Params;
use super::{Context, ProblemResponse};
use crate::conversation::{ConversationList, ConversationStory, ConversationView};
use crate::view::MessageRows;
use crate::{BridgeService, MessageView};
use axum::Json;
use axum::extract::{Path, State};
use bridge_core::port::{Ledger, Read, RowsError};
use bridge_core::step::Claim;
use bridge_core::value::{Conversation, ConversationId, MessageId};

pub(super) async fn list<D: BridgeService>(
    State(context): State<Context<D>>,
    Params(page): Params<Page>,
) -> Result<Json<ConversationList>, ProblemResponse> {
    let limit = page.limit();
    let before = page.before.map(ConversationId::new);
    let found = context
        .service
        .ledger()
        .read(move |rows| rows.conversations(before.as_ref(), limit))
        .await?;
    let conversations: Vec<_> = found.into_iter().map(ConversationView::from).collect();
    let next = Page::next(&conversations, limit, |last| last.conversation_id.clone());
    Ok(Json(ConversationList {
        conversations,
        next,
    }))
}

pub(super) async fn show<D: BridgeService>(
    State(context): State<Context<D>>,
    Path(id): Path<String>,
    Params(page): Params<Page>,
) -> Result<Json<ConversationStory>, ProblemResponse> {
    let (now, claim, limit) = (context.service.now(), context.service.claim(), page.limit());
    let found = context
        .service
        .ledger()
        .read(move |rows| story(rows, &ConversationId::new(id), &page, &claim))
        .await?;
    let Some((conversation, messages)) = found else {
        return Err(ProblemResponse::not_found("there is no such conversation"));
    };
    let messages: Vec<MessageView> = messages.into_iter().map(|rows| rows.view(now)).collect();
    let next = Page::next(&messages, limit, |last| last.message_id.clone());
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
    page: &Page,
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
