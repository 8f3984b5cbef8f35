//! Conversations: their JSON form, the list, and one with its messages.

use super::extract::{PageQuery, Params, Who};
use super::messages::rows_of;
use super::nodes::node_of;
use super::operator::first_line;
use super::{Context, ProblemResponse};
use crate::Time;
use crate::message_view::MessageRows;
use crate::{BridgeService, Caller, MessageView};
use axum::Json;
use axum::extract::{Path, State};
use bridge_core::limits::ACTIVE_MESSAGES;
use bridge_core::phase::Phase;
use bridge_core::port::{Read, RowsError, readable};
use bridge_core::step::Claim;
use bridge_core::value::{Conversation, ConversationId, MessageId, NodeId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Answer to `GET /v1/conversations`: where something happened last first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ConversationList {
    /// The conversations.
    pub conversations: Vec<ActiveConversation>,
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
    /// When.
    pub created_at: Time,
    /// The node that has it, where several share the database; absent when none has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// A conversation and what happens in it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ActiveConversation {
    /// The conversation.
    #[serde(flatten)]
    pub conversation: ConversationView,
    /// When something last happened in it.
    pub active_at: Time,
    /// Where its first unanswered message is, else its newest: `queued`, `working`, `waiting for you`, `done`, `failed`
    /// or `stopped`. Absent when retention removed its messages.
    pub phase: Option<String>,
    /// Its newest message.
    pub message_id: Option<String>,
    /// The first line of that one.
    pub line: String,
    /// What Codex asks and nobody has decided.
    pub open_requests: u32,
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

impl ConversationView {
    fn new(conversation: Conversation, node: Option<NodeId>) -> Self {
        Self {
            conversation_id: conversation.conversation_id.to_string(),
            channel: conversation.channel.to_string(),
            key: conversation.external_key,
            thread_id: conversation.thread.map(|thread| thread.to_string()),
            workdir: conversation.workdir,
            created_at: conversation.created_at.into(),
            node: node.map(|node| node.to_string()),
        }
    }
}

pub(super) async fn list<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
    Params(page): Params<PageQuery>,
) -> Result<Json<ConversationList>, ProblemResponse> {
    let limit = page.limit();
    let before = match page.before.as_deref().map(place) {
        None => None,
        Some(Some(before)) => Some(before),
        Some(None) => {
            return Err(ProblemResponse::bad_request(
                "`before` must be the `next` of the page before",
            ));
        }
    };
    let (conversations, next) = service
        .read(move |rows| active(rows, &caller, before, limit))
        .await?;
    Ok(Json(ConversationList {
        conversations,
        next,
    }))
}

/// Where a page ends: a time, and the conversation it belongs to.
fn place(before: &str) -> Option<(Timestamp, ConversationId)> {
    let (at, id) = before.split_once('.')?;
    Some((Timestamp(at.parse().ok()?), ConversationId::new(id)))
}

type ActivePage = (Vec<ActiveConversation>, Option<String>);

fn active(
    rows: &dyn Read,
    caller: &Caller,
    before: Option<(Timestamp, ConversationId)>,
    limit: u32,
) -> Result<ActivePage, RowsError> {
    // What a page says of where it ends is about rows that the caller may know of.
    let before = before.as_ref().map(|(at, id)| (*at, id));
    let seen = caller.newest_conversations(rows, before, limit)?;
    let next = PageQuery::next(&seen, limit, |(last, at)| {
        format!("{}.{}", at.0, last.conversation_id)
    });
    let mut shown = Vec::with_capacity(seen.len());
    for (one, at) in seen {
        shown.extend(readable(in_detail(rows, one, at))?);
    }
    Ok((shown, next))
}

fn in_detail(
    rows: &dyn Read,
    conversation: Conversation,
    at: Timestamp,
) -> Result<ActiveConversation, RowsError> {
    let id = &conversation.conversation_id;
    let node = node_of(rows, id)?;
    let newest = rows.messages_before(id, None, 1)?.pop();
    let unanswered = rows.unanswered_of(id, ACTIVE_MESSAGES)?;
    let mut open_requests = 0_u32;
    for message in &unanswered {
        let live = rows.live_requests(&message.message_id)?;
        let open = live.iter().filter(|request| request.state.waits()).count();
        open_requests = open_requests.saturating_add(u32::try_from(open).unwrap_or(u32::MAX));
    }
    let present = unanswered.first().or(newest.as_ref());
    let phase = present.map(|one| Phase::of_message(one, open_requests > 0));
    Ok(ActiveConversation {
        conversation: ConversationView::new(conversation, node),
        active_at: at.into(),
        phase: phase.map(|phase| phase.as_str().to_owned()),
        message_id: newest.as_ref().map(|one| one.message_id.to_string()),
        line: newest.map_or_else(String::new, |one| first_line(&one.body)),
        open_requests,
    })
}

pub(super) async fn show<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
    Path(id): Path<String>,
    Params(page): Params<PageQuery>,
) -> Result<Json<ConversationStory>, ProblemResponse> {
    let (now, claim) = (service.now(), service.claim());
    let found = service
        .read(move |rows| story(rows, &ConversationId::new(id), &page, &claim))
        .await?;
    let seen = found.filter(|story| caller.sees_conversation(&story.conversation));
    let Some(Story {
        conversation,
        node,
        messages,
        next,
    }) = seen
    else {
        return Err(ProblemResponse::not_found("there is no such conversation"));
    };
    let messages = messages.into_iter().map(|rows| rows.view(now, &service));
    let messages: Vec<MessageView> = messages.collect();
    Ok(Json(ConversationStory {
        conversation: ConversationView::new(conversation, node),
        messages,
        next,
    }))
}

struct Story {
    conversation: Conversation,
    node: Option<NodeId>,
    messages: Vec<MessageRows>,
    next: Option<String>,
}

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
    let limit = page.limit();
    let found = rows.messages_before(id, before.map(|message| message.seq), limit)?;
    let next = PageQuery::next(&found, limit, |last| last.message_id.to_string());
    let mut messages = Vec::new();
    for message in found {
        messages.extend(readable(rows_of(rows, &message.message_id, claim))?.flatten());
    }
    Ok(Some(Story {
        node: node_of(rows, id)?,
        conversation,
        messages,
        next,
    }))
}
